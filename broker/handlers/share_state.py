"""The requests of brokers to the share coordinator (KIP-932), for the states of queues.

InitializeShareGroupState (83), ReadShareGroupState (84) and DeleteShareGroupState (86), version 0;
WriteShareGroupState (85) and ReadShareGroupStateSummary (87), versions 0-1: v1 the count of
completed deliveries (KIP-1226). This broker calls its coordinator itself, and answers the requests
as Kafka does. A request that names no group, no topic, or a topic without partitions has an empty
answer.

Differs from Kafka: topics and partitions are answered in the order of the request, and a partition
that is named twice is answered twice.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final
from uuid import UUID

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, CLUSTER_ACTION
from siltstone.broker.services import RequestContext
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.state import ShareState, StateBatch
from siltstone.broker.share.states import ShareStates
from siltstone.protocol.errors import (
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    KafkaError,
    NotCoordinator,
)
from siltstone.protocol.messages import delete_share_group_state as deleting
from siltstone.protocol.messages import initialize_share_group_state as initializing
from siltstone.protocol.messages import read_share_group_state as reading
from siltstone.protocol.messages import read_share_group_state_summary as summing
from siltstone.protocol.messages import write_share_group_state as writing
from siltstone.storage.log.log import Log

_WHAT: Final = {
    83: "initialize share group state",
    84: "read share group state",
    85: "write share group state",
    86: "delete share group state",
    87: "read share group state summary",
}
Call = Callable[[ShareStates, ShareKey, Any], tuple[Any, ...]]
"""Does what a request asks for one partition, and returns the fields after the error's."""


async def initialize(
    context: RequestContext, request: initializing.InitializeShareGroupStateRequest
) -> initializing.InitializeShareGroupStateResponse:
    """Begin queues."""

    def call(states: ShareStates, key: ShareKey, each: initializing.PartitionData) -> tuple[()]:
        states.initialize(key, each.state_epoch, each.start_offset)
        return ()

    topics = [topic for topic in request.topics if topic.partitions]
    request = request._replace(topics=topics)
    results = await _for_each(context, request, call, initializing.PartitionResult)
    return initializing.InitializeShareGroupStateResponse(results)


async def read(
    context: RequestContext, request: reading.ReadShareGroupStateRequest
) -> reading.ReadShareGroupStateResponse:
    """Answer the states of queues to the leaders of their partitions."""

    def call(states: ShareStates, key: ShareKey, each: reading.PartitionData) -> tuple[Any, ...]:
        state = states.read(key, each.leader_epoch)
        return state.state_epoch, state.start_offset, state.batches

    results = await _for_each(context, request, call, reading.PartitionResult)
    return reading.ReadShareGroupStateResponse(results)


async def write(
    context: RequestContext, request: writing.WriteShareGroupStateRequest
) -> writing.WriteShareGroupStateResponse:
    """Write changes of queues."""

    def call(states: ShareStates, key: ShareKey, each: writing.PartitionData) -> tuple[()]:
        batches = [StateBatch(*batch) for batch in each.state_batches]
        change = ShareState(
            each.state_epoch, each.start_offset, each.delivery_complete_count, batches
        )
        states.write(key, each.leader_epoch, change)
        return ()

    results = await _for_each(context, request, call, writing.PartitionResult)
    return writing.WriteShareGroupStateResponse(results)


async def delete(
    context: RequestContext, request: deleting.DeleteShareGroupStateRequest
) -> deleting.DeleteShareGroupStateResponse:
    """Forget queues."""

    def call(states: ShareStates, key: ShareKey, _: deleting.PartitionData) -> tuple[()]:
        states.delete(key)
        return ()

    results = await _for_each(context, request, call, deleting.PartitionResult)
    return deleting.DeleteShareGroupStateResponse(results)


async def summarize(
    context: RequestContext, request: summing.ReadShareGroupStateSummaryRequest
) -> summing.ReadShareGroupStateSummaryResponse:
    """Answer the starts of queues."""

    def call(states: ShareStates, key: ShareKey, _: summing.PartitionData) -> tuple[Any, ...]:
        return states.summary(key)

    results = await _for_each(context, request, call, summing.PartitionResult)
    return summing.ReadShareGroupStateSummaryResponse(results)


async def _for_each(
    context: RequestContext, request: Any, call: Call, result: Callable[..., Any]
) -> list[Any]:
    """Call for each partition of a request, and return the results by topic, in its order."""
    topics: Sequence[Any] = request.topics
    may = context.may(CLUSTER_ACTION, CLUSTER)
    if may and (not request.group_id or not all(topic.partitions for topic in topics)):
        return []
    states = context.services.share_states()
    share = LoopShare()
    results: list[tuple[Any, list[Any]]] = []
    due: dict[Log, None] = {}
    for topic_id, partitions in topics:
        rows = []
        for each in partitions:
            key = ShareKey(request.group_id, UUID(bytes=bytes(topic_id)), each.partition)
            if not may:
                refusal = ClusterAuthorizationFailed()
                rows.append(result(key.partition, refusal.code, refusal.message))
                continue
            try:
                rows.append(result(key.partition, 0, None, *call(states, key, each)))
                due |= states.find_unwritten(key)
            except KafkaError as error:
                rows.append(result(key.partition, error.code, _words(context, error)))
            await share.rest()
        results.append((topic_id, rows))
    try:
        await states.flush(due)
    except KafkaError as error:  # nobody knows which of the records are on the disk
        return [
            (topic_id, [result(each[0], error.code, _words(context, error)) for each in rows])
            for topic_id, rows in results
        ]
    return results


def _words(context: RequestContext, error: KafkaError) -> str:
    """Return the message of a refusal; one by the journal says what could not be done."""
    if isinstance(error, (CoordinatorLoadInProgress, NotCoordinator)):
        return f"Unable to {_WHAT[context.api_key]}: {error.message}"
    return error.message
