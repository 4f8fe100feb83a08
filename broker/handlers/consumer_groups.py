"""ConsumerGroupHeartbeat (68), versions 0-1, and ConsumerGroupDescribe (69), 0-1 (KIP-848).

Heartbeat: v1 member ids of the client's making and regular expressions. Describe: v1 the protocol
that each member speaks. Both need group.version 1 and "consumer" among
group.coordinator.rebalance.protocols.

Differs from Kafka: a regular expression is resolved by the heartbeat that brings it, and anew by
the first heartbeat after a topic has come or gone, not at most every ten seconds; the hash of
subscribed topics in the group's record is another one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from kio.schema.consumer_group_describe.v1 import response as described
from kio.schema.consumer_group_heartbeat.v1 import response as answered
from kio.schema.errors import ErrorCode

from broker import authorized
from broker.groups.client_host import client_host
from broker.groups.consumer_group_heartbeat import HeartbeatRequest, check_request
from broker.groups.consumer_group_target import preferred_assignor
from protocol.errors import InvalidRequest, KafkaError, UnsupportedVersion
from protocol.messages import NO_THROTTLE, milliseconds
from protocol.names import uuid_text

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping
    from typing import Any
    from uuid import UUID

    from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
    from kio.schema.consumer_group_heartbeat.v1.request import (
        ConsumerGroupHeartbeatRequest,
        TopicPartitions,
    )

    from broker.context import RequestContext, Rooms
    from broker.groups.consumer_group import ConsumerGroup
    from broker.groups.consumer_group_heartbeat import HeartbeatResult
    from broker.groups.consumer_group_member import Member
    from broker.groups.topic_image import TopicImage
    from protocol.coordinator.consumer_group_records import Partitions

_FIRST_WITH_OWN_MEMBER_ID = 1
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> (
    answered.ConsumerGroupHeartbeatResponse
    | Coroutine[Any, Any, answered.ConsumerGroupHeartbeatResponse]
):
    """Keep a member alive, take it in or let it go, and tell it what it is to read."""
    if context.rooms.groups.log.is_created:
        return _heartbeat(context, request)
    return _heartbeat_first(context, request)


async def _heartbeat_first(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> answered.ConsumerGroupHeartbeatResponse:
    """Make the journal: this is the first group ever."""
    try:
        _check_enabled(context.rooms)
        await context.rooms.groups.log.ensure_created()
    except KafkaError as error:
        return _refused(error)
    return _heartbeat(context, request)


def _heartbeat(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> answered.ConsumerGroupHeartbeatResponse:
    groups = context.rooms.groups
    try:
        _check_enabled(context.rooms)
        if not request.group_id.strip():
            raise InvalidRequest("GroupId can't be empty.")
        values = _read(context, request)
        groups.check(request.group_id)
        return _answered(groups.consumer.heartbeat(request.group_id, values))
    except KafkaError as error:
        return _refused(error)


def _check_enabled(rooms: Rooms) -> None:
    """Refuse the protocol where it is switched off.

    Raises:
        UnsupportedVersion: So it is.
    """
    protocols = rooms.settings.server.group_coordinator_rebalance_protocols
    if "consumer" not in protocols or not rooms.features.level("group.version"):
        raise UnsupportedVersion("The consumer group protocol is not enabled.")


def _read(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> HeartbeatRequest:
    """Return what the request says, if it may say so.

    Raises:
        InvalidRequest: It contradicts itself.
        UnsupportedAssignor: It wants an assignor that is not there.
    """
    names = request.subscribed_topic_names
    values = HeartbeatRequest(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topic_names=None if names is None else tuple(sorted(set(names))),
        subscribed_topic_regex=request.subscribed_topic_regex,
        server_assignor=request.server_assignor,
        owned=_by_id(request.topic_partitions),
    )
    brings_id = context.version >= _FIRST_WITH_OWN_MEMBER_ID
    assignors = context.rooms.settings.server.group_consumer_assignors
    check_request(values, assignors, needs_member_id=brings_id)
    return values if values.member_id else replace(values, member_id=uuid_text(uuid4()))


def _by_id(listed: Iterable[TopicPartitions] | None) -> Partitions | None:
    """Return partitions by topic id; a topic may be listed twice."""
    if listed is None:
        return None
    partitions: dict[UUID, frozenset[int]] = {}
    for each in listed:
        if each.topic_id is not None:
            known = partitions.get(each.topic_id, frozenset())
            partitions[each.topic_id] = known | frozenset(each.partitions)
    return partitions


def _answered(result: HeartbeatResult) -> answered.ConsumerGroupHeartbeatResponse:
    assigned = result.assignment
    return answered.ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval=timedelta(milliseconds=result.heartbeat_interval_ms),
        assignment=None
        if assigned is None
        else answered.Assignment(
            topic_partitions=tuple(
                answered.TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(partitions)))
                for topic_id, partitions in assigned.items()
            )
        ),
    )


def _refused(error: KafkaError) -> answered.ConsumerGroupHeartbeatResponse:
    return answered.ConsumerGroupHeartbeatResponse(
        throttle_time=NO_THROTTLE,
        error_code=error.code,
        error_message=error.message,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=NO_THROTTLE,
        assignment=None,
    )


def describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> described.ConsumerGroupDescribeResponse:
    """Show consumer groups, their members and what those have and are to have."""
    asked = request.include_authorized_operations
    operations = authorized.GROUP if asked else authorized.NOT_ASKED
    return described.ConsumerGroupDescribeResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(_describe(context, group_id, operations) for group_id in request.group_ids),
    )


def _describe(context: RequestContext, group_id: str, operations: int) -> described.DescribedGroup:
    groups = context.rooms.groups
    try:
        _check_enabled(context.rooms)
        groups.check(group_id)
        machine = groups.consumer.get(group_id).machine
    except KafkaError as error:
        return described.DescribedGroup(
            error_code=error.code,
            error_message=error.message,
            group_id=group_id,
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
        )
    assignors = context.rooms.settings.server.group_consumer_assignors
    return described.DescribedGroup(
        error_code=ErrorCode.none,
        error_message=None,
        group_id=group_id,
        group_state=machine.state,
        group_epoch=machine.epoch,
        assignment_epoch=machine.target_epoch,
        assignor_name=preferred_assignor(machine, assignors),
        members=tuple(
            _member(machine, member, groups.consumer.image) for member in machine.members.values()
        ),
        authorized_operations=operations,
    )


def _member(group: ConsumerGroup, member: Member, image: TopicImage) -> described.Member:
    metadata, current = member.metadata, member.current
    # A member answers for what it has yet to give up, too.
    held = {
        topic_id: [
            *current.assigned.get(topic_id, ()),
            *current.revoking.get(topic_id, ()),
        ]
        for topic_id in {**current.assigned, **current.revoking}
    }
    return described.Member(
        member_id=member.id,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        member_epoch=member.epoch,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.subscribed_topic_names,
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        assignment=_assignment(held, image),
        target_assignment=_assignment(group.target_of(member.id), image),
        member_type=_CONSUMER_MEMBER if member.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(
    partitions: Mapping[UUID, Iterable[int]], image: TopicImage
) -> described.Assignment:
    """Return partitions with the names of their topics; topics that are gone are left out."""
    topics = ((image.find_id(topic_id), each) for topic_id, each in partitions.items())
    return described.Assignment(
        topic_partitions=tuple(
            described.TopicPartitions(
                topic_id=topic.id, topic_name=topic.name, partitions=tuple(sorted(each))
            )
            for topic, each in topics
            if topic is not None
        )
    )
