"""The members of a classic group, their leader, their protocols and their votes for a protocol."""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from siltstone.broker.coordination.timers import Timer, Timers
from siltstone.broker.groups.classic import messages
from siltstone.broker.groups.member_bytes import EACH_BYTES, GroupBytes, bytes_of
from siltstone.protocol.coordinator.consumer_protocol import decode_topics
from siltstone.protocol.coordinator.group_errors import FencedInstanceId, UnknownMemberId
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.messages import Octets
from siltstone.protocol.messages.consumer_offsets import MemberMetadata
from siltstone.protocol.names import MAX_TOPIC_NAME_LENGTH

MAX_TOPICS: Final = 50_000
"""The most topics of a group's members that are read: other clients wait meanwhile."""
_LISTS_KEPT: Final = 4
_VERSION_BYTES: Final = 2
_PROTOCOL_BYTES: Final = 150
"""The bytes of a protocol besides its name and metadata."""


class Member:
    """One member. At most one of its joins and one of its syncs waits for an answer.

    ``timer`` is the timer of the member's session; ``on_silence`` is called with the member when
    the session has ended.
    """

    __slots__ = (
        "_on_silence", "assignment", "client_host", "client_id", "instance_id", "is_new",
        "join_reply", "member_id", "protocol_type", "protocols", "rebalance_timeout_ms",
        "session_timeout_ms", "sync_reply", "timer", "user",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        request: messages.JoinRequest,
        timers: Timers,
        on_silence: Callable[["Member"], None],
    ) -> None:
        self.session_timeout_ms = request.session_timeout_ms
        self.timer = Timer(timers)
        self._on_silence = on_silence
        self.member_id = member_id
        self.user = request.user
        self.instance_id = request.instance_id
        self.client_id = request.client_id
        self.client_host = request.client_host
        self.protocol_type = request.protocol_type
        self.protocols = messages.own(request.protocols)
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.assignment = b""
        self.is_new = False  # its first join is not answered yet
        self.join_reply: messages.JoinReply | None = None
        self.sync_reply: messages.SyncReply | None = None

    def start_session(self) -> None:
        """Begin the session again: the member is alive."""
        if self.timer.is_running:
            self.timer.move(self.session_timeout_ms)
        else:
            self.expect_within(self.session_timeout_ms)

    def expect_within(self, milliseconds: float) -> None:
        """End the member's session after this time, unless it is moved again."""
        self.timer.start(milliseconds, partial(self._on_silence, self))

    @property
    def size(self) -> int:
        """How many bytes the member takes in memory."""
        return size_of_member(self.member_id, self, self.assignment)

    @property
    def protocol_names(self) -> set[str]:
        """The protocols that the member knows; a client may list a name twice."""
        return {name for name, _ in self.protocols}

    def metadata_of(self, protocol: str | None) -> bytes:
        """Return the member's metadata for a protocol; empty bytes if the member has none."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def describe(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """Return the member in the form of the group's record."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata_of(protocol),
            assignment=assignment,
        )


class Members:
    """The members by id. The first member is the leader until it leaves or does not rejoin.

    ``joining_count`` is how many members wait for the answer to a join. Every change of a member's
    protocols, its assignment and its parked join goes through this class. The class counts in
    ``bytes`` how much memory the members take.
    """

    __slots__ = ("_supported", "by_id", "bytes", "joining_count", "leader", "static")

    def __init__(self, size: GroupBytes) -> None:
        self.by_id: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.bytes = size
        self.leader: str | None = None
        self.joining_count = 0
        self._supported: Counter[str] = Counter()  # protocol -> how many members have it

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[Member]:
        return iter(tuple(self.by_id.values()))

    def get(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member that a request names.

        Raises:
            UnknownMemberId: No member has this id, or this instance id.
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

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members."""
        return max((member.rebalance_timeout_ms for member in self.by_id.values()), default=0)

    def add(self, member: Member) -> None:
        """Add a member."""
        if self.leader is None:
            self.leader = member.member_id
        self.by_id[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self._supported.update(member.protocol_names)
        self.bytes.add(member.size, member.user)

    def remove(self, member: Member) -> None:
        """Remove a member that waits for no answer."""
        del self.by_id[member.member_id]
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        self._forget_protocols(member)
        self.bytes.add(-member.size, member.user)
        if self.leader == member.member_id:
            self.leader = next(iter(self.by_id), None)

    def replace(self, old: Member, new: Member) -> None:
        """Put a static member's successor in its place; a leader's successor leads."""
        was_leader = self.leader == old.member_id
        self.remove(old)
        self.add(new)
        if was_leader:
            self.leader = new.member_id

    def update(self, member: Member, request: messages.JoinRequest) -> None:
        """Replace a member's data by the data of its new join."""
        self._forget_protocols(member)
        self.bytes.add(-member.size, member.user)
        member.protocols = messages.own(request.protocols)
        member.user = request.user
        self.bytes.add(member.size, member.user)
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        self._supported.update(member.protocol_names)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Note a member's assignment."""
        self.bytes.add(bytes_of((assignment,)) - bytes_of((member.assignment,)), member.user)
        member.assignment = assignment

    def check_growth(self, member: Member, request: messages.JoinRequest) -> None:
        """Refuse a member that joins again with much more data than before.

        Raises:
            KafkaError: See `GroupBytes.check`.
        """
        more = _size_of(request.protocols) - _size_of(member.protocols)
        self.bytes.check(more, request.user)

    def check_assignments(self, assignments: Mapping[str, Octets]) -> None:
        """Refuse assignments that are much larger than those before.

        Raises:
            KafkaError: See `GroupBytes.check`. All of the bytes count for the leader's user.
        """
        leader = self.by_id.get(self.leader or "")
        more = bytes_of(assignments.values()) - bytes_of(self.assignments.values())
        self.bytes.check(more, "" if leader is None else leader.user)

    def park_join(self, member: Member, reply: messages.JoinReply) -> None:
        """Note that a join waits; an earlier one is dropped, since its client gave up on it."""
        if member.join_reply is None:
            self.joining_count += 1
        member.join_reply = reply

    def answer_join(self, member: Member, result: messages.JoinResult) -> None:
        """Answer the member's join, if one waits."""
        reply = member.join_reply
        if reply is not None:
            member.join_reply = None
            self.joining_count -= 1
            reply(result)

    def elect_joined(self) -> bool:
        """Choose another leader if the leader did not join; tell whether a joined one leads now."""
        leader = None if self.leader is None else self.by_id.get(self.leader)
        if leader is None:
            return False
        if leader.join_reply is None:
            joined = next((each for each in self.by_id.values() if each.join_reply), None)
            if joined is None:
                return False
            self.leader = joined.member_id
        return True

    def support(self, protocols: messages.AskedProtocols) -> bool:
        """Tell whether all members have one of these protocols in common."""
        count = len(self.by_id)
        return any(self._supported[name] == count for name, _ in protocols)

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes among those that all members have.

        A member votes for the first protocol of its list that all members have.
        """
        count = len(self.by_id)
        votes: Counter[str] = Counter()
        for member in self.by_id.values():
            for name, _ in member.protocols:
                if self._supported[name] == count:
                    votes[name] += 1
                    break
        return votes.most_common(1)[0][0]

    def list_for_leader(self, protocol: str | None) -> tuple[messages.JoinedMember, ...]:
        """Return every member with its metadata of the chosen protocol."""
        return tuple(
            messages.JoinedMember(each.member_id, each.instance_id, each.metadata_of(protocol))
            for each in self.by_id.values()
        )

    @property
    def assignments(self) -> dict[str, bytes]:
        """The assignments of all members, by member id."""
        return {member.member_id: member.assignment for member in self.by_id.values()}

    def describe(
        self, protocol: str | None, assignments: Mapping[str, bytes]
    ) -> tuple[MemberMetadata, ...]:
        """Return all members in the form of the group's record, with these assignments."""
        return tuple(
            member.describe(protocol, assignments[member.member_id])
            for member in self.by_id.values()
        )

    def find_topics(self, protocol: str | None) -> frozenset[str] | None:
        """Return the topics that consumers subscribe to, without names that no topic can have.

        Return None if a subscription cannot be read, or if all subscriptions together name very
        many topics. Of members with the same subscription, one is read.
        """
        if not self.by_id:
            return frozenset()
        if protocol is None:
            return None
        found: set[str] = set()
        read: deque[bytes] = deque(maxlen=_LISTS_KEPT)
        room = MAX_TOPICS
        try:
            for member in self.by_id.values():
                metadata = member.metadata_of(protocol)
                if any(metadata.startswith(each, _VERSION_BYTES) for each in read):
                    continue
                topics, end = decode_topics(metadata, room)
                room -= len(topics) + 1
                found.update([each for each in topics if len(each) <= MAX_TOPIC_NAME_LENGTH])
                read.append(metadata[_VERSION_BYTES:end])
        except ProtocolError:
            return None
        return frozenset(found) if room >= 0 else None

    def _forget_protocols(self, member: Member) -> None:
        supported = self._supported
        for name in member.protocol_names:
            supported[name] -= 1
            if not supported[name]:  # a client may send very many other protocols
                del supported[name]


def _size_of(protocols: messages.AskedProtocols) -> int:
    return len(protocols) * _PROTOCOL_BYTES + sum(map(bytes_of, protocols))


def size_of_member(
    member_id: str, said: messages.JoinRequest | Member, assignment: bytes = b""
) -> int:
    """Return how many bytes a member takes in memory, or would take."""
    texts = (
        member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.protocol_type,
        assignment,
    )
    return EACH_BYTES + bytes_of(texts) + _size_of(said.protocols)


def answer_sync(member: Member, result: messages.SyncResult) -> bool:
    """Answer the member's sync, if one waits; tell whether one did."""
    reply = member.sync_reply
    if reply is None:
        return False
    member.sync_reply = None
    reply(result)
    return True
