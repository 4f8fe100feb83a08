"""What heartbeats and commits need of a group: timers, members, who may commit.

Compiled by Cython, or plain Python as it stands. The types of C stand in ``_member_kernels.pxd``.

The timers of all groups are on one heap. A heartbeat moves its member's deadline, thousands of
times a second, and hardly any deadline is ever reached. So a later deadline is only noted in the
timer, and the heap is not touched until the earlier one comes due.
"""

from functools import partial
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from siltstone.broker.groups.classic.state_names import GroupState
from siltstone.broker.groups.offset_metadata import MAX_CHARACTERS
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    InvalidGroupId,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from siltstone.protocol.errors import CoordinatorNotAvailable

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.protocol.records._portable import field_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from siltstone.broker.coordination.journal import CoordinatorLog
    from siltstone.broker.groups.group import Group
    from siltstone.protocol.messages.heartbeat import HeartbeatRequest
    from siltstone.storage.clock import Clock

    class CommittedOffsets(Protocol):
        """The committed offsets, as the table of groups asks for them."""

        def __contains__(self, group_id: str, /) -> bool:
            """Tell whether a group has any."""


_COMPLETING = GroupState.COMPLETING
_DEAD = GroupState.DEAD
_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING
_STABLE = GroupState.STABLE

_FIRST_WITH_GROUP_ID_NOT_FOUND = 9
_LEAST_ENTRIES = 256
_ENTRIES_PER_TIMER = 4
_ROUNDING_MS = 0.001
"""A sum of floats may come out below the deadline that was meant."""


class Timer:
    """One deadline and what happens then; durations and times in ms of the steady clock."""

    __slots__ = ("_action", "_queued", "_timers", "deadline")

    def __init__(self, timers: "Timers", action: "Callable[[], None]") -> None:
        self.deadline: float | None = None
        self._queued: float | None = None  # where its only valid entry on the heap stands
        self._timers = timers
        self._action = action

    @property
    def is_running(self) -> bool:
        """Whether the deadline is still to come."""
        return self.deadline is not None

    def start(self, after_ms: float) -> None:
        """Fire after ``after_ms``; a time that was set before no longer counts."""
        deadline = self._timers.now_ms() + after_ms
        if self.deadline is None:
            self._timers.running_count += 1
        self.deadline = deadline
        if self._queued is None or deadline < self._queued:
            self._queued = deadline
            self._timers.push(deadline, self)

    def cancel(self) -> None:
        """Do not fire; safe to call again."""
        if self.deadline is not None:
            self._timers.running_count -= 1
            self.deadline = None

    def leave_heap(self, queued: float) -> bool:
        """Tell whether the entry of that time is obsolete, and forget it if so.

        Only `Timers` calls it.
        """
        if queued == self._queued and self.deadline is not None:
            return False
        if queued == self._queued:
            self._queued = None
        return True

    def come_due(self, queued: float, now_ms: float) -> None:
        """Fire, or go back on the heap if the deadline has moved; ``queued`` is the entry's time.

        Only `Timers` calls it.
        """
        if queued != self._queued:
            return  # there is an earlier entry, or was
        self._queued = None
        if self.deadline is None:
            return
        if self.deadline > now_ms:
            self._queued = self.deadline
            self._timers.push(self.deadline, self)
            return
        self._timers.running_count -= 1
        self.deadline = None
        self._action()


class Timers:
    """The heap (loop only). ``on_earlier`` is called when a timer is due before all others.

    Cancelled timers stay on it until their time. When they are most of it they are removed, and so
    are the members that they keep in memory.
    """

    __slots__ = ("_clock", "_pushed", "heap", "on_earlier", "running_count")

    def __init__(
        self, clock: "Clock", on_earlier: "Callable[[float], None]" = lambda _: None
    ) -> None:
        self.on_earlier = on_earlier
        self.running_count = 0
        self._clock = clock
        self.heap: list[tuple[float, int, Timer]] = []
        self._pushed = 0

    def now_ms(self) -> float:
        """Return the steady clock's time."""
        return self._clock.monotonic() * 1000

    @property
    def next_ms(self) -> float | None:
        """When something may come due; None if nothing is on the heap."""
        return self.heap[0][0] if self.heap else None

    def push(self, deadline: float, timer: Timer) -> None:
        """Put an entry on the heap; for `Timer`."""
        if len(self.heap) > _LEAST_ENTRIES + _ENTRIES_PER_TIMER * self.running_count:
            self.heap = [each for each in self.heap if not each[2].leave_heap(each[0])]
            heapify(self.heap)
        self._pushed += 1  # a tie-breaker: timers have no order
        entry = (deadline, self._pushed, timer)
        heappush(self.heap, entry)
        if self.heap[0] is entry:
            self.on_earlier(deadline)

    def run_due(self, max_entries: int = 1 << 30) -> None:
        """Fire what is due, at most ``max_entries``."""
        now_ms = self.now_ms() + _ROUNDING_MS
        while self.heap and self.heap[0][0] <= now_ms and max_entries:
            queued, _, timer = heappop(self.heap)
            timer.come_due(queued, now_ms)
            max_entries -= 1


class LivingMember:
    """The session of one member; ``timer`` is that of its deadline.

    ``on_silence`` gets the member when its session has ended. A base of `Member`, so that a
    heartbeat moves its timer without a call of Python's.
    """

    __slots__ = ("session_timeout_ms", "timer")

    def __init__(
        self, session_timeout_ms: int, timers: Timers, on_silence: "Callable[[Any], None]"
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.timer = Timer(timers, partial(on_silence, self))

    def start_session(self) -> None:
        """Begin the session anew: the member is alive."""
        self.timer.start(self.session_timeout_ms)


class MemberTable:
    """Members by id, and which of them have an instance id.

    A base of `Members`, so that a heartbeat finds its member without a call of Python's.
    """

    __slots__ = ("by_id", "static")

    def __init__(self) -> None:
        self.by_id: Mapping[str, LivingMember] = {}
        self.static: dict[str, str] = {}  # instance id -> member id

    def get(self, member_id: str, instance_id: str | None) -> LivingMember:
        """Return the member that a request names.

        Raises:
            UnknownMemberId: Nobody has this id, or this instance id.
            FencedInstanceId: Another member has this instance id.
        """
        if instance_id is not None:
            current = self.static.get(instance_id)
            if current is None:
                raise UnknownMemberId
            if current != member_id:
                raise FencedInstanceId
        member = self.by_id.get(member_id)
        if member is None:
            raise UnknownMemberId
        return member


class LivingGroup:
    """What a classic group needs for heartbeats and commits between two rebalances (loop only).

    A base of `ClassicGroup` and not a part of it: state, generation and members are the group's,
    and a heartbeat or commit would take a method of Python's to come here
    (docs/decisions/0015-compiled-bases.md).
    """

    __slots__ = ("generation", "members", "state")

    def __init__(self, members: MemberTable) -> None:
        self.state = _EMPTY
        self.generation = 0
        self.members = members

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises:
            UnknownMemberId: There is no such member.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: It is alive and has to join.
            CoordinatorNotAvailable: The group was deleted.
        """
        self._check_alive()
        member = self.members.get(member_id, instance_id)
        if generation != self.generation:
            raise IllegalGeneration
        member.start_session()
        if self.state is _PREPARING:
            raise RebalanceInProgress

    def touch(self, member_id: str) -> None:
        """Keep a member alive because it has committed."""
        member = self.members.by_id.get(member_id)
        if member is not None and (self.state is _STABLE or self.state is _PREPARING):
            member.start_session()

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Refuse a commit from outside of this generation, unless the group has no members.

        Raises:
            UnknownMemberId: There is no such member, or none is named though the group has members.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: The member has to learn its assignment first.
            CoordinatorNotAvailable: The group was deleted.
        """
        del version  # it matters to consumer groups
        self.judge_commit(member_id, instance_id, generation, is_transactional)

    def judge_commit(
        self, member_id: str, instance_id: str | None, generation: int, is_transactional: bool
    ) -> None:
        """Do what `check_commit` says, with types of C."""
        self._check_alive()
        if generation < 0 and self.state is _EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.members.get(member_id, instance_id)
            if generation != self.generation:
                raise IllegalGeneration
        elif not is_transactional and self.state is not _EMPTY:
            raise UnknownMemberId
        if not is_transactional and self.state is _COMPLETING:
            raise RebalanceInProgress

    def _check_alive(self) -> None:
        if self.state is _DEAD:
            raise CoordinatorNotAvailable


class GroupTable:
    """Groups by id, and who may commit to them (loop only).

    ``make_classic`` makes a group and adds it nowhere. A base of `GroupCoordinator`, as
    `LivingGroup` is of groups: heartbeats and commits come in here.
    """

    __slots__ = ("_make_classic", "groups", "journal", "offsets")

    def __init__(
        self,
        journal: "CoordinatorLog",
        offsets: "CommittedOffsets",
        make_classic: "Callable[[str], Group]",
    ) -> None:
        self._make_classic = make_classic
        self.groups: dict[str, Group] = {}
        self.journal = journal
        self.offsets = offsets

    def check(self, group_id: str) -> None:
        """Refuse a request for a group whose state is not known.

        Raises:
            CoordinatorLoadInProgress: Its partition of the journal is being read.
            NotCoordinator: It could not be read.
            InvalidGroupId: No record can hold the name.
        """
        if len(group_id) > MAX_CHARACTERS:
            raise InvalidGroupId(f"a group id has at most {MAX_CHARACTERS} characters")
        if not self.journal.is_settled:
            self.journal.check(self.journal.partition_for(group_id))

    def find(self, group_id: str) -> "Group | None":
        """Return a group that is there, if only because of its committed offsets."""
        group = self.groups.get(group_id)
        if group is None and group_id in self.offsets:
            group = self.groups[group_id] = self._make_classic(group_id)
        return group

    def keep(self, group: "Group") -> None:
        """Keep a group that `check_commit` has made: it has committed something."""
        self.groups.setdefault(group.group_id, group)

    def check_commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> "Group":
        """Return the group that commits offsets; a new one is kept only if the caller calls `keep`.

        Raises:
            GroupIdNotFound: There is no such group, and so no member of it.
            IllegalGeneration: The same, in versions that do not have that code.
            KafkaError: The group refuses for another reason.
        """
        group = self.find(group_id)
        if group is None:
            if generation >= 0:
                if version >= _FIRST_WITH_GROUP_ID_NOT_FOUND and not is_transactional:
                    raise GroupIdNotFound(f"group {group_id} was not found")
                raise IllegalGeneration
            group = self._make_classic(group_id)
        try:
            group.check_commit(
                member_id, instance_id, generation, version, is_transactional=is_transactional
            )
        except StaleMemberEpoch:
            if version < _FIRST_WITH_GROUP_ID_NOT_FOUND or is_transactional:
                raise IllegalGeneration from None
            raise
        return group

    def heartbeat(self, request: "HeartbeatRequest") -> None:
        """Keep a member alive.

        Raises:
            InvalidGroupId: The group has no name, or one that no record can hold.
            UnknownMemberId: There is no such group, or no such member of it.
            KafkaError: The group refuses for another reason, or its state is not known yet.
        """
        group_id = field_of(request, 0)
        if not group_id:
            raise InvalidGroupId
        self.check(group_id)
        group = self.find(group_id)
        if group is None:
            raise UnknownMemberId
        group.heartbeat(field_of(request, 2), field_of(request, 3), field_of(request, 1))
