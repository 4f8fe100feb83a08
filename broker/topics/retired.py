"""Names of deleted topics of which groups may still have offsets."""

from collections.abc import Iterable, KeysView, Mapping
from uuid import UUID

from siltstone.broker.topics.topic import Topic


class RetiredNames:
    """The names, each with the id of the topic that was deleted last (loop only).

    A new topic may have such a name. As long as the name is here, offsets that groups commit for
    the new topic have its id; any other offset of the name is of an earlier topic.
    """

    def __init__(self, topics: Mapping[str, Topic]) -> None:
        self._topics = topics
        self._deleted: dict[str, UUID] = {}

    def __len__(self) -> int:
        return len(self._deleted)

    def __contains__(self, name: str) -> bool:
        return name in self._deleted

    @property
    def names(self) -> KeysView[str]:
        """Return the names."""
        return self._deleted.keys()

    def update(self, deleted: Mapping[str, UUID]) -> None:
        """Note deleted topics."""
        self._deleted.update(deleted)

    def remove(self, deleted: Mapping[str, UUID]) -> None:
        """Forget deleted topics, unless a later topic of the same name was deleted since."""
        remove_from(self._deleted, deleted)

    def copy(self) -> dict[str, UUID]:
        """Return a copy of the deleted topics by name."""
        return self._deleted.copy()

    def find_id(self, name: str) -> bytes | None:
        """Return the id of the topic that has a name now."""
        topic = self._topics.get(name)
        return None if topic is None else topic.key

    def new_ids(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the ids of existing topics with these names, as far as the names are retired."""
        topics, deleted = self._topics, self._deleted
        return {name: topics[name].key for name in names if name in deleted and name in topics}


def remove_from(all_deleted: dict[str, UUID], deleted: Mapping[str, UUID]) -> None:
    """Remove deleted topics by name, unless a later topic of the same name was deleted."""
    for name, topic_id in deleted.items():
        if all_deleted.get(name) == topic_id:
            del all_deleted[name]
