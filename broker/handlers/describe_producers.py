"""DescribeProducers (61), version 0: who writes to a partition, what is open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.security.rights import READ, TOPIC
from siltstone.protocol.errors import InvalidTopic, KafkaError, TopicAuthorizationFailed
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from siltstone.protocol.names import check_topic_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.describe_producers import DescribeProducersRequest
    from siltstone.storage.appending._append_kernels import ProducerEntry


def describe(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, idempotent ones included."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name, _describe_all(context, name, indexes))
            for name, indexes in request.topics
        ]
    )


def _may_read(context: RequestContext, name: str) -> bool:
    """Tell whether a client may read a topic; a name that no topic can have is refused as such."""
    if context.rights is None:
        return True
    try:
        check_topic_name(name)
    except InvalidTopic:
        return True
    return context.may(READ, TOPIC, name)


def _describe_all(context: RequestContext, name: str, indexes: Sequence[int]) -> list[Any]:
    if not _may_read(context, name):
        refusal = TopicAuthorizationFailed()
        return [PartitionResponse(index, refusal.code, refusal.message) for index in indexes]
    registry = context.rooms.topics
    topic = registry.topics.get(name)
    logs = () if topic is None else topic.logs
    count = len(logs)
    rows: list[Any] = []
    for index in indexes:
        log = logs[index] if 0 <= index < count else None
        try:
            if log is None:
                check_topic_name(name)
                log = registry.find_log(name, index)  # says why it is not there
        except KafkaError as error:
            rows.append(PartitionResponse(index, error.code, error.message))
            continue
        known = log.producers.producers
        rows.append((index, 0, None, [_producer(*each) for each in known.items()] if known else ()))
    return rows


def _producer(producer_id: int, entry: ProducerEntry) -> ProducerState:
    last = entry.last_batch
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=-1 if last is None else last.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
