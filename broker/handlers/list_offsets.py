"""ListOffsets (2), versions 1-11: finds the start, the end or the offset of a time.

v2 isolation level (KIP-98) · v4 leader epochs (KIP-320) · v7 -3, greatest timestamp (KIP-734) · v8
-4, start of what is local (KIP-405) · v9 -5, end of what is tiered (KIP-1005) · v10 time-out
(KIP-1075) · v11 -6, start of what is not yet tiered (KIP-1023). Nothing is tiered here.

Lookups by time may read old segments and decompress, so one io thread does all those of a request.

Differs from Kafka: a lookup by time finds the first record at or behind the log start, where Kafka
finds none as long as it has not deleted an old segment below the start.
"""

from collections.abc import Sequence
from typing import Any, Final

from siltstone.broker.fetching.log_ends import EARLIEST, LATEST, are_distinct, list_ends
from siltstone.broker.fetching.watching import READ_COMMITTED
from siltstone.broker.handlers.leader_epochs import UNKNOWN, judge_leader_epoch
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ErrorCode, KafkaError, TopicAuthorizationFailed
from siltstone.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from siltstone.storage.log.log import Log

_NONE: Final = -1
_CONSUMER: Final = -1  # followers see all records, whatever isolation level they name
_NEVER: Final = 1 << 15

# The meanings of negative timestamps.
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6

_FIRST_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_OF_TIERED: Final = frozenset({_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD})


class _Search:
    """A timestamp that a thread has to look for in a log, and where the answer goes."""

    __slots__ = ("index", "log", "place", "rows", "timestamp", "upto")

    def __init__(
        self, rows: list[Any], place: int, index: int, log: Log, timestamp: int, upto: int
    ) -> None:
        self.rows = rows
        self.place = place
        self.index = index
        self.log = log
        self.timestamp = timestamp
        self.upto = upto

    def find(self) -> ListOffsetsPartitionResponse:
        """Look for the timestamp and return the partition's answer. Blocks."""
        try:
            if self.timestamp == _MAX_TIMESTAMP:
                found = self.log.find_max_timestamp(self.upto)
            else:
                found = self.log.find_offset_by_timestamp(self.timestamp, self.upto)
        except KafkaError as error:
            return ListOffsetsPartitionResponse(self.index, error.code)
        if found is None:
            return ListOffsetsPartitionResponse(self.index)
        offset, timestamp, leader_epoch = found
        return ListOffsetsPartitionResponse(self.index, 0, timestamp, offset, leader_epoch)


async def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer what is in memory, and have a thread look for timestamps, if there are any."""
    committed = request.isolation_level == READ_COMMITTED and request.replica_id == _CONSUMER
    finder = _Finder(context, committed)
    topics = [
        ListOffsetsTopicResponse(topic.name, await finder.look_up(topic))
        for topic in request.topics
    ]
    if finder.searches:
        await context.services.io.run(finder.search)
    return ListOffsetsResponse(topics=topics)


class _Finder:
    """Answers what logs have in memory, and collects the timestamps to look for."""

    def __init__(self, context: RequestContext, committed: bool) -> None:
        self.may = context.may
        self.topics = context.services.topics.topics
        self.version = context.version
        self.committed = committed
        self.searches: list[_Search] = []
        self.share = LoopShare()

    def search(self) -> None:
        """Look for all timestamps, and fill the answers in. Blocks."""
        for search in self.searches:
            search.rows[search.place] = search.find()

    async def look_up(self, wanted: ListOffsetsTopic) -> Sequence[Any]:
        """Return the answers of a topic's partitions; some are filled in later by a thread."""
        await self.share.rest()
        partitions = wanted.partitions
        if not self.may(DESCRIBE, TOPIC, wanted.name):
            return await self.share.some(partitions, _refuse_all)
        twice: set[int] = set()
        if not are_distinct(partitions):
            twice, partitions = _find_repeated(partitions)
        rows: list[Any] = []
        for some in self.share.pieces(partitions):
            logs = self._find_logs(wanted.name)
            ends, left = list_ends(some, logs, self.committed)
            if len(some) == len(partitions) and not left and not twice:
                return ends
            rows += ends
            self._complete(rows, logs, some, left, twice)
            await self.share.rest()
        return rows

    def _find_logs(self, name: str) -> Sequence[Log | None]:
        topic = self.topics.get(name)
        return () if topic is None else topic.logs

    def _complete(
        self,
        rows: list[Any],
        logs: Sequence[Log | None],
        partitions: Sequence[ListOffsetsPartition],
        left: list[int],
        twice: set[int],
    ) -> None:
        """Fill in the missing answers; the last rows are those of these partitions."""
        first = len(rows) - len(partitions)
        for place in left:
            index, told_epoch, timestamp = partitions[place]
            if index in twice:
                continue
            log = logs[index] if 0 <= index < len(logs) else None
            if log is None or told_epoch not in (UNKNOWN, log.leader_epoch):
                rows[first + place] = self._refuse(index, log, told_epoch, timestamp)
            else:
                rows[first + place] = self._look_for(rows, first + place, index, log, timestamp)
        if twice:
            for place, (index, *_) in enumerate(partitions, first):
                if index in twice:
                    rows[place] = ListOffsetsPartitionResponse(index, ErrorCode.invalid_request)

    def _is_known(self, timestamp: int) -> bool:
        return timestamp >= 0 or self.version >= _FIRST_VERSION.get(timestamp, _NEVER)

    def _refuse(
        self, index: int, log: Log | None, told_epoch: int, timestamp: int
    ) -> ListOffsetsPartitionResponse:
        """Return the error of a partition: its timestamp, its number or its epoch is wrong."""
        if not self._is_known(timestamp):
            code = ErrorCode.unsupported_version
        elif log is None:
            code = ErrorCode.unknown_topic_or_partition
        else:
            code = judge_leader_epoch(log.leader_epoch, told_epoch)
        return ListOffsetsPartitionResponse(index, code)

    def _look_for(self, rows: list[Any], place: int, index: int, log: Log, timestamp: int) -> Any:
        """Answer the rare special timestamps; leave the others to a thread."""
        if not self._is_known(timestamp):
            return ListOffsetsPartitionResponse(index, ErrorCode.unsupported_version)
        if timestamp == _EARLIEST_LOCAL:
            start = log.log_start_offset
            return ListOffsetsPartitionResponse(index, 0, _NONE, start, log.epochs.epoch_of(start))
        if timestamp in _OF_TIERED:
            return ListOffsetsPartitionResponse(index)
        upto = log.last_stable_offset if self.committed else log.high_watermark
        search = _Search(rows, place, index, log, timestamp, upto)
        self.searches.append(search)
        return search


def _refuse_all(partitions: Sequence[ListOffsetsPartition]) -> list[Any]:
    code = TopicAuthorizationFailed.code
    return [ListOffsetsPartitionResponse(each[0], code) for each in partitions]


def _find_repeated(
    partitions: Sequence[ListOffsetsPartition],
) -> tuple[set[int], list[ListOffsetsPartition]]:
    """Return the repeated partitions, and every partition once, in the order of first places."""
    once: dict[int, ListOffsetsPartition] = {}
    repeated: set[int] = set()
    for each in partitions:
        if each.partition_index in once:
            repeated.add(each.partition_index)
        else:
            once[each.partition_index] = each
    return repeated, list(once.values())
