"""ShareGroupDescribe (77), version 1: share groups and their members (KIP-932).

Differs from Kafka: a group that is named twice is described once.
"""

from collections.abc import Sequence
from functools import partial

from siltstone.broker.groups.share.all_groups import ShareGroups
from siltstone.broker.groups.share.assignor import NAME
from siltstone.broker.groups.share.member import Member
from siltstone.broker.groups.topic_image import TopicImage
from siltstone.broker.handlers import authorized
from siltstone.broker.handlers.share_heartbeat import are_enabled
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import InvalidGroupId
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from siltstone.protocol.messages.share_group_describe import Member as DescribedMember

_HIDDEN_TOPICS = "The group has described topic(s) that the client is not authorized to describe."


async def describe(
    context: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse:
    """Describe share groups and their members, with their assignments."""
    if not are_enabled(context):
        code = errors.UnsupportedVersion.code
        refused = [_refuse(group_id, code, None) for group_id in request.group_ids]
        return ShareGroupDescribeResponse(groups=refused)
    describe_one = partial(
        _describe,
        context,
        context.services.share_groups(),
        request.include_authorized_operations,
    )
    groups = await LoopShare().each(dict.fromkeys(request.group_ids), describe_one)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext, groups: ShareGroups, asked: bool, group_id: str
) -> DescribedGroup:
    if not context.may(DESCRIBE, GROUP, group_id):
        return _refuse(group_id, errors.GroupAuthorizationFailed.code, None)
    if not group_id:
        return _refuse(group_id, InvalidGroupId.code, None)
    try:
        groups.coordinator.check(group_id)
        machine = groups.get(group_id).machine
    except KafkaError as error:
        return _refuse(group_id, error.code, error.own_message)
    members = [_member(each, groups.image) for each in machine.members.values()]
    if context.rights is not None and not _sees_topics(context, members):
        return _refuse(group_id, errors.TopicAuthorizationFailed.code, _HIDDEN_TOPICS)
    return DescribedGroup(
        group_id=group_id,
        group_state=machine.state,
        group_epoch=machine.epoch,
        assignment_epoch=machine.target_epoch,
        assignor_name=NAME,
        members=members,
        authorized_operations=authorized.of_group(context, group_id)
        if asked
        else authorized.NOT_ASKED,
    )


def _sees_topics(context: RequestContext, members: Sequence[DescribedMember]) -> bool:
    """Tell whether the client may describe all topics that are assigned."""
    names = {each.topic_name for member in members for each in member.assignment.topic_partitions}
    return all(context.sees(DESCRIBE, TOPIC, name) for name in names)


def _refuse(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def _member(member: Member, image: TopicImage) -> DescribedMember:
    topics = ((image.find_id(topic), each) for topic, each in member.current.assigned.items())
    return DescribedMember(
        member_id=member.id,
        rack_id=member.metadata.rack_id,
        member_epoch=member.epoch,
        client_id=member.metadata.client_id,
        client_host=member.metadata.client_host,
        subscribed_topic_names=member.metadata.subscribed_topic_names,
        assignment=Assignment(
            [
                TopicPartitions(topic.id.bytes, topic.name, sorted(each))
                for topic, each in topics
                if topic is not None
            ]
        ),
    )
