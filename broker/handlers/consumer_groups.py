"""ConsumerGroupDescribe (69), versions 0-1: groups of the consumer protocol (KIP-848).

v1 the protocol that each member speaks. Groups of the classic protocol are not found here.

Differs from Kafka: a group that is named twice is described once.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID

from siltstone.broker.groups.consumer.all_groups import ConsumerGroups
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.member import Member
from siltstone.broker.groups.consumer.target import preferred_assignor
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.handlers import authorized
from siltstone.broker.handlers.consumer_heartbeat import check_enabled
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import InvalidGroupId
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    TopicPartitions,
)
from siltstone.protocol.messages.consumer_group_describe import Member as DescribedMember

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


async def describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe consumer groups and their members, with current and target assignments."""
    asked = request.include_authorized_operations
    disabled: KafkaError | None = None
    try:
        check_enabled(context.services)
    except KafkaError as error:
        disabled = error
    services = context.services
    assignors = services.settings.server.group_consumer_assignors
    describe_one = partial(
        _describe, context, services.consumer_groups(), assignors, disabled, asked
    )
    groups = await LoopShare().each(dict.fromkeys(request.group_ids), describe_one)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext,
    groups: ConsumerGroups,
    assignors: tuple[str, ...],
    disabled: KafkaError | None,
    asked: bool,
    group_id: str,
) -> Any:
    if context.rights is not None and not context.may(DESCRIBE, GROUP, group_id):
        refusal = errors.GroupAuthorizationFailed()
        return _refuse(group_id, refusal.code, refusal.message)
    if disabled is not None:
        return _refuse(group_id, disabled.code, disabled.own_message)
    try:
        if not group_id:
            return _refuse(group_id, InvalidGroupId.code, None)
        groups.coordinator.check(group_id)
        machine = groups.get(group_id).machine
    except KafkaError as error:
        return _refuse(group_id, error.code, error.own_message)
    members: Sequence[Any] = ()
    if machine.members:
        image = groups.image
        members = [_member(machine, each, image) for each in machine.members.values()]
        if context.rights is not None and not _sees_topics(context, members):
            return _refuse(group_id, errors.TopicAuthorizationFailed.code, _HIDDEN_TOPICS)
    return (
        0,
        None,
        group_id,
        machine.state,
        machine.epoch,
        machine.target_epoch,
        preferred_assignor(machine, assignors),
        members,
        authorized.of_group(context, group_id) if asked else authorized.NOT_ASKED,
    )


def _sees_topics(context: RequestContext, members: Sequence[DescribedMember]) -> bool:
    """Tell whether the client may describe all topics that the members read or subscribe to."""
    names = {
        each.topic_name
        for member in members
        for assignment in (member.assignment, member.target_assignment)
        for each in assignment.topic_partitions
    }
    names.update(name for member in members for name in member.subscribed_topic_names)
    return all(context.sees(DESCRIBE, TOPIC, name) for name in names)


def _refuse(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def _member(group: ConsumerGroup, member: Member, image: TopicImage) -> DescribedMember:
    metadata, current = member.metadata, member.current
    # The partitions that a member has yet to give up count as its own, too.
    held = {
        topic_id: [*current.assigned.get(topic_id, ()), *current.revoking.get(topic_id, ())]
        for topic_id in {**current.assigned, **current.revoking}
    }
    return DescribedMember(
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


def _assignment(partitions: Mapping[UUID, Iterable[int]], image: TopicImage) -> Assignment:
    """Return partitions with the names of their topics; topics that are gone are left out."""
    topics = ((image.find_id(topic_id), each) for topic_id, each in partitions.items())
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic.id.bytes, topic.name, sorted(each))
            for topic, each in topics
            if topic is not None
        ]
    )
