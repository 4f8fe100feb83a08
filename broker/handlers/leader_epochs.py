"""OffsetForLeaderEpoch (23), versions 2-4: where the records of a leader epoch end (KIP-320).

v3 replica id · v4 compact encoding. Consumers ask it to find out whether they have to go back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

from broker.leader_epoch import check_leader_epoch
from protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartition
from protocol.kio_messages import NO_THROTTLE

if TYPE_CHECKING:
    from kio.schema.offset_for_leader_epoch.v4.request import (
        OffsetForLeaderEpochRequest,
        OffsetForLeaderPartition,
    )

    from broker.context import RequestContext


def handle(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Answer from the epochs that each log remembers."""
    return OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(_find(context, topic.topic, each) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _find(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    code, epoch, end_offset = ErrorCode.none, -1, -1
    try:
        log = context.rooms.topics.logs.get((topic, wanted.partition))
        if log is None:
            raise UnknownTopicOrPartition
        check_leader_epoch(log, wanted.current_leader_epoch)
        epoch, end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        code = error.code
    return EpochEndOffset(
        error_code=code, partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset
    )
