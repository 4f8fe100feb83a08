"""StreamsGroupHeartbeat (88), versions 0-1: how members of Kafka Streams join, stay and leave.

The broker assigns the tasks of the application (KIP-1071), and makes its repartition and changelog
topics. v1 a lag of 64 bits, and the status of missing client tags (KIP-1331). The API needs
streams.version 1 and "streams" among group.coordinator.rebalance.protocols.

Differs from Kafka: the answer waits until the internal topics are made, and tells at once why one
could not be; the hash of topics in the group's record is another one; among members that are as
good, the one that joined first gets a task; the settings that Kafka does not document are not
obeyed (a lag of 10,000 and an interval of 60 s are told). A member is answered
COORDINATOR_LOAD_IN_PROGRESS until there is room, if it would exceed group.members.max.bytes, or if
the members of its user would exceed half of that limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    check_request,
)
from siltstone.broker.groups.streams.policy import is_enabled
from siltstone.broker.groups.streams.topology import Status, StatusCode
from siltstone.broker.handlers import authorized, create_topics
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, CREATE, DESCRIBE, GROUP, READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_errors import StreamsInvalidTopology
from siltstone.protocol.coordinator.streams_group_records import (
    Endpoint,
    KeyValue,
    TopicInfo,
    Topology,
    settle_topology,
)
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.java import client_host
from siltstone.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from siltstone.protocol.messages.streams_group_heartbeat import (
    EndpointToPartitions,
    ResponseEndpoint,
    ResponseTaskIds,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
    TopicPartition,
)
from siltstone.protocol.messages.streams_group_heartbeat import Status as StatusRow
from siltstone.protocol.names import check_topic_name, is_internal

_FIRST_WITH_TAGS = 1
_NAMED = 3
"""How many topics that could not be made are named."""


async def handle(
    context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse:
    """Handle a heartbeat: admit, keep or remove a member, and answer with its tasks."""
    services = context.services
    if not is_enabled(services.settings, services.features):
        return StreamsGroupHeartbeatResponse(error_code=errors.UnsupportedVersion.code)
    if not context.may(READ, GROUP, request.group_id):
        return StreamsGroupHeartbeatResponse(error_code=errors.GroupAuthorizationFailed.code)
    topology = None if request.topology is None else settle_topology(request.topology)
    share = LoopShare()
    groups = services.groups()
    try:
        if topology is not None:
            await _check_topics(context, topology, share)
        values = _read(context, request, topology)
        check_request(values, request.group_id)
        groups.check(request.group_id)
        result = services.streams_groups().heartbeat(request.group_id, values)
        journal = groups.journal
        if due := journal.find_unwritten_of(request.group_id):
            await share.wait_for(journal.flush(due))
    except KafkaError as error:
        return StreamsGroupHeartbeatResponse(error_code=error.code, error_message=error.own_message)
    status = list(result.status)
    if result.configured is not None and result.configured.missing:
        await _create_topics(context, result.configured.missing.values(), status)
    return _answer(result, status)


async def _check_topics(context: RequestContext, topology: Topology, share: LoopShare) -> None:
    """Refuse a topology with topics that no application may use, or that the client may not see.

    Raises:
        StreamsInvalidTopology: A name is illegal, or that of a topic of the broker's own.
        TopicAuthorizationFailed: The client may not describe one of the topics.
    """
    names = list(dict.fromkeys(_topics_of(topology)))
    if internal := [name for name in names if is_internal(name)]:
        raise StreamsInvalidTopology(
            f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is "
            "prohibited."
        )
    if illegal := [name for name in names if not _is_legal(name)]:
        raise StreamsInvalidTopology(f"Topic names {','.join(illegal)} are not valid topic names.")
    if context.rights is not None:
        for name in names:
            if not context.may(DESCRIBE, TOPIC, name):
                raise errors.TopicAuthorizationFailed
            await share.rest()


def _topics_of(topology: Topology) -> Iterator[str]:
    for each in topology.subtopologies:
        yield from each.source_topics
        yield from each.repartition_sink_topics
        for topic in chain(each.repartition_source_topics, each.state_changelog_topics):
            yield topic.name


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except errors.InvalidTopic:
        return False
    return True


def _read(
    context: RequestContext, request: StreamsGroupHeartbeatRequest, topology: Topology | None
) -> HeartbeatRequest:
    """Convert a request to the coordinator's types."""
    tags, endpoint = request.client_tags, request.user_endpoint
    return HeartbeatRequest(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        client_id=context.client_id or "",
        client_host=client_host(context.peer),
        endpoint_epoch=request.endpoint_information_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topology=topology,
        active=_tasks(request.active_tasks),
        standby=_tasks(request.standby_tasks),
        warmup=_tasks(request.warmup_tasks),
        process_id=request.process_id,
        user_endpoint=None if endpoint is None else Endpoint(*endpoint),
        client_tags=None if tags is None else tuple(sorted(KeyValue(*each) for each in tags)),
        offsets=_offsets(request.task_offsets),
        end_offsets=_offsets(request.task_end_offsets),
        shuts_down=request.shutdown_application,
        knows_tags=context.version >= _FIRST_WITH_TAGS,
        user=authorized.user_of(context),
    )


def _tasks(rows: Iterable[TaskIds] | None) -> dict[str, frozenset[int]] | None:
    if rows is None:
        return None
    found: dict[str, frozenset[int]] = {}
    for name, partitions in rows:
        found[name] = found.get(name, frozenset()) | frozenset(partitions)
    return found


def _offsets(rows: Iterable[TaskOffset] | None) -> dict[TaskId, int] | None:
    if rows is None:
        return None
    return {TaskId(name, partition): offset for name, partition, offset in rows}


async def _create_topics(
    context: RequestContext, missing: Iterable[TopicInfo], status: list[Status]
) -> None:
    """Create the application's internal topics; note in the status what could not be created."""
    topics = list(missing)
    if not context.sees(CREATE, CLUSTER):
        refused = [each.name for each in topics if not context.may(CREATE, TOPIC, each.name)]
        if refused:
            _add_detail(status, f"Unauthorized to CREATE on topics {', '.join(refused)}.")
            return
    failed = []
    for each in topics:
        wanted = CreatableTopic(
            name=each.name,
            num_partitions=each.partitions,
            replication_factor=each.replication_factor or -1,
            configs=[CreatableTopicConfig(*config) for config in each.topic_configs],
        )
        try:
            await create_topics.create(context, wanted)
        except errors.TopicAlreadyExists:
            pass  # another member's heartbeat was first
        except KafkaError as error:
            failed.append(f"{each.name} ({error.message})")
    if failed:
        more = len(failed) - _NAMED
        named = ", ".join(failed[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        _add_detail(status, f"Creation failed: {named}.")


def _add_detail(status: list[Status], detail: str) -> None:
    for index, each in enumerate(status):
        if each.code is StatusCode.MISSING_INTERNAL_TOPICS:
            status[index] = each._replace(detail=f"{each.detail}; {detail}")


def _answer(result: HeartbeatResult, status: Sequence[Status]) -> StreamsGroupHeartbeatResponse:
    tasks: list[Any] = [None, None, None]
    if result.tasks is not None:
        tasks = [
            [ResponseTaskIds(name, sorted(each)) for name, each in sorted(role.items())]
            for role in result.tasks
        ]
    endpoints = None
    if result.endpoints is not None:
        endpoints = [
            EndpointToPartitions(
                ResponseEndpoint(*each.endpoint),
                [TopicPartition(*some) for some in each.active],
                [TopicPartition(*some) for some in each.standby],
            )
            for each in result.endpoints
        ]
    return StreamsGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=result.heartbeat_interval_ms,
        task_offset_interval_ms=result.task_offset_interval_ms,
        acceptable_recovery_lag=result.acceptable_recovery_lag,
        status=[StatusRow(*each) for each in status],
        active_tasks=tasks[0],
        standby_tasks=tasks[1],
        warmup_tasks=tasks[2],
        endpoint_information_epoch=result.endpoint_epoch,
        partitions_by_user_endpoint=endpoints,
    )
