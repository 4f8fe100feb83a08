"""A limit for what the members of all groups have the broker remember.

A member may send metadata as large as a request, and its session outlives its connection; an id
that was given out costs as much as the client id in it. So their bytes are counted over all groups,
and what would go beyond ``group.members.max.bytes`` is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.process.client_limits import MEMBER_BYTES
from siltstone.protocol.coordinator.group_errors import GroupMaxSizeReached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from siltstone.broker.process.client_limits import Limits

_OBJECT_BYTES: Final = 60
_GROUP_BYTES: Final = 1_300
"""What a group costs besides its name, its members and their offsets."""
_CHARACTER_BYTES: Final = 4
EACH_BYTES: Final = 1000
"""What a member, or an id that was given out, costs besides what the client sent."""


class MemberBytes:
    """The bytes of the members of all groups (loop only)."""

    def __init__(self, refuse: Callable[[int], None]) -> None:
        self.size = 0
        self._refuse = refuse

    @classmethod
    def of(cls, limits: Limits) -> MemberBytes:
        """Return a count that a broker's settings limit."""
        return cls(lambda size: limits.check(MEMBER_BYTES, size, GroupMaxSizeReached))

    def check(self, more: int) -> None:
        """Refuse so many more bytes than there are; fewer are always taken.

        Raises:
            GroupMaxSizeReached: group.members.max.bytes would be exceeded.
        """
        if more > 0:
            self._refuse(self.size + more)


class GroupBytes:
    """What one group has of them: ``size`` bytes until it is closed.

    ``refuse`` raises what a group is told that would have too many bytes by itself.
    """

    __slots__ = ("_all", "_refuse", "size")

    def __init__(
        self, everybody: MemberBytes, refuse: Callable[[int], None] = lambda _size: None
    ) -> None:
        self._all = everybody
        self._refuse = refuse
        self.size = 0

    def check(self, more: int) -> None:
        """Refuse so many more bytes than there are.

        Raises:
            GroupMaxSizeReached: group.members.max.bytes would be exceeded, or the group's own
                limit.
        """
        if more > 0:
            self._refuse(self.size + more)
        self._all.check(more)

    def add(self, more: int) -> None:
        """Count more bytes, or fewer."""
        self.size += more
        self._all.size += more

    def close(self) -> None:
        """Count nothing of the group any more."""
        self.add(-self.size)


def size_of_group(group_id: str) -> int:
    """Return how much memory a group takes that has no members."""
    return _GROUP_BYTES + bytes_of((group_id,))


def bytes_of(values: Iterable[str | bytes | None]) -> int:
    """Return how much memory values take that a client has sent."""
    return sum(map(_size_of, values))


def _size_of(value: str | bytes | None) -> int:
    """Return the same for the same text at all times; what Python says of it may grow."""
    if value is None:
        return 0
    is_wide = isinstance(value, str) and not value.isascii()
    return _OBJECT_BYTES + len(value) * (_CHARACTER_BYTES if is_wide else 1)
