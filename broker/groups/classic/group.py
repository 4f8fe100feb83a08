"""A group in the classic protocol: a state machine without I/O (Kafka: ``ClassicGroup``).

Requests come in as values. Answers leave through the ``reply`` that came with a request, at once or
when the requests of the other members have come. State that must survive a restart is written
through ``write`` before it changes here; if the write fails, the group stays as it was. Time comes
only from the timers.

| state | join | sync | heartbeat | left by |
| --- | --- | --- | --- | --- |
| Empty | accepted from newcomers | refused | refused | join |
| PreparingRebalance | parked | refused: join first | refused: join first | all joined, or time |
| CompletingRebalance | parked if it changes anything | parked | accepted | the leader's sync |
| Stable | parked if it changes anything | answered | accepted | join, leave, silence |
| Dead | refused | refused | refused | - |
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from siltstone.broker.coordination.timers import Timer, Timers
from siltstone.broker.groups.classic import members
from siltstone.broker.groups.classic.messages import (
    JoinReply,
    JoinRequest,
    JoinResult,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from siltstone.broker.groups.group import GroupState
from siltstone.broker.groups.member_bytes import (
    EACH_BYTES,
    GroupBytes,
    MemberBytes,
    bytes_of,
    size_of_group,
)
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.config.server import ServerConfig
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.coordinator.consumer_protocol import PROTOCOL_TYPE
from siltstone.protocol.coordinator.group_records import group_key, put_group
from siltstone.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    UnknownServerError,
)
from siltstone.protocol.messages import Octets
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue, OffsetCommitValue
from siltstone.protocol.records.journal import Row
from siltstone.storage.clock import Clock
from siltstone.storage.randomness import random_uuid

_logger = logging.getLogger(__name__)

_PROTOCOLS: Final = 16
"""How many times the largest record the members of a group may have in memory: they name several
protocols, of which the record has one, and each costs more in memory than there."""

NEW_MEMBER_JOIN_MS = 300_000
"""How long the first join of a member may stay parked: it cannot heartbeat before the answer."""

_REST_MS: Final = 1_000
"""How long a rebalance lasts at least after an assignment that could not be written: members come
back at once, and a disk that is full stays so."""

# For heartbeats and commits: the look-up of an enum's member in Python 3.11 costs more than the
# rest.
_COMPLETING = GroupState.COMPLETING
_DEAD = GroupState.DEAD
_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING
_STABLE = GroupState.STABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicServices:
    """The objects that all classic groups share.

    ``write`` appends rows to a partition of the journal; a batch in it has at most
    ``max_batch_bytes``. ``unwritten`` bounds the lines about what it refuses.
    """

    clock: Clock
    timers: Timers
    settings: Callable[[], ServerConfig]
    write: Callable[[int, Sequence[Row]], object]
    max_batch_bytes: Callable[[int], int]
    member_bytes: MemberBytes
    unwritten: BoundedLines


class _Pending(NamedTuple):
    """A member id that was given out: until when it is valid, and for which client."""

    timer: Timer
    user: str


class ClassicGroup:
    """One group (loop only).

    Invariants: the generation only grows; a stable group has a leader and all members have an
    assignment of this generation; a parked join is answered when the join phase ends, a parked sync
    when the leader's sync has come, and both at the latest when their member leaves the group.

    ``pending`` holds the member ids that were given out and whose members have not joined yet. The
    protocol type is empty in a group that has only committed offsets.
    """

    __slots__ = (
        "_delay_ms", "_is_initial", "_join_timer", "_member_was_added", "_remaining_ms",
        "_rest_timer", "_services", "_subscribed_topics", "_sync_timer", "_unsynced",
        "generation", "group_id", "members", "partition", "pending", "previous_state",
        "protocol_name", "protocol_type", "state", "state_timestamp",
    )  # fmt: skip

    type = "classic"

    def __init__(self, group_id: str, partition: int, services: ClassicServices) -> None:
        self.state = GroupState.EMPTY
        self.generation = 0
        self.members = members.Members(
            GroupBytes(services.member_bytes, partial(_check_size, services, partition))
        )
        self.group_id = group_id
        self.partition = partition
        self.previous_state = GroupState.EMPTY
        self.state_timestamp = services.clock.now_ms()
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.pending: dict[str, _Pending] = {}
        self._services = services
        self._subscribed_topics: frozenset[str] | None = frozenset()  # None if it is not known
        self._unsynced: set[str] = set()
        self._join_timer = Timer(services.timers)
        self._sync_timer = Timer(services.timers)
        self._rest_timer = Timer(services.timers)
        self._is_initial = False
        self._member_was_added = False
        self._delay_ms = self._remaining_ms = 0

    @property
    def is_empty(self) -> bool:
        """Whether no member is left and the group may be deleted."""
        return self.state is GroupState.EMPTY

    def count_name(self) -> None:
        """Count the memory that the group takes, its name included."""
        self.members.bytes.add(size_of_group(self.group_id))

    @property
    def is_of_consumers(self) -> bool:
        """Whether the members speak the protocol of consumers."""
        return self.protocol_type == PROTOCOL_TYPE

    def _check_alive(self) -> None:
        if self.state is _DEAD:
            raise CoordinatorNotAvailable

    # Joining

    def join(self, request: JoinRequest, reply: JoinReply) -> None:
        """Let a member join or rejoin; the answer comes at once or when the join phase ends.

        Raises:
            GroupMaxSizeReached: The group is full, or its members are too large for any record.
            CoordinatorLoadInProgress: The members of all groups, or of one user, are too large.
            InconsistentGroupProtocol: The member has no protocol in common with the other members.
            UnknownMemberId: No member was given this id, or no member has this instance id.
            FencedInstanceId: Another member has joined with the instance id.
            CoordinatorNotAvailable: The group was deleted.
        """
        self._check_alive()
        member_id = request.member_id
        if not self.has_room(member_id):
            self._drop(member_id)
            raise group_errors.GroupMaxSizeReached
        if not self.supports(request):
            raise group_errors.InconsistentGroupProtocol
        if not member_id:
            self._join_new(request, reply)
        elif member_id in self.pending:
            if request.instance_id is not None:
                raise UnknownServerError("an id that was given to a dynamic member is not static")
            self._add(member_id, request, reply)
        else:
            self._join_again(self.members.get(member_id, request.instance_id), request, reply)

    def has_room(self, member_id: str) -> bool:
        """Tell whether group.max.size leaves room for a member that joins or rejoins."""
        max_size = self._services.settings().group_max_size
        member = self.members.by_id.get(member_id)
        match self.state:
            case GroupState.PREPARING:
                # Count the joining members, not all members: some members may not come back.
                is_parked = member is not None and member.join_reply is not None
                return is_parked or self.members.joining_count < max_size
            case GroupState.COMPLETING | GroupState.STABLE:
                return member is not None or len(self.members) < max_size
        return True

    def supports(self, request: JoinRequest) -> bool:
        """Tell whether a member has a protocol in common with the others."""
        if self.state is GroupState.EMPTY:
            return bool(request.protocol_type and request.protocols)
        return request.protocol_type == self.protocol_type and self.members.support(
            request.protocols
        )

    def _join_new(self, request: JoinRequest, reply: JoinReply) -> None:
        instance_id = request.instance_id
        member_id = f"{request.client_id if instance_id is None else instance_id}-{random_uuid()}"
        if instance_id is not None and instance_id in self.members.static:
            self._replace_static(self.members.static[instance_id], member_id, request, reply)
        elif instance_id is None and request.requires_known_id:
            self._give_out(member_id, request)
            reply(JoinResult(ErrorCode.member_id_required, member_id))
        else:
            self._add(member_id, request, reply)

    def _give_out(self, member_id: str, request: JoinRequest) -> None:
        """Remember an id until its member joins or its session ends."""
        size = _size_of_pending(member_id)
        self.members.bytes.check(size, request.user)
        timer = Timer(self._services.timers)
        timer.start(request.session_timeout_ms, partial(self._end_pending, member_id))
        self.pending[member_id] = _Pending(timer, request.user)
        self.members.bytes.add(size, request.user)

    def _add(self, member_id: str, request: JoinRequest, reply: JoinReply) -> None:
        self.members.bytes.check(
            members.size_of_member(member_id, request)
            - (_size_of_pending(member_id) if member_id in self.pending else 0),
            request.user,
        )
        self._forget_pending(member_id)
        if self.state is GroupState.PREPARING and self.previous_state is GroupState.EMPTY:
            self._member_was_added = True
        if not self.members:
            self.protocol_type = request.protocol_type
        member = self._make_member(member_id, request)
        member.is_new = True
        self.members.add(member)
        self.members.park_join(member, reply)
        member.expect_within(NEW_MEMBER_JOIN_MS)
        self.rebalance()

    def _make_member(self, member_id: str, request: JoinRequest) -> members.Member:
        return members.Member(member_id, request, self._services.timers, self._end_session)

    def _join_again(self, member: members.Member, request: JoinRequest, reply: JoinReply) -> None:
        is_same = member.protocols == request.protocols
        match self.state:
            case GroupState.COMPLETING if is_same:
                # The answer to its join may have been lost: nothing changes.
                reply(self._joined(member))
                return
            case GroupState.STABLE if is_same and member.member_id != self.members.leader:
                reply(self._joined(member, members=()))
                return
            case GroupState.EMPTY:
                raise group_errors.UnknownMemberId
        # A leader that joins again has seen a change that its metadata does not show.
        self.members.check_growth(member, request)
        self.members.update(member, request)
        self.members.park_join(member, reply)
        self.rebalance()

    def _joined(self, member: members.Member, **changes: object) -> JoinResult:
        is_leader = member.member_id == self.members.leader
        result = JoinResult(
            ErrorCode.none,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol_name,
            self.members.leader or "",
            self.members.list_for_leader(self.protocol_name) if is_leader else (),
        )
        return result._replace(**changes) if changes else result  # type: ignore[arg-type]

    # A static member that was started again

    def _replace_static(
        self, old_id: str, new_id: str, request: JoinRequest, reply: JoinReply
    ) -> None:
        """Give the instance a new member id, without a rebalance if the group is stable.

        A request with the old id is fenced from now on.
        """
        old = self.members.by_id[old_id]
        leader = self.members.leader
        more = members.size_of_member(new_id, request, old.assignment) - old.size
        self.members.bytes.check(more, request.user)
        new = self._make_member(new_id, request)
        new.assignment = old.assignment
        self.members.replace(old, new)
        is_kept = (
            self.state is GroupState.STABLE and self.members.choose_protocol() == self.protocol_name
        )
        if is_kept:
            try:
                self._write(self._metadata(self.members.assignments))
            except KafkaError as error:
                self.members.replace(new, old)
                reply(JoinResult(error.code, ""))
                return
        self._release(old, ErrorCode.fenced_instance_id, old_id)
        new.start_session()
        if not is_kept:
            self.members.park_join(new, reply)
            self.rebalance()
        elif request.may_skip_assignment:
            reply(self._joined(new, skip_assignment=new_id == self.members.leader))
        else:
            # Before KIP-814 a leader always assigns, so the answer does not name the member as the
            # leader.
            reply(self._joined(new, leader=leader or "", members=()))

    # The join phase

    def rebalance(self) -> None:
        """Begin a rebalance, in which all members join again; end the join phase if all have."""
        if self.state is GroupState.PREPARING:
            self._complete_join_if_all_are_there()
            return
        if self.state is GroupState.COMPLETING:
            self._refuse_syncs(ErrorCode.rebalance_in_progress)
        self._sync_timer.cancel()
        self._is_initial = self.state is GroupState.EMPTY
        self._transition(GroupState.PREPARING)
        if self._is_initial:
            self._delay_ms = self._services.settings().group_initial_rebalance_delay_ms
            self._remaining_ms = max(self.members.rebalance_timeout_ms - self._delay_ms, 0)
            self._join_timer.start(self._delay_ms, self._end_join_phase)
        elif self._all_joined:
            self._complete_join()
        else:
            self._join_timer.start(self.members.rebalance_timeout_ms, self._end_join_phase)

    @property
    def _all_joined(self) -> bool:
        is_held = self.pending or self._rest_timer.is_running
        return not is_held and self.members.joining_count == len(self.members)

    def _complete_join_if_all_are_there(self) -> None:
        """End the join phase if all have joined; if the group was empty, only time ends it."""
        if self.previous_state is not GroupState.EMPTY and self._all_joined:
            self._complete_join()

    def _end_join_phase(self) -> None:
        """End the join phase, or extend it while new members join a group that was empty."""
        if self._is_initial and self._member_was_added and self._remaining_ms:
            self._member_was_added = False
            delay_ms = min(
                self._services.settings().group_initial_rebalance_delay_ms, self._remaining_ms
            )
            self._remaining_ms = max(self._remaining_ms - self._delay_ms, 0)
            self._delay_ms = delay_ms
            self._join_timer.start(delay_ms, self._end_join_phase)
        else:
            self._complete_join()

    def _complete_join(self) -> None:
        """Begin the next generation with members that joined, and with all static ones."""
        self._join_timer.cancel()
        self._rest_timer.cancel()
        self._member_was_added = False
        for member in self.members:
            if member.join_reply is None and member.instance_id is None:
                self._remove(member)
        if self.members and not self.members.elect_joined():
            # All members are static and silent: the ends of their sessions decide.
            self._join_timer.start(self.members.rebalance_timeout_ms, self._end_join_phase)
            return
        self._is_initial = False
        self.generation += 1
        self._unsynced.clear()
        if not self.members:
            self._become_empty()
            return
        self.protocol_name = self.members.choose_protocol()
        self._subscribe(self._find_subscribed_topics())
        self._transition(GroupState.COMPLETING)
        for member in self.members:
            self._unsynced.add(member.member_id)
            self.members.answer_join(member, self._joined(member))
            member.start_session()
            member.is_new = False
        self._sync_timer.start(self.members.rebalance_timeout_ms, self._end_sync_phase)

    def _become_empty(self) -> None:
        self.protocol_name = None
        self._subscribe(frozenset())
        self._transition(GroupState.EMPTY)
        try:
            self._write(self._metadata({}))
        except KafkaError as error:
            # The members are removed even if the write failed: after a restart their sessions end
            # again.
            self._tell_unwritten("empty group", error)

    # Syncing

    def sync(self, request: SyncRequest, reply: SyncReply) -> None:
        """Give a member its assignment; the answer comes when the leader has sent all assignments.

        Raises:
            UnknownMemberId: There is no such member.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            InconsistentGroupProtocol: The group has chosen another protocol.
            RebalanceInProgress: The member has to join first.
            CoordinatorNotAvailable: The group was deleted.
        """
        self._check_alive()
        member = self.members.get(request.member_id, request.instance_id)
        if request.generation != self.generation:
            raise group_errors.IllegalGeneration
        if _differs(request.protocol_type, self.protocol_type) or _differs(
            request.protocol_name, self.protocol_name
        ):
            raise group_errors.InconsistentGroupProtocol
        if self.state is GroupState.PREPARING:
            raise group_errors.RebalanceInProgress
        self._note_synced(member.member_id)
        if self.state is GroupState.STABLE:
            reply(self._synced(member))
            member.start_session()
            return
        member.sync_reply = reply
        if member.member_id == self.members.leader:
            self._take_assignments(request.assignments)

    def _take_assignments(self, given: Mapping[str, Octets]) -> None:
        """Write the leader's assignments, then answer all; a member left out gets empty bytes."""
        asked = {each.member_id: given.get(each.member_id, b"") for each in self.members}
        try:
            self.members.check_assignments(asked)
            assignments = {member_id: bytes(octets) for member_id, octets in asked.items()}
            self._write(self._metadata(assignments))
        except KafkaError as error:
            self._tell_unwritten("assignment", error)
            code = error.code
            if isinstance(error, CoordinatorLoadInProgress):  # not an answer to SyncGroup in Java
                code = CoordinatorNotAvailable.code
            self._refuse_syncs(code)
            self._rest_timer.start(_REST_MS, self._end_rest)
            self.rebalance()
            return
        self._transition(GroupState.STABLE)
        for member in self.members:
            self.members.assign(member, assignments[member.member_id])
            if members.answer_sync(member, self._synced(member)):
                member.start_session()

    def _end_rest(self) -> None:
        if self.state is GroupState.PREPARING:
            self._complete_join_if_all_are_there()

    def _tell_unwritten(self, what: str, error: KafkaError) -> None:
        line = "%s not written group=%s reason=%s"
        self._services.unwritten.warn(_logger, line, what, self.group_id, error)

    def _synced(self, member: members.Member) -> SyncResult:
        return SyncResult(ErrorCode.none, self.protocol_type, self.protocol_name, member.assignment)

    def _refuse_syncs(self, error: ErrorCode) -> None:
        for member in self.members:
            self.members.assign(member, b"")
            if members.answer_sync(member, SyncResult(error)):
                member.start_session()

    def _note_synced(self, member_id: str) -> None:
        self._unsynced.discard(member_id)
        if not self._unsynced:
            self._sync_timer.cancel()

    def _end_sync_phase(self) -> None:
        """Remove the members that know of the generation and did not ask for their assignment."""
        if self.state in {GroupState.COMPLETING, GroupState.STABLE} and self._unsynced:
            for member_id in tuple(self._unsynced):
                self._remove(self.members.by_id[member_id])
            self.rebalance()

    # Living and leaving

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None:
        """Keep a member alive.

        Raises:
            UnknownMemberId: There is no such member.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: The member is alive and has to join again.
            CoordinatorNotAvailable: The group was deleted.
        """
        if self.state is _DEAD:
            raise CoordinatorNotAvailable
        member = self.members.get(member_id, instance_id)
        if generation != self.generation:
            raise group_errors.IllegalGeneration
        member.start_session()
        if self.state is _PREPARING:
            raise group_errors.RebalanceInProgress

    def touch(self, member_id: str) -> None:
        """Keep a member alive because it has committed offsets."""
        member = self.members.by_id.get(member_id)
        if member is not None and (self.state is _STABLE or self.state is _PREPARING):
            member.start_session()

    def leave(self, leaving: Sequence[tuple[str, str | None]]) -> list[ErrorCode]:
        """Remove members, named by member id and instance id, and return an error code for each.

        An administrator names an instance alone, with an empty member id.
        """
        self._check_alive()
        codes = [self._leave(member_id, instance_id) for member_id, instance_id in leaving]
        if ErrorCode.none in codes and self.state is not GroupState.EMPTY:
            self.rebalance()
        return codes

    def _leave(self, member_id: str, instance_id: str | None) -> ErrorCode:
        if not member_id and instance_id is not None:
            member_id = self.members.static.get(instance_id, "")
        if member_id in self.pending:
            self._forget_pending(member_id)
            return ErrorCode.none
        try:
            self._remove(self.members.get(member_id, instance_id))
        except KafkaError as error:
            return error.code
        return ErrorCode.none

    def _end_session(self, member: members.Member) -> None:
        """Remove a member that was silent for too long, unless it waits for an answer."""
        if self.members.by_id.get(member.member_id) is not member:
            return
        if not member.is_new and (member.join_reply is not None or member.sync_reply is not None):
            return
        _logger.info("member is silent group=%s member=%s", self.group_id, member.member_id)
        self._remove(member)
        self.rebalance()

    def _end_pending(self, member_id: str) -> None:
        self._forget_pending(member_id)
        if self.state is GroupState.PREPARING:
            self._complete_join_if_all_are_there()

    def _forget_pending(self, member_id: str) -> None:
        given = self.pending.pop(member_id, None)
        if given is not None:
            given.timer.cancel()
            self.members.bytes.add(-_size_of_pending(member_id), given.user)

    def _drop(self, member_id: str) -> None:
        """Forget a member; the rebalance is under way already."""
        self._forget_pending(member_id)
        member = self.members.by_id.get(member_id)
        if member is not None:
            self._remove(member)

    def _remove(self, member: members.Member) -> None:
        self.members.remove(member)
        self._release(member, ErrorCode.unknown_member_id, "")

    def _release(self, member: members.Member, error: ErrorCode, member_id: str) -> None:
        """Answer the requests of a member that was removed."""
        member.timer.cancel()
        self._unsynced.discard(member.member_id)
        self.members.answer_join(member, JoinResult(error, member_id))
        members.answer_sync(member, SyncResult(error))

    # Committed offsets

    def check_commit(
        self, member_id: str, instance_id: str | None, generation: int, version: int | None
    ) -> None:
        """Refuse a commit that is not of this generation, unless the group has no members.

        Raises:
            UnknownMemberId: There is no such member, or the request names no member of a group that
                has some.
            FencedInstanceId: Another member has joined with the instance id.
            IllegalGeneration: The member belongs to another generation.
            RebalanceInProgress: The member has to learn its assignment first.
            CoordinatorNotAvailable: The group was deleted.
        """
        if self.state is _DEAD:
            raise CoordinatorNotAvailable
        if generation < 0 and self.state is _EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            self.members.get(member_id, instance_id)
            if generation != self.generation:
                raise group_errors.IllegalGeneration
        elif version is not None and self.state is not _EMPTY:
            raise group_errors.UnknownMemberId
        if version is not None and self.state is _COMPLETING:
            raise group_errors.RebalanceInProgress

    def find_partition_check(self, member_id: str, generation: int) -> None:
        """Return None: a member of the generation may commit any partition."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow any client to fetch offsets: only consumer groups check member epochs.

        Raises:
            GroupIdNotFound: The group was deleted.
        """
        del member_id, member_epoch
        if self.state is GroupState.DEAD:
            raise group_errors.GroupIdNotFound

    def check_offset_delete(self) -> None:
        """Allow offsets to be deleted if it is known which topics are in use.

        Raises:
            NonEmptyGroup: The members are no consumers.
            GroupIdNotFound: The group was deleted.
        """
        if self.state is GroupState.DEAD:
            raise group_errors.GroupIdNotFound(f"group {self.group_id} was not found")
        if self.state is not GroupState.EMPTY and not self.is_of_consumers:
            raise group_errors.NonEmptyGroup

    def is_subscribed_to(self, topic: str) -> bool:
        """Tell whether members read a topic, or may read it because subscriptions are not known."""
        if self._subscribed_topics is None:
            return self.is_of_consumers
        return topic in self._subscribed_topics

    def expiry_base(self, topic: str, committed: OffsetCommitValue) -> int | None:
        """Return the time in ms since which an offset is unused; None if it is in use."""
        if not self.protocol_type:
            return committed.commit_timestamp
        if self.state is GroupState.EMPTY:
            return committed.commit_timestamp if self.state_timestamp < 0 else self.state_timestamp
        is_known = self.state is GroupState.STABLE and self.is_of_consumers
        if is_known and self._subscribed_topics is not None and not self.is_subscribed_to(topic):
            return committed.commit_timestamp
        return None

    # The journal

    def tombstones(self) -> list[Row]:
        """Return the records that delete the group."""
        return [(group_key(self.group_id), None)]

    def write_new(self) -> None:
        """Write that the group exists.

        Raises:
            KafkaError: The journal did not take the record. The error can be sent as the answer.
        """
        self._write(self._metadata({}))

    def record(self) -> Row:
        """Return the record of the group as it is now."""
        return group_key(self.group_id), put_group(self._metadata(self.members.assignments))

    def _metadata(self, assignments: Mapping[str, bytes]) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type,
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.members.leader,
            current_state_timestamp=self.state_timestamp,
            members=self.members.describe(self.protocol_name, assignments),
        )

    def _write(self, metadata: GroupMetadataValue) -> None:
        size = sum(len(each.subscription) + len(each.assignment) for each in metadata.members)
        if size > self._services.max_batch_bytes(self.partition):  # before it is built
            raise UnknownServerError("the record of the group would be larger than the topic takes")
        try:
            row = group_key(self.group_id), put_group(metadata)
        except OverflowError as error:
            raise UnknownServerError("a name in the group is too long for its record") from error
        self._services.write(self.partition, [row])

    # Starting and ending

    def restore(self, metadata: GroupMetadataValue) -> None:
        """Restore the state from the journal; the caller calls `resume` when all of it was read."""
        self.generation = metadata.generation
        self.protocol_type = metadata.protocol_type
        self.protocol_name = metadata.protocol
        for each in metadata.members:
            request = JoinRequest(
                member_id=each.member_id,
                instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                protocol_type=metadata.protocol_type,
                protocols=((metadata.protocol or "", each.subscription),),
                rebalance_timeout_ms=each.rebalance_timeout,
                session_timeout_ms=each.session_timeout,
            )
            member = self._make_member(each.member_id, request)
            member.assignment = each.assignment
            self.members.add(member)
        if metadata.leader in self.members.by_id:
            self.members.leader = metadata.leader
        self._subscribe(self._find_subscribed_topics())
        self._transition(GroupState.STABLE if self.members else GroupState.EMPTY)
        self.state_timestamp = metadata.current_state_timestamp

    def take_over(
        self, protocol_type: str, generation: int, requests: Iterable[JoinRequest]
    ) -> None:
        """Take the place of a consumer group as a stable group with these classic members."""
        self.protocol_type = protocol_type
        self.generation = generation
        for request in requests:
            self.members.add(self._make_member(request.member_id, request))
        self.protocol_name = self.members.choose_protocol()
        self._subscribe(self._find_subscribed_topics())
        self._transition(GroupState.STABLE)

    def resume(self) -> None:
        """Begin the members' sessions."""
        for member in self.members:
            member.start_session()
        if len(self.members) > self._services.settings().group_max_size:
            self.rebalance()

    def check_delete(self) -> None:
        """Allow an empty group to be deleted.

        Raises:
            NonEmptyGroup: The group has members.
            GroupIdNotFound: The group was deleted already.
        """
        if self.state is GroupState.DEAD:
            raise group_errors.GroupIdNotFound(f"group {self.group_id} was not found")
        if self.state is not GroupState.EMPTY:
            raise group_errors.NonEmptyGroup

    def close(self, error: ErrorCode = ErrorCode.coordinator_not_available) -> None:
        """End the group: requests that wait get the error, and no timer fires again."""
        given = [each.timer for each in self.pending.values()]
        for timer in (self._join_timer, self._sync_timer, self._rest_timer, *given):
            timer.cancel()
        self.pending.clear()
        for member in self.members:
            self._release(member, error, member.member_id)
        self.members.bytes.close()
        self._transition(GroupState.DEAD)

    def _transition(self, state: GroupState) -> None:
        self.previous_state, self.state = self.state, state
        self.state_timestamp = self._services.clock.now_ms()

    def _subscribe(self, topics: frozenset[str] | None) -> None:
        before = self._subscribed_topics
        self.members.bytes.add(bytes_of(topics or ()) - bytes_of(before or ()))
        self._subscribed_topics = topics

    def _find_subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that members subscribe to; None if that is not known."""
        if self.members and not self.is_of_consumers:
            return None
        return self.members.find_topics(self.protocol_name)


def _check_size(services: ClassicServices, partition: int, size: int) -> None:
    """Refuse members that are so large that no record of the group could hold them."""
    if size > _PROTOCOLS * services.max_batch_bytes(partition):
        raise group_errors.GroupMaxSizeReached(f"the members of a group would have {size} bytes")


def _size_of_pending(member_id: str) -> int:
    return EACH_BYTES + bytes_of((member_id,))


def _differs(given: str | None, actual: str | None) -> bool:
    return given is not None and actual is not None and given != actual
