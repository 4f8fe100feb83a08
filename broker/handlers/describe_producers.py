"""DescribeProducers (61), version 0: who writes to a partition, what is open there (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_producers.v0.response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

from protocol.errors import ErrorCode, KafkaError
from protocol.kio_messages import NO_THROTTLE
from protocol.names import check_topic_name

if TYPE_CHECKING:
    from kio.schema.describe_producers.v0.request import DescribeProducersRequest

    from broker.context import RequestContext
    from storage.append_kernels import ProducerEntry


def describe(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, idempotent ones included."""
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _describe(context, topic.name, index) for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _describe(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
        log = context.rooms.topics.find_log(topic, index)
    except KafkaError as error:
        return PartitionResponse(
            partition_index=index,
            error_code=error.code,
            error_message=error.message,
            active_producers=(),
        )
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=tuple(
            _producer(producer_id, entry) for producer_id, entry in log.producers.producers.items()
        ),
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
