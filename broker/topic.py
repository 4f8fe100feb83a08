"""One topic as the registry knows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from protocol.names import is_internal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from config.topic import TopicConfig
    from storage.log import Log


class Topic:
    """One topic (loop only). ``logs`` has None for a partition that cannot be served.

    ``description`` is the Metadata answer about it, for `broker.handlers.metadata` to keep; it is
    dropped whenever partitions change.
    """

    __slots__ = ("config", "description", "id", "is_internal", "key", "logs", "name", "overrides")

    def __init__(self, name: str, topic_id: UUID, logs: tuple[Log | None, ...]) -> None:
        self.name = name  # constant, as are id, key and is_internal
        self.id = topic_id
        self.key = topic_id.bytes
        self.is_internal = is_internal(name)
        self.logs = logs
        self.overrides: Mapping[str, str] = {}
        self.config: TopicConfig
        self.description: Any = None

    @property
    def partitions(self) -> int:
        """How many partitions there are, those that cannot be served included."""
        return len(self.logs)
