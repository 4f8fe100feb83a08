"""ElectLeaders (43), versions 0-2; Alter- and ListPartitionReassignments (45, 0-1; 46, 0).

ElectLeaders: v1 election type (KIP-460) · v2 compact encoding. AlterPartitionReassignments
(KIP-455): v1 refuses another replication factor (KIP-860). With one broker every partition already
has the only possible leader, and a reassignment to this broker needs no work.

Differs from Kafka: the answer to an election for all partitions names no topics, where Kafka names
topics without partitions.
"""

from functools import partial

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import ALTER, CLUSTER, DESCRIBE
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.assignments import check_replicas
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from siltstone.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from siltstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

_ELECTION_TYPES = frozenset({0, 1})  # preferred, unclean


async def elect_leaders(
    context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Answer for each partition that its leader is elected already."""
    refusal: KafkaError | None = None
    if not context.may(ALTER, CLUSTER):
        refusal = errors.ClusterAuthorizationFailed()
    elif request.election_type not in _ELECTION_TYPES:
        refusal = errors.InvalidRequest(f"election type {request.election_type}; 0 and 1 are known")
    share = LoopShare()
    results = []
    for name, indexes in request.topic_partitions or ():
        elect = partial(_elect, context, refusal, name)
        results.append(ReplicaElectionResult(name, await share.each(indexes, elect)))
        await share.rest()
    return ElectLeadersResponse(
        error_code=ErrorCode.none if refusal is None else refusal.code,
        replica_election_results=results,
    )


def _elect(
    context: RequestContext, refusal: KafkaError | None, topic: str, index: int
) -> PartitionResult:
    error = refusal or _find_unknown(context, topic, index) or errors.ElectionNotNeeded()
    return PartitionResult(index, error.code, error.message)


def _find_unknown(context: RequestContext, topic: str, index: int) -> KafkaError | None:
    found = context.services.topics.topics.get(topic)
    if found is None:
        return errors.UnknownTopicOrPartition(f"there is no topic {topic}")
    if not 0 <= index < found.partitions:
        return errors.UnknownTopicOrPartition(f"topic {topic} has no partition {index}")
    return None


async def alter_reassignments(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Accept assignments that change nothing and refuse all others."""
    may_alter = context.may(ALTER, CLUSTER)
    share = LoopShare()
    responses = []
    for name, partitions in request.topics:
        answer = partial(_reassign, context, name) if may_alter else _refuse
        responses.append(ReassignableTopicResponse(name, await share.each(partitions, answer)))
        await share.rest()
    if not may_alter:
        return AlterPartitionReassignmentsResponse(**CLUSTER_REFUSED, responses=responses)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _refuse(wanted: ReassignablePartition) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(wanted.partition_index, **CLUSTER_REFUSED)


def _reassign(
    context: RequestContext, topic: str, wanted: ReassignablePartition
) -> ReassignablePartitionResponse:
    index = wanted.partition_index
    try:
        unknown = _find_unknown(context, topic, index)
        if unknown is not None:
            raise unknown
        if wanted.replicas is None:
            raise errors.NoReassignmentInProgress
        check_replicas(wanted.replicas, context.services.identity.node_id)
    except KafkaError as error:
        return ReassignablePartitionResponse(index, error.code, error.message)
    return ReassignablePartitionResponse(index, error_message=None)


async def list_reassignments(
    context: RequestContext, request: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Return an empty list: a reassignment is complete when it is answered."""
    if context.may(DESCRIBE, CLUSTER):
        return ListPartitionReassignmentsResponse(error_message=None)
    share = LoopShare()
    refused = []
    for name, indexes in request.topics or ():
        rows = await share.each(indexes, OngoingPartitionReassignment)
        refused.append(OngoingTopicReassignment(name, rows))
        await share.rest()
    return ListPartitionReassignmentsResponse(**CLUSTER_REFUSED, topics=refused)
