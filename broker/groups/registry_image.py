"""The registry of topics as groups see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import KeysView
    from uuid import UUID

    from siltstone.broker.topics.registry import TopicRegistry
    from siltstone.broker.topics.topic import Topic


class RegistryImage:
    """A `TopicImage` of the present topics, which never change within a transition."""

    def __init__(self, registry: TopicRegistry) -> None:
        self._registry = registry

    @property
    def version(self) -> int:
        """The number of changes so far."""
        return self._registry.version

    def names(self) -> KeysView[str]:
        """Return the names of all topics."""
        return self._registry.topics.keys()

    def find(self, name: str) -> Topic | None:
        """Return a topic by its name."""
        return self._registry.topics.get(name)

    def find_id(self, topic_id: UUID) -> Topic | None:
        """Return a topic by its id."""
        return self._registry.by_id.get(topic_id.bytes)
