"""The part that consumer groups and share groups have in common (Kafka: ModernGroup).

Members have epochs, subscribe to topics, and follow a target that the broker computes.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar
from uuid import UUID

from siltstone.protocol.coordinator.group_errors import UnknownMemberId

_NO_TARGET: Final[Mapping[UUID, frozenset[int]]] = {}
_FIRST_EPOCH: Final = 1  # 0 is the epoch of a member that joins
DELETED_EPOCH: Final = -1
_TARGET_BYTES: Final = (350, 100)
"""The memory for a topic of a target and for a partition of it."""

MAX_NAMES: Final = 200_000
"""How many topics the members of a group may name, all together: others wait while it is assigned.

A thousand members may name two hundred each. Topics that an expression matches do not count.
"""


class EpochMember(Protocol):
    """One member: its two records, and the user that brought it."""

    @property
    def id(self) -> str:
        """The member id."""

    @property
    def metadata(self) -> Any:
        """The facts that it has sent about itself."""

    @property
    def current(self) -> Any:
        """Its assignment."""

    @property
    def user(self) -> str:
        """The user that brought it; empty without a login, and after a start."""

    @property
    def size(self) -> int:
        """How many bytes the member takes in memory, without its assignment."""

    @property
    def assigned_size(self) -> int:
        """How many bytes its assignment takes."""

    def _replace(self, *, user: str) -> Any: ...


M = TypeVar("M", bound=EpochMember)


class EpochGroup(Generic[M]):
    """One group (loop only).

    The epochs of the group, of its target and of each member only rise; the epoch of a member that
    leaves or joins again is the exception. ``topics_seen`` is the version of the topics with which
    the group was last compared. The journal does not have it: after a start, the first heartbeat
    compares the topics again. ``size`` is how many bytes the members, their assignments and what
    hangs on them take in memory. ``of_users`` has the bytes of members, without assignments, by the
    user that the member came from.
    """

    __slots__ = (
        "epoch", "group_id", "members", "metadata_hash", "name_count", "of_users", "partition",
        "size", "target_epoch", "target_timestamp_ms", "targets", "topics_seen",
    )  # fmt: skip

    def __init__(self, group_id: str, partition: int) -> None:
        self.group_id = group_id
        self.partition = partition  # the partition of __consumer_offsets
        self.epoch = _FIRST_EPOCH
        self.metadata_hash = 0
        self.target_epoch = _FIRST_EPOCH
        self.target_timestamp_ms = 0
        self.members: dict[str, M] = {}
        self.targets: dict[str, Mapping[UUID, frozenset[int]]] = {}
        self.size = 0
        self.of_users: dict[str, int] = {}
        self.name_count = 0  # how many names of topics all members' subscriptions have
        self.topics_seen = -1

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    def get(self, member_id: str) -> M:
        """Return a member.

        Raises:
            UnknownMemberId: No member has that id.
        """
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberId(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def target_of(self, member_id: str) -> Mapping[UUID, frozenset[int]]:
        """Return the target of a member."""
        return self.targets.get(member_id, _NO_TARGET)

    def may_assign(self, now_ms: int, interval_ms: int) -> bool:
        """Tell whether a new target is due: the last is old enough, missing, or of unknown time."""
        last = self.target_timestamp_ms
        return not last or not interval_ms or now_ms >= last + interval_ms

    def apply(self, key: Any, value: Any, user: str = "") -> None:
        """Apply a record, which deletes if it has no value; ``user`` is the user of its member."""
        raise NotImplementedError

    def claim(self, member_id: str, user: str) -> None:
        """Note the user of a member that was read from the journal."""
        member = self.members.get(member_id)
        if user and member is not None and not member.user:
            self.members[member_id] = member = member._replace(user=user)
            self._count_user(member, 1)

    def keep(self, after: M) -> M | None:
        """Keep a member as it is now, and return it as it was; for machines."""
        known = self.members.get(after.id)
        if known is None or known.metadata is not after.metadata:
            self.size += after.size - (0 if known is None else known.size)
            self._count_user(after, 1)
            self.name_count += len(after.metadata.subscribed_topic_names)
            if known is not None:
                self._count_user(known, -1)
                self.name_count -= len(known.metadata.subscribed_topic_names)
        if known is None or known.current is not after.current:
            self.size += after.assigned_size - (0 if known is None else known.assigned_size)
        self.members[after.id] = after
        return known

    def drop(self, member_id: str) -> M | None:
        """Drop a member, and return it; for machines."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self.name_count -= len(member.metadata.subscribed_topic_names)
            self.size -= member.size + member.assigned_size
            self._count_user(member, -1)
        return member

    def aim(self, member_id: str, target: Mapping[UUID, frozenset[int]] | None) -> None:
        """Set or delete the target of a member; for machines."""
        before = self.targets.pop(member_id, None)
        if before is not None:
            self.size -= size_of(before, _TARGET_BYTES)
        if target is not None:
            self.targets[member_id] = target
            self.size += size_of(target, _TARGET_BYTES)

    def _count_user(self, member: M, sign: int) -> None:
        if member.user:
            size = self.of_users.get(member.user, 0) + sign * member.size
            self.of_users[member.user] = size
            if not size:
                del self.of_users[member.user]


def subscribed_names(members: Collection[EpochMember]) -> Iterator[str]:
    """Yield the topics that members name; some may come twice."""
    for member in members:
        yield from member.metadata.subscribed_topic_names


def size_of(topics: Mapping[UUID, Collection[int]], costs: tuple[int, int]) -> int:
    """Return how many bytes partitions take; ``costs`` are those for a topic and a partition."""
    topic_bytes, partition_bytes = costs
    return len(topics) * topic_bytes + sum(map(len, topics.values())) * partition_bytes
