"""DescribeProducers (61), version 0: producers and open transactions of partitions (KIP-664)."""

from collections.abc import Sequence
from typing import Any

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import READ, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.protocol.errors import InvalidTopic, KafkaError, TopicAuthorizationFailed
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from siltstone.protocol.names import check_topic_name
from siltstone.storage.log.log import Log
from siltstone.storage.producers.producer_entry import ProducerEntry


async def describe(
    context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    """Return the producers that each partition knows, idempotent ones included."""
    registry = context.services.topics
    share = LoopShare()
    topics = []
    for name, indexes in request.topics:
        may = context.rights is None or _may_read(context, name)
        rows: list[Any] = []
        for some in share.pieces(indexes):
            logs = _find_logs(registry, name) if may else ()
            for index in some:
                log = logs[index] if 0 <= index < len(logs) else None
                if log is None:
                    try:
                        if not may:
                            raise TopicAuthorizationFailed
                        check_topic_name(name)
                        log = registry.find_log(name, index)  # raises why it is not open
                    except KafkaError as error:
                        rows.append(PartitionResponse(index, error.code, error.message))
                        continue
                known = log.producers.producers
                producers: Sequence[ProducerState] = ()
                if known:
                    producers = await share.each(list(known.items()), _producer)
                    logs = _find_logs(registry, name)
                rows.append((index, 0, None, producers))
            await share.rest()
        topics.append(TopicResponse(name, rows))
    return DescribeProducersResponse(topics=topics)


def _find_logs(registry: TopicRegistry, name: str) -> Sequence[Log | None]:
    """Return the logs of a topic as it is now."""
    topic = registry.topics.get(name)
    return () if topic is None else topic.logs


def _may_read(context: RequestContext, name: str) -> bool:
    """Tell whether a client may read a topic; an invalid name is refused as invalid elsewhere."""
    try:
        check_topic_name(name)
    except InvalidTopic:
        return True
    return context.may(READ, TOPIC, name)


def _producer(known: tuple[int, ProducerEntry]) -> ProducerState:
    producer_id, entry = known
    last = entry.last_batch
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=entry.epoch,
        last_sequence=-1 if last is None else last.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.transaction_first_offset,
    )
