"""Members of the classic protocol in a consumer group, while the group moves between the two.

Kafka's GroupMetadataManager, classicGroup…ToConsumerGroup. The broker assigns partitions. JoinGroup
answers at once with the member epoch as the generation and no leader. SyncGroup answers with the
assignment. Heartbeat answers REBALANCE_IN_PROGRESS when the member has to rejoin. A member has a
deadline for rejoining, besides that of its session; if it misses the deadline, it is fenced.
"""

from collections.abc import Mapping
from uuid import UUID

from siltstone.broker.groups.classic.messages import (
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
    own,
)
from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.member import Member, MemberState
from siltstone.broker.groups.consumer.membership import (
    advance,
    get_member,
    replace_static,
    subscribe,
)
from siltstone.broker.groups.consumer.policy import World
from siltstone.broker.groups.consumer.target import follow_epoch
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.protocol.coordinator.consumer_group_records import MemberMetadata, classic_metadata
from siltstone.protocol.coordinator.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    encode_assignment,
    read_version,
)
from siltstone.protocol.coordinator.group_errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownMemberId,
)
from siltstone.protocol.errors import ErrorCode, ProtocolError
from siltstone.protocol.messages.consumer_offsets import ClassicMemberMetadata


def check_protocols(group: ConsumerGroup, request: JoinRequest, member_id: str) -> None:
    """Refuse a member without a protocol that all classic members know.

    Raises:
        InconsistentGroupProtocol: The member has none.
    """
    names = (name for name, _ in request.protocols)
    if request.protocol_type != PROTOCOL_TYPE or not group.supports_classic(names):
        raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")


def join(changes: Changes, request: JoinRequest, member_id: str, world: World) -> JoinResult:
    """Let a classic member join or rejoin, and move it one step towards its target assignment.

    Raises:
        KafkaError: The member is refused.
    """
    member = JoiningMember(changes, request, member_id)
    subscription_changed = member.subscribe(world)
    follow_epoch(changes, world)
    member.advance(world, subscription_changed=subscription_changed)
    changes.cancel(member.id, Deadline.JOIN)
    changes.start(member.id, Deadline.SESSION, request.session_timeout_ms)
    changes.start(member.id, Deadline.SYNC, request.rebalance_timeout_ms)
    return member.answer()


class JoiningMember:
    """A classic member that joins a consumer group."""

    def __init__(self, changes: Changes, request: JoinRequest, member_id: str) -> None:
        """Find the member, or the static member whose place the joining member takes.

        Raises:
            InconsistentGroupProtocol: Its metadata is no subscription.
            KafkaError: The instance is another member.
        """
        self._changes = changes
        self._request = request
        self._subscription = _read_subscription(request)
        self._before = _find_or_join(changes, request, member_id)
        self.id = self._before.id

    def subscribe(self, world: World) -> bool:
        """Note the member's metadata; return whether it subscribes to something else."""
        metadata = _merge(self._before.metadata, self._request, self._subscription)
        return subscribe(self._changes, self._before, metadata, world)

    def advance(self, world: World, *, subscription_changed: bool) -> None:
        """Move the member one step towards its target assignment."""
        owned = by_id(self._subscription.owned, world.image)
        advance(self._changes, self.id, owned, world, subscription_changed=subscription_changed)

    def answer(self) -> JoinResult:
        """Return the answer to a join: no leader, and the member epoch as the generation."""
        return JoinResult(
            ErrorCode.none,
            self.id,
            self._changes.group.get(self.id).epoch,
            PROTOCOL_TYPE,
            self._request.protocols[0][0],
        )


def sync(
    group: ConsumerGroup, request: SyncRequest, image: TopicImage, deadlines: Deadlines
) -> SyncResult:
    """Answer with a classic member's assignment.

    Raises:
        KafkaError: The member is not in the group, is of another generation, or has to rejoin.
    """
    member, classic = _get_classic(group, request.member_id, request.instance_id)
    _check_generation(member, request.generation)
    name, metadata = classic.supported_protocols[0]
    if request.protocol_type not in {None, PROTOCOL_TYPE} or request.protocol_name not in {
        None,
        name,
    }:
        raise InconsistentGroupProtocol(
            f"member {member.id} joined with protocol {name} of type {PROTOCOL_TYPE}"
        )
    if group.target_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _expect_join(member, deadlines)
        raise RebalanceInProgress(f"member {member.id} is to rejoin group {group.group_id}")
    deadlines.cancel(member.id, Deadline.SYNC)
    deadlines.start(member.id, Deadline.SESSION, classic.session_timeout_ms)
    return SyncResult(
        ErrorCode.none,
        request.protocol_type,
        request.protocol_name,
        encode_assignment(by_name(member.current.assigned, image), read_version(metadata)),
    )


def heartbeat(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    generation: int,
    deadlines: Deadlines,
) -> None:
    """Keep a classic member alive.

    Raises:
        RebalanceInProgress: The member has to give up partitions or to get some.
        KafkaError: The member is not in the group, or is of another generation.
    """
    member, classic = _get_classic(group, member_id, instance_id)
    _check_generation(member, generation)
    deadlines.start(member.id, Deadline.SESSION, classic.session_timeout_ms)
    state = member.state
    if (
        member.epoch < group.target_epoch
        or state is MemberState.UNREVOKED_PARTITIONS
        or (state is MemberState.UNRELEASED_PARTITIONS and not group.awaits_release(member))
    ):
        _expect_join(member, deadlines)
        raise RebalanceInProgress(f"member {member.id} is to rejoin group {group.group_id}")


def find_leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
    """Return a member that leaves; an administrator names an instance with an empty member id.

    Raises:
        KafkaError: The member is not in the group, or another member has taken its place.
    """
    static = None if member_id else group.find_static(instance_id)
    return get_member(group, member_id, instance_id) if static is None else static


def by_name(
    partitions: Mapping[UUID, Mapping[int, int] | frozenset[int]], image: TopicImage
) -> dict[str, frozenset[int]]:
    """Return partitions by the names of their topics; deleted topics are left out."""
    topics = ((image.find_id(topic_id), each) for topic_id, each in partitions.items())
    return {topic.name: frozenset(each) for topic, each in topics if topic is not None}


def by_id(
    partitions: Mapping[str, frozenset[int]], image: TopicImage
) -> dict[UUID, frozenset[int]]:
    """Return partitions by the ids of their topics; topics that do not exist are left out."""
    topics = ((image.find(name), each) for name, each in partitions.items())
    return {topic.id: each for topic, each in topics if topic is not None}


def _find_or_join(changes: Changes, request: JoinRequest, member_id: str) -> Member:
    group = changes.group
    if request.instance_id is None:
        return group.members.get(member_id, Member(member_id))
    if request.member_id:
        return get_member(group, member_id, request.instance_id)
    static = group.find_static(request.instance_id)
    return Member(member_id) if static is None else replace_static(changes, static, member_id)


def _merge(
    metadata: MemberMetadata, request: JoinRequest, subscription: Subscription
) -> MemberMetadata:
    """Return the metadata of a member after it joined, without that of the consumer protocol."""
    return metadata._replace(
        instance_id=request.instance_id or metadata.instance_id,
        rack_id=subscription.rack_id or metadata.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic_member_metadata=classic_metadata(
            request.session_timeout_ms, own(request.protocols)
        ),
    )


def _read_subscription(request: JoinRequest) -> Subscription:
    """Read the subscription from the metadata of one protocol: all protocols have the same."""
    try:
        return decode_subscription(request.protocols[0][1])
    except ProtocolError as error:
        raise InconsistentGroupProtocol(
            f"the metadata of protocol {request.protocols[0][0]} is no subscription: {error}"
        ) from error


def _get_classic(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[Member, ClassicMemberMetadata]:
    member = get_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberId(f"Member {member_id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: Member, generation: int) -> None:
    if member.epoch != generation:
        raise IllegalGeneration(
            f"The request generation id {generation} is not equal to the member epoch "
            f"{member.epoch} of member {member.id}."
        )


def _expect_join(member: Member, deadlines: Deadlines) -> None:
    timeout_ms = member.metadata.rebalance_timeout_ms
    deadlines.start_if_idle(member.id, Deadline.JOIN, timeout_ms)
