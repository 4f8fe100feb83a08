"""The records of a transition of a group: applied when they are put, undone on failure."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.protocol.coordinator.group_keys import GroupKey
from siltstone.protocol.records.journal import Row


class _Member(Protocol):
    @property
    def user(self) -> str:
        """The user that brought the member."""


class Machine(Protocol):
    """A group as its records describe it."""

    group_id: str
    topics_seen: int

    @property
    def members(self) -> Mapping[str, _Member]:
        """The members by their ids."""

    def apply(self, key: Any, value: Any, user: str = "") -> None:
        """Apply a record."""

    def value_of(self, key: Any) -> Any:
        """Return the value with which `apply` would restore what the group has now."""


M = TypeVar("M", bound=Machine)


class Changes(Generic[M]):
    """The records of one transition, applied to the group as they are put.

    The records go to the journal before any client sees the change. If the journal refuses them,
    `undo` restores the group. When the outcome is certain, `settle` changes what is outside of the
    group. ``user`` is the user that has sent the request, if a request began the transition.
    """

    __slots__ = ("_before", "_deadlines", "group", "records", "user")

    SAID: ClassVar[frozenset[IntEnum]] = frozenset()
    """Types of members' own words, which may be refused; assignments are not: members would give
    up."""

    def __init__(self, group: M, user: str = "") -> None:
        self.group = group
        self.user = user
        self.records: list[tuple[GroupKey[Any], Any]] = []
        self._before: list[tuple[GroupKey[Any], Any, str]] = []
        self._deadlines: list[tuple[str, Deadline, int | None]] = []

    @property
    def has_words(self) -> bool:
        """Whether members have said what takes memory."""
        return any(key.type in self.SAID and value is not None for key, value in self.records)

    def put(self, kind: IntEnum, name: str, value: Any) -> None:
        """Put a record of a member or an expression; the value None deletes it."""
        key = GroupKey(kind, self.group.group_id, name)
        member = self.group.members.get(name)
        user = "" if member is None else member.user
        self._before.append((key, self.group.value_of(key), user))
        self.records.append((key, value))
        self.group.apply(key, value, self.user)

    def put_group(self, kind: IntEnum, value: Any) -> None:
        """Put a record of the group itself; the value None deletes it."""
        self.put(kind, "", value)

    def start(self, member_id: str, deadline: Deadline, after_ms: int) -> None:
        """Set a member's deadline once all is written; a session's deadline in any case."""
        self._deadlines.append((member_id, deadline, after_ms))

    def cancel(self, member_id: str, *kinds: Deadline) -> None:
        """Cancel a member's deadlines of these kinds once the records are written."""
        self._deadlines += [(member_id, kind, None) for kind in kinds]

    def undo(self) -> None:
        """Restore the group as it was before the first `put`.

        An existing member is alive even if its request was refused, so its session begins again.
        """
        for key, value, user in reversed(self._before):
            self.group.apply(key, value, user)
        self.group.topics_seen = -1
        self._deadlines = [
            each
            for each in self._deadlines
            if each[1] is Deadline.SESSION and each[0] in self.group.members
        ]

    def settle(self, deadlines: Deadlines | None) -> None:
        """Start and cancel deadlines, at the end, when all is written or undone.

        A new group that was refused has no deadlines.
        """
        if deadlines is not None:
            for member_id, deadline, after_ms in self._deadlines:
                if after_ms is None:
                    deadlines.cancel(member_id, deadline)
                else:
                    deadlines.start(member_id, deadline, after_ms)

    def encode(self) -> list[Row]:
        """Return the records as keys and values for the log."""
        return [self.encode_row(key, value) for key, value in self.records]

    @staticmethod
    def encode_row(key: GroupKey[Any], value: Any) -> Row:
        """Return a record as a key and a value for the log."""
        raise NotImplementedError

    @classmethod
    def tombstones(cls, group: M, keys: Iterable[tuple[IntEnum, str]]) -> list[Row]:
        """Return the records that delete what the keys of a group name."""
        return [cls.encode_row(GroupKey(kind, group.group_id, name), None) for kind, name in keys]
