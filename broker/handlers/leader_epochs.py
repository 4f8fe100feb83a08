"""OffsetForLeaderEpoch (23), versions 2-4: where the records of a leader epoch end (KIP-320).

v3 replica id · v4 compact encoding. Consumers use it to find out whether the log was truncated.
"""

from collections.abc import Sequence
from typing import Any, Final

from siltstone.broker.fetching.log_ends import list_epoch_ends
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, CLUSTER_ACTION, DESCRIBE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode, TopicAuthorizationFailed
from siltstone.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

_UNKNOWN: Final = ErrorCode.unknown_topic_or_partition


async def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer from the leader epochs that each log keeps."""
    is_broker = context.rights is None or context.sees(CLUSTER_ACTION, CLUSTER)
    share = LoopShare()
    results = []
    for name, partitions in request.topics:
        answer = _find_some if is_broker or context.may(DESCRIBE, TOPIC, name) else _refuse
        rows = await share.some(partitions, answer, context, name)
        results.append(OffsetForLeaderTopicResult(name, rows))
    return OffsetForLeaderEpochResponse(topics=results)


def _refuse(
    _: RequestContext, __: str, wanted: Sequence[OffsetForLeaderPartition]
) -> Sequence[Any]:
    return [EpochEndOffset(TopicAuthorizationFailed.code, each[0]) for each in wanted]


def _find_some(
    context: RequestContext, name: str, wanted: Sequence[OffsetForLeaderPartition]
) -> Sequence[Any]:
    """Return the rows of some partitions of a topic as it is now."""
    topic = context.services.topics.topics.get(name)
    logs = () if topic is None else topic.logs
    ends, left = list_epoch_ends(wanted, logs)
    if not left:
        return ends
    rows: list[Any] = list(ends)
    for place in left:
        index, told_epoch, _ = wanted[place]
        log = logs[index] if 0 <= index < len(logs) else None
        code = _UNKNOWN if log is None else judge_leader_epoch(log.leader_epoch, told_epoch)
        rows[place] = EpochEndOffset(code, index)
    return rows


UNKNOWN: Final = -1
"""The leader epoch of a client that does not know it."""


def judge_leader_epoch(current: int, told: int) -> ErrorCode:
    """Return the error for a client's epoch; none for `UNKNOWN` and the current one (KIP-320)."""
    if told < current:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch
