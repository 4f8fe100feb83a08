"""A limit for the memory that the members of all groups take in the broker.

A member may send metadata as large as a request, and its session outlives its connection; a member
id that was given out takes as much memory as the client id in it. So these bytes are counted over
all groups, and a member is refused if ``group.members.max.bytes`` would be exceeded. The members of
one user, and the assignments of their leaders, may take half of that limit, so that no user keeps
all others out. Clients that have not logged in share the whole limit, since one address may stand
for one client or for many.

A refused member gets COORDINATOR_LOAD_IN_PROGRESS, so that the client waits and asks again:
GROUP_MAX_SIZE_REACHED would stop the client for good, and there may soon be room.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from siltstone.broker.process.client_limits import Limit, Limits
from siltstone.protocol.errors import CoordinatorLoadInProgress
from siltstone.protocol.messages import Octets

_OBJECT_BYTES: Final = 60
_GROUP_BYTES: Final = 1_300
"""The bytes of a group besides its name, its members and their offsets."""
_CHARACTER_BYTES: Final = 4
EACH_BYTES: Final = 1000
"""The bytes of a member, or of an id that was given out, besides those that the client sent."""


class MemberBytes:
    """The bytes of the members of all groups, and of each user's (loop only).

    A user is a principal that has logged in; an empty name stands for all other clients.
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
    def of(cls, limits: Limits) -> "MemberBytes":
        """Return a new count with the limits from the broker's settings."""
        return cls(
            lambda size: limits.check(Limit.MEMBER_BYTES, size, CoordinatorLoadInProgress),
            lambda size: limits.check_half(Limit.MEMBER_BYTES, size, CoordinatorLoadInProgress),
        )

    def check(self, more: int, user: str = "") -> None:
        """Refuse ``more`` bytes of a user if there is no room; a negative number always passes.

        Raises:
            CoordinatorLoadInProgress: group.members.max.bytes would be exceeded, or half of it by
                the user alone.
        """
        if more > 0:
            self._refuse(self.size + more)
        self.check_share(more, user)

    def check_share(self, more: int, user: str) -> None:
        """Refuse ``more`` bytes of a user if half of the limit would be exceeded.

        Raises:
            CoordinatorLoadInProgress: Half of group.members.max.bytes would be exceeded.
        """
        if user and more > 0:
            self._refuse_share(self.of_users.get(user, 0) + more)

    def add(self, more: int, user: str = "") -> None:
        """Add to the count of bytes, or subtract from it."""
        self.size += more
        self.add_share(more, user)

    def add_share(self, more: int, user: str) -> None:
        """Add to a user's count of bytes, or subtract from it."""
        if user:
            self.of_users[user] = self.of_users.get(user, 0) + more
            if not self.of_users[user]:
                del self.of_users[user]


class GroupBytes:
    """The bytes that one group has in these counts: ``size`` until it is closed.

    ``refuse`` raises the error for a group whose own bytes would be too many.
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
        """Refuse ``more`` bytes if there is no room for them.

        Raises:
            GroupMaxSizeReached: The group's own limit would be exceeded.
            CoordinatorLoadInProgress: See `MemberBytes.check`.
        """
        if more > 0:
            self._refuse(self.size + more)
        self._all.check(more, user)

    def add(self, more: int, user: str = "") -> None:
        """Add to the count of bytes, or subtract from it."""
        self.size += more
        self._all.size += more
        if user:
            self._add_share(more, user)

    def set_shares(self, of_users: Mapping[str, int]) -> None:
        """Replace the counts by user: how many of the group's bytes each user has now."""
        known = self._of_users or {}
        for user in {*known, *of_users}:
            self._add_share(of_users.get(user, 0) - known.get(user, 0), user)

    def _add_share(self, more: int, user: str) -> None:
        if self._of_users is None:
            self._of_users = {}
        self._of_users[user] = self._of_users.get(user, 0) + more
        self._all.add_share(more, user)

    def close(self) -> None:
        """Take the group's bytes out of the count."""
        self.set_shares({})
        self.add(-self.size)


def size_of_group(group_id: str) -> int:
    """Return how much memory a group without members takes."""
    return _GROUP_BYTES + bytes_of((group_id,))


def bytes_of(values: Iterable[str | Octets | None]) -> int:
    """Return how much memory the values take that a client has sent."""
    return sum(map(_size_of, values))


def _size_of(value: str | Octets | None) -> int:
    """Return a size that never changes for a text; the size that Python reports may grow."""
    if value is None:
        return 0
    is_wide = isinstance(value, str) and not value.isascii()
    return _OBJECT_BYTES + len(value) * (_CHARACTER_BYTES if is_wide else 1)
