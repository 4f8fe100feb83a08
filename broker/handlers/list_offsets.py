"""ListOffsets (2), versions 1-11: where a partition begins and ends, or was at some time.

v2 isolation level (KIP-98) · v4 leader epochs (KIP-320) · v7 -3, greatest timestamp (KIP-734) · v8
-4, start of what is local (KIP-405) · v9 -5, end of what is tiered (KIP-1005) · v10 time-out
(KIP-1075) · v11 -6, start of what is not yet tiered (KIP-1023). Nothing is tiered here.

Lookups by time may read old segments and decompress, so all of a request run on one io thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from broker.leader_epoch import check_leader_epoch
from protocol.errors import (
    ErrorCode,
    InvalidRequest,
    KafkaError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from broker.context import RequestContext
    from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest
    from storage.log import Log

_READ_COMMITTED = 1
_NONE = -1


class Position(IntEnum):
    """What a negative timestamp asks for."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_FIRST_VERSION = {
    Position.MAX_TIMESTAMP: 7,
    Position.EARLIEST_LOCAL: 8,
    Position.LATEST_TIERED: 9,
    Position.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(slots=True)
class _Lookup:
    """One partition: its answer, unless a thread has yet to look for ``timestamp`` in ``log``."""

    index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = _NONE
    offset: int = _NONE
    leader_epoch: int = _NONE
    log: Log | None = None
    upto: int = 0

    def find(self) -> None:
        """Look for the timestamp. Blocks."""
        log = self.log
        if log is None:
            return
        timestamp, self.timestamp = self.timestamp, _NONE
        try:
            if timestamp == Position.MAX_TIMESTAMP:
                found = log.find_max_timestamp(self.upto)
            else:
                found = log.find_offset_by_timestamp(timestamp, self.upto)
        except KafkaError as error:
            self.error_code = error.code
        else:
            if found is not None:
                self.offset, self.timestamp, self.leader_epoch = found


def handle(
    context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """Answer at once unless a timestamp has to be looked for."""
    topics = [
        (topic.name, _prepare(context, request, topic.name, topic.partitions))
        for topic in request.topics
    ]
    slow = [lookup for _, lookups in topics for lookup in lookups if lookup.log is not None]
    return _find_and_respond(context, topics, slow) if slow else _respond(topics)


async def _find_and_respond(
    context: RequestContext, topics: list[tuple[str, list[_Lookup]]], slow: list[_Lookup]
) -> ListOffsetsResponse:
    def find_all() -> None:
        for lookup in slow:
            lookup.find()

    await context.rooms.io.run(find_all)
    return _respond(topics)


def _prepare(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    partitions: Iterable[ListOffsetsPartition],
) -> list[_Lookup]:
    lookups: dict[int, _Lookup] = {}
    for wanted in partitions:
        index = wanted.partition_index
        try:
            if index in lookups:
                raise InvalidRequest
            committed = request.isolation_level == _READ_COMMITTED
            lookups[index] = _look_up(context, topic, wanted, committed=committed)
        except KafkaError as error:
            lookups[index] = _Lookup(index, error_code=error.code)
    return list(lookups.values())


def _look_up(
    context: RequestContext, topic: str, wanted: ListOffsetsPartition, *, committed: bool
) -> _Lookup:
    """Answer what the log knows without reading; a search is left to `_Lookup.find`."""
    timestamp = wanted.timestamp
    if timestamp < 0:
        if timestamp not in Position.__members__.values():
            raise UnsupportedVersion
        if context.version < _FIRST_VERSION.get(Position(timestamp), 0):
            raise UnsupportedVersion
    index = wanted.partition_index
    log = context.rooms.topics.logs.get((topic, index))
    if log is None:
        raise UnknownTopicOrPartition
    check_leader_epoch(log, wanted.current_leader_epoch)
    upto = log.last_stable_offset if committed else log.high_watermark
    match timestamp:
        case Position.LATEST:
            return _Lookup(index, offset=upto, leader_epoch=log.leader_epoch)
        case Position.EARLIEST | Position.EARLIEST_LOCAL:
            start = log.log_start_offset
            return _Lookup(index, offset=start, leader_epoch=log.epoch_of(start))
        case Position.LATEST_TIERED | Position.EARLIEST_PENDING_UPLOAD:
            return _Lookup(index)
    return _Lookup(index, timestamp=timestamp, log=log, upto=upto)


def _respond(topics: list[tuple[str, list[_Lookup]]]) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name,
                [
                    ListOffsetsPartitionResponse(
                        lookup.index,
                        lookup.error_code,
                        lookup.timestamp,
                        lookup.offset,
                        lookup.leader_epoch,
                    )
                    for lookup in lookups
                ],
            )
            for name, lookups in topics
        ],
    )
