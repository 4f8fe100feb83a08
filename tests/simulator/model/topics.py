"""The topics that may exist, and the logs of their partitions."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from tests.simulator.model.log import LogModel

if TYPE_CHECKING:
    from collections.abc import Mapping


class Presence(Enum):
    """Says what clients may know of a topic's existence."""

    ABSENT = "absent"
    PRESENT = "present"
    UNSURE = "unsure"
    """A creation or a deletion had no answer, or the answer was an error of the disk."""


class TopicModel:
    """One topic name over its lives. ``logs`` has the partitions of the present life."""

    def __init__(self, name: str, settings: Mapping[str, str], partitions: int) -> None:
        self.name = name
        self.settings = dict(settings)
        self.partitions = partitions
        self.presence = Presence.ABSENT
        self.topic_id = bytes(16)
        self.old_ids: dict[bytes, None] = {}
        self.is_doubtful = False
        """The disk refused a creation: the next start may find the topic in the catalogue."""
        self.unsure: dict[str, str] = {}
        """Settings that the present life may lack: the disk took its folders, but not those."""
        self._changes = 0
        self._open = 0
        self._is_shared = False
        self.logs = [LogModel(self.settings) for _ in range(partitions)]

    def changing(self) -> int:
        """Note that a creation or a deletion is on its way; return its number."""
        self._changes += 1
        self._open += 1
        self._is_shared = self._open > 1
        self.presence = Presence.UNSURE
        return self._changes

    def is_changed_alone(self, change: int) -> bool:
        """Note the answer to a change; tell whether no other change was on its way meanwhile."""
        self._open -= 1
        is_alone = change == self._changes and not self._is_shared
        if not self._open:
            self._is_shared = False
        return is_alone

    def restarted(self) -> None:
        """Note that no change is on its way any more."""
        self._open = 0
        self._is_shared = False

    def born(self, topic_id: bytes) -> None:
        """Note that the topic was created; what was on its way may reach either life."""
        self.presence = Presence.PRESENT
        self.topic_id = topic_id
        self.unsure = dict(self.settings) if self.is_doubtful else {}
        if self.is_doubtful:
            self.settings.pop("flush.messages", None)  # an acknowledgement may not wait for it
        before, self.logs = self.logs, [LogModel(self.settings) for _ in range(self.partitions)]
        for old, new in zip(before, self.logs, strict=False):
            repeats = {body: [sent] for body, sent in old.again.items()}
            new.perhaps = repeats | {body: list(sent) for body, sent in old.perhaps.items()}
            new.may_start = max((old.stray, *old.deletions))

    def died(self) -> None:
        """Note that the topic was deleted: its id does not come back."""
        self.presence = Presence.ABSENT
        self.old_ids[self.topic_id] = None
