"""A limit for what the members of all groups have the broker remember.

A member may send metadata as large as a request, and its session outlives its connection; an id
that was given out costs as much as the client id in it. So their bytes are counted over all groups,
and what would go beyond ``group.members.max.bytes`` is refused. What the members of one user say,
and what their leaders assign, may come to half of that: no user keeps all others out. Clients that
have not logged in have the whole in common, since an address may stand for many or for one.

A member that is refused is told that the coordinator loads, for which all clients wait and ask
again: GROUP_MAX_SIZE_REACHED would end them for good, and there may soon be room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from siltstone.broker.process.client_limits import MEMBER_BYTES
from siltstone.protocol.errors import CoordinatorLoadInProgress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from siltstone.broker.process.client_limits import Limits

_OBJECT_BYTES: Final = 60
_GROUP_BYTES: Final = 1_300
"""The bytes of a group besides its name, its members and their offsets."""
_CHARACTER_BYTES: Final = 4
EACH_BYTES: Final = 1000
"""The bytes of a member, or of an id that was given out, besides those that the client sent."""


class MemberBytes:
    """The bytes of the members of all groups, and of each user's (loop only).

    A user is a principal that has logged in; an empty one stands for all others.
    """

    def __init__(
        self,
        refuse: Callable[[int], None],
        refuse_share: Callable[[int], None] = lambda _size: None,
    ) -> None:
        self.size = 0
        self.of_users: dict[str, int] = {}
        self._refuse = refuse
        self._refuse_share = refuse_share

    @classmethod
    def of(cls, limits: Limits) -> MemberBytes:
        """Return a count that a broker's settings limit."""
        return cls(
            lambda size: limits.check(MEMBER_BYTES, size, CoordinatorLoadInProgress),
            lambda size: limits.check_half(MEMBER_BYTES, size, CoordinatorLoadInProgress),
        )

    def check(self, more: int, user: str = "") -> None:
        """Refuse so many more bytes than there are, all of a user's; fewer are always taken.

        Raises:
            CoordinatorLoadInProgress: group.members.max.bytes would be exceeded, or half of it by
                the user alone.
        """
        if more > 0:
            self._refuse(self.size + more)
        self.check_share(more, user)

    def check_share(self, more: int, user: str) -> None:
        """Refuse a user so many more bytes than there are.

        Raises:
            CoordinatorLoadInProgress: Half of group.members.max.bytes would be exceeded.
        """
        if user and more > 0:
            self._refuse_share(self.of_users.get(user, 0) + more)

    def add(self, more: int, user: str = "") -> None:
        """Count more bytes, or fewer."""
        self.size += more
        self.add_share(more, user)

    def add_share(self, more: int, user: str) -> None:
        """Count more bytes as a user's, or fewer."""
        if user:
            self.of_users[user] = self.of_users.get(user, 0) + more
            if not self.of_users[user]:
                del self.of_users[user]


class GroupBytes:
    """The part of one group: ``size`` bytes until it is closed.

    ``refuse`` raises what a group is told that would have too many bytes by itself.
    """

    __slots__ = ("_all", "_of_users", "_refuse", "size")

    def __init__(
        self, everybody: MemberBytes, refuse: Callable[[int], None] = lambda _size: None
    ) -> None:
        self._all = everybody
        self._refuse = refuse
        self._of_users: dict[str, int] | None = None
        self.size = 0

    def check(self, more: int, user: str = "") -> None:
        """Refuse so many more bytes than there are.

        Raises:
            GroupMaxSizeReached: The group's own limit would be exceeded.
            CoordinatorLoadInProgress: See `MemberBytes.check`.
        """
        if more > 0:
            self._refuse(self.size + more)
        self._all.check(more, user)

    def add(self, more: int, user: str = "") -> None:
        """Count more bytes, or fewer."""
        self.size += more
        self._all.size += more
        if user:
            self._add_share(more, user)

    def set_shares(self, of_users: Mapping[str, int]) -> None:
        """Count what users have of them now."""
        known = self._of_users or {}
        for user in {*known, *of_users}:
            self._add_share(of_users.get(user, 0) - known.get(user, 0), user)

    def _add_share(self, more: int, user: str) -> None:
        if self._of_users is None:
            self._of_users = {}
        self._of_users[user] = self._of_users.get(user, 0) + more
        self._all.add_share(more, user)

    def close(self) -> None:
        """Count nothing of the group any more."""
        self.set_shares({})
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
