"""OffsetForLeaderEpoch (23), versions 2-4: where the records of a leader epoch end (KIP-320).

v3 replica id · v4 compact encoding. Consumers ask it to find out whether they have to go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.topics.leader_epoch import UNKNOWN, judge_leader_epoch
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.offset_for_leader_epoch import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderTopic,
    )

_UNKNOWN: Final = ErrorCode.unknown_topic_or_partition


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer from the epochs that each log remembers."""
    topics = context.rooms.topics.topics
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(each.topic, _find_all(topics.get(each.topic), each))
            for each in request.topics
        ]
    )


def _find_all(topic: Topic | None, wanted: OffsetForLeaderTopic) -> list[Any]:
    logs = () if topic is None else topic.logs
    count = len(logs)
    rows: list[Any] = []
    for index, told_epoch, epoch in wanted.partitions:
        log = logs[index] if 0 <= index < count else None
        if log is None:
            rows.append(EpochEndOffset(_UNKNOWN, index))
        elif told_epoch not in (UNKNOWN, log.leader_epoch):
            rows.append(EpochEndOffset(judge_leader_epoch(log.leader_epoch, told_epoch), index))
        else:
            found, end_offset = log.epochs.end_offset_for(epoch, log.log_end_offset)
            rows.append((0, index, found, end_offset))
    return rows
