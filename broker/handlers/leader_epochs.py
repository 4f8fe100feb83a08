"""OffsetForLeaderEpoch (23), versions 2-4: where the records of a leader epoch end (KIP-320).

v3 replica id · v4 compact encoding. Consumers ask it to find out whether they have to go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.leader_epoch import check_leader_epoch
from protocol.errors import ErrorCode, KafkaError
from protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from broker.context import RequestContext
    from protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderTopic,
    )
    from storage.log import Log

_UNKNOWN = ErrorCode.unknown_topic_or_partition


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer from the epochs that each log remembers."""
    logs = context.rooms.topics.logs
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, _find_all(logs, topic))
            for topic in request.topics
        ]
    )


def _find_all(logs: dict[tuple[str, int], Log], topic: OffsetForLeaderTopic) -> list[Any]:
    name = topic.topic
    found: list[Any] = []
    for index, current_epoch, epoch in topic.partitions:
        log = logs.get((name, index))
        if log is None:
            found.append(EpochEndOffset(_UNKNOWN, index))
            continue
        try:
            check_leader_epoch(log, current_epoch)
        except KafkaError as error:
            found.append(EpochEndOffset(error.code, index))
        else:
            found.append((0, index, *log.end_offset_for_epoch(epoch)))
    return found
