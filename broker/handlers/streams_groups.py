"""StreamsGroupDescribe (89), versions 0-1: groups of Kafka Streams (KIP-1071).

v1 the assignor (KIP-1357), and that no description of the topology is stored (KIP-1331). Groups of
other types are not found here.

Differs from Kafka: a group that is named twice is described once.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.member import Member
from siltstone.broker.groups.streams.policy import is_enabled
from siltstone.broker.handlers import authorized
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, GROUP, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.config.consumer_groups import STREAMS_ASSIGNORS
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import InvalidGroupId
from siltstone.protocol.coordinator.streams_group_records import HeldTasks, Tasks, TopicInfo
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TaskOffset,
    Topology,
)
from siltstone.protocol.messages.streams_group_describe import Member as DescribedMember
from siltstone.protocol.messages.streams_group_describe import TopicInfo as DescribedTopic

_NOT_STORED = 1
_HIDDEN_TOPICS = "The described group uses topics that the client is not authorized to describe."


async def describe(
    context: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse:
    """Describe groups of Kafka Streams and their members, with current and target tasks."""
    describe_one = partial(_describe, context, request)
    groups = await LoopShare().each(dict.fromkeys(request.group_ids), describe_one)
    return StreamsGroupDescribeResponse(groups=groups)


def _describe(
    context: RequestContext, request: StreamsGroupDescribeRequest, group_id: str
) -> DescribedGroup:
    services = context.services
    if not is_enabled(services.settings, services.features):
        return _refuse(group_id, errors.UnsupportedVersion.code)
    if context.rights is not None and not context.may(DESCRIBE, GROUP, group_id):
        return _refuse(group_id, errors.GroupAuthorizationFailed.code)
    if not group_id:
        return _refuse(group_id, InvalidGroupId.code)
    try:
        services.groups().check(group_id)
        machine = services.streams_groups().get(group_id).machine
    except KafkaError as error:
        return _refuse(group_id, error.code, error.own_message)
    topology = _topology(machine)
    if context.rights is not None and not _sees_topics(context, topology):
        return _refuse(group_id, errors.TopicAuthorizationFailed.code, _HIDDEN_TOPICS)
    asked = request.include_authorized_operations
    return DescribedGroup(
        group_id=group_id,
        group_state=machine.state,
        group_epoch=machine.epoch,
        assignment_epoch=machine.target_epoch,
        topology=topology,
        members=[_member(machine, each) for each in machine.members.values()],
        authorized_operations=authorized.of_group(context, group_id)
        if asked
        else authorized.NOT_ASKED,
        topology_description_status=_NOT_STORED if request.include_topology_description else 0,
        assignor_name=STREAMS_ASSIGNORS[0],
    )


def _refuse(group_id: str, code: ErrorCode, message: str | None = None) -> DescribedGroup:
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def _sees_topics(context: RequestContext, topology: Topology) -> bool:
    """Tell whether the client may describe all topics of the application."""
    names = {
        name
        for each in topology.subtopologies or ()
        for name in (
            *each.source_topics,
            *each.repartition_sink_topics,
            *(topic.name for topic in each.repartition_source_topics),
            *(topic.name for topic in each.state_changelog_topics),
        )
    }
    return all(context.sees(DESCRIBE, TOPIC, name) for name in names)


def _topology(group: StreamsGroup) -> Topology:
    """Return the topology, with the numbers of partitions if all topics exist."""
    topology, configured = group.topology, group.configured
    if topology is None:  # its record is lost
        return Topology()
    if configured is not None and configured.is_ready:
        subtopologies = [
            Subtopology(
                name,
                sorted(each.source_topics),
                sorted(each.repartition_sink_topics),
                _topics(each.state_changelog_topics.values()),
                _topics(each.repartition_source_topics.values()),
            )
            for name, each in configured.subtopologies.items()
        ]
    else:
        subtopologies = [
            Subtopology(
                said.subtopology_id,
                sorted(said.source_topics),
                sorted(said.repartition_sink_topics),
                _topics(said.state_changelog_topics),
                _topics(said.repartition_source_topics),
            )
            for said in sorted(topology.subtopologies)
        ]
    return Topology(topology.epoch, subtopologies)


def _topics(topics: Iterable[TopicInfo]) -> list[DescribedTopic]:
    return [
        DescribedTopic(
            each.name,
            each.partitions,
            each.replication_factor,
            [KeyValue(*config) for config in sorted(each.topic_configs)],
        )
        for each in sorted(topics)
    ]


def _member(group: StreamsGroup, member: Member) -> DescribedMember:
    metadata, endpoint = member.metadata, member.metadata.user_endpoint
    offsets, ends = group.offsets.get(member.id, ({}, {}))
    return DescribedMember(
        member_id=member.id,
        member_epoch=member.epoch,
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else Endpoint(*endpoint),
        client_tags=[KeyValue(*each) for each in metadata.client_tags],
        task_offsets=_offsets(offsets),
        task_end_offsets=_offsets(ends),
        assignment=_assignment(member.current.assigned),
        target_assignment=_assignment(group.target_of(member.id)),
    )


def _offsets(offsets: Mapping[TaskId, int]) -> list[TaskOffset]:
    return [TaskOffset(*task, offset) for task, offset in sorted(offsets.items())]


def _assignment(tasks: Tasks | HeldTasks) -> Assignment:
    roles = [[TaskIds(name, sorted(each)) for name, each in sorted(role.items())] for role in tasks]
    return Assignment(*roles)
