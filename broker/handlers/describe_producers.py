"""DescribeProducers (61), version 0: who writes to a partition, what is open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from siltstone.protocol.names import check_topic_name

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.describe_producers import DescribeProducersRequest
    from siltstone.storage.appending._append_kernels import ProducerEntry


def describe(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, idempotent ones included."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [_describe(context, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        log = context.rooms.topics.find_log(topic, index)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            _producer(producer_id, entry) for producer_id, entry in log.producers.producers.items()
        ],
    )


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
