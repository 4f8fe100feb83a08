"""DescribeProducers (61), version 0: producers and open transactions of partitions (KIP-664)."""

from collections.abc import Sequence
from typing import Any

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import InvalidTopic, KafkaError, TopicAuthorizationFailed
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from siltstone.protocol.names import check_topic_name
from siltstone.storage.producers.producer_entry import ProducerEntry


async def describe(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, idempotent ones included."""
    share = LoopShare()
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name, await _describe_all(context, name, indexes, share))
            for name, indexes in request.topics
        ]
    )


def _may_read(context: RequestContext, name: str) -> bool:
    """Tell whether a client may read a topic; an invalid name is refused as invalid elsewhere."""
    if context.rights is None:
        return True
    try:
        check_topic_name(name)
    except InvalidTopic:
        return True
    return context.may(READ, TOPIC, name)


async def _describe_all(
    context: RequestContext, name: str, indexes: Sequence[int], share: LoopShare
) -> list[Any]:
    await share.rest()
    may = _may_read(context, name)
    registry = context.services.topics
    rows: list[Any] = []
    for index in indexes:
        await share.rest()
        try:
            if not may:
                raise TopicAuthorizationFailed
            log = registry.get_log(name, index)
            if log is None:
                check_topic_name(name)
                log = registry.find_log(name, index)  # raises the reason why it is not open
        except KafkaError as error:
            rows.append(PartitionResponse(index, error.code, error.message))
            continue
        producers: Sequence[ProducerState] = ()
        if log.producers.producers:
            producers = []
            for each in list(log.producers.producers.items()):
                producers.append(_producer(*each))
                await share.rest()
        rows.append((index, 0, None, producers))
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
