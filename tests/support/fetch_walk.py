"""Fetch sessions as Kafka keeps them: every request walks every partition of its session.

Tests compare `broker.fetching.sessions` with this specification: it is slow, and keeps only
requests and answers. Logs are read through `storage`, which has tests of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

from siltstone.protocol.errors import OffsetOutOfRange
from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.protocol.names import TopicKey
from siltstone.storage.log.log import Log
from tests.support.fetch_requests import FetchRequest
from tests.support.services import ServicesOnDisk

Place = tuple[TopicKey, int]

NONE = 0
OUT_OF_RANGE, UNKNOWN_PARTITION, NOT_LEADER = 1, 3, 6
FENCED_EPOCH, UNKNOWN_EPOCH, UNKNOWN_ID = 74, 75, 100


class Row(NamedTuple):
    """One partition of an answer."""

    topic: TopicKey
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None
    records: bytes
    diverging: tuple[int, int] | None = None


@dataclass
class Told:
    """One partition of a session: what was asked last, and what the client knows."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def is_news(self, row: Row) -> bool:
        """Kafka: ``CachedPartition.maybeUpdateResponseData``."""
        must = bool(row.records or row.error or row.diverging)
        must = must or row.high_watermark != self.high_watermark
        must = must or row.log_start_offset != self.log_start_offset
        self.high_watermark = -1 if row.error else row.high_watermark
        self.log_start_offset = row.log_start_offset
        return must


class Walk:
    """One session, to compare with the broker's."""

    def __init__(self, home: ServicesOnDisk) -> None:
        self._home = home
        self.partitions: dict[Place, Told] = {}

    def open(self, request: FetchRequest) -> list[Row]:
        """Return the answer to a full request, and remember what it told."""
        self.partitions = {
            (key, wanted.partition): Told(wanted)
            for key, wanted_list in request.topics
            for wanted in wanted_list
        }
        rows = self._read_all(request)
        for row in rows:
            self.partitions[row.topic, row.partition].is_news(row)
        return rows

    def update(self, request: FetchRequest) -> None:
        """Apply the changes of an incremental request."""
        for key, wanted_list in request.topics:
            for wanted in wanted_list:
                self.partitions.setdefault((key, wanted.partition), Told(wanted)).wanted = wanted
        for key, indexes in request.forgotten:
            for index in indexes:
                self.partitions.pop((key, index), None)

    def answer(self, request: FetchRequest) -> list[Row]:
        """Return what an incremental answer names; partitions with records go to the end."""
        named = []
        for row in self._read_all(request):
            place = row.topic, row.partition
            if self.partitions[place].is_news(row):
                named.append(row)
                if row.records:
                    self.partitions[place] = self.partitions.pop(place)
        return named

    def is_sound(self, place: Place) -> bool:
        """Tell whether the request for a partition has no error of its own."""
        wanted = self.partitions[place].wanted
        log = self._home.services.topics.get_log(*place)
        is_plain = wanted.current_leader_epoch <= 0 and wanted.last_fetched_epoch < 0
        return (
            is_plain
            and log is not None
            and log.log_start_offset <= wanted.fetch_offset <= log.log_end_offset
        )

    def answers_at_once(self, request: FetchRequest) -> bool:
        """Tell whether a request finds its bytes, or will without anything being appended."""
        size = sum(len(row.records) for row in self._read_all(request))
        return size >= min(request.min_bytes, request.max_bytes) or self.is_enough(request)

    def is_enough(self, request: FetchRequest) -> bool:
        """Tell whether a request that waits has its bytes, or a partition that it must report.

        Kafka: ``DelayedFetch.tryComplete``.
        """
        total = 0
        for (key, index), told in self.partitions.items():
            row = self._read(key, told.wanted, request, 1 << 30, at_least_one=True)
            if row.error or row.diverging:
                return True
            log = self._home.services.topics.get_log(key, index)
            assert log is not None
            upto = log.last_stable_offset if request.isolation_level else log.high_watermark
            size = log.available_bytes(told.wanted.fetch_offset, upto)
            total += min(size, told.wanted.partition_max_bytes)
        return total >= min(request.min_bytes, request.max_bytes)

    def _read_all(self, request: FetchRequest) -> list[Row]:
        remaining = request.max_bytes
        rows: list[Row] = []
        for (key, _), told in self.partitions.items():
            limit = min(told.wanted.partition_max_bytes, remaining)
            has_none = not any(row.records for row in rows)
            row = self._read(key, told.wanted, request, limit, at_least_one=has_none)
            remaining = max(0, remaining - len(row.records))
            rows.append(row)
        return rows

    def _read(
        self,
        key: TopicKey,
        wanted: FetchPartition,
        request: FetchRequest,
        limit: int,
        *,
        at_least_one: bool,
    ) -> Row:
        topics = self._home.services.topics
        log = topics.get_log(key, wanted.partition)
        if log is None:
            is_unknown_id = isinstance(key, bytes) and key not in topics.by_id
            code = UNKNOWN_ID if is_unknown_id else UNKNOWN_PARTITION
            return Row(key, wanted.partition, code, -1, -1, -1, (), b"")
        code = _check(log, wanted, request)
        if code:
            return Row(key, wanted.partition, code, -1, -1, -1, None, b"")
        offsets = log.high_watermark, log.last_stable_offset, log.log_start_offset
        head = (key, wanted.partition, NONE, *offsets)
        if wanted.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(wanted.last_fetched_epoch)
            if epoch < wanted.last_fetched_epoch or end < wanted.fetch_offset:
                return Row(*head, None, b"", (epoch, end))
        offset, committed = wanted.fetch_offset, request.isolation_level == 1
        try:
            read = log.read(offset, limit, offsets[committed], at_least_one=at_least_one)
        except OffsetOutOfRange:
            return Row(key, wanted.partition, OUT_OF_RANGE, -1, -1, -1, None, b"")
        if read is None:
            return Row(*head, () if committed else None, b"")
        aborted = tuple(log.aborted_transactions(offset, read.next_offset)) if committed else None
        return Row(*head, aborted, bytes(read.segment.read(read.slice.position, read.slice.size)))


def _check(log: Log, wanted: FetchPartition, request: FetchRequest) -> int:
    """Return why an existing partition is not read."""
    if request.replica_id >= 0:
        return NOT_LEADER
    epoch = wanted.current_leader_epoch
    if 0 <= epoch < log.leader_epoch:
        return FENCED_EPOCH
    if epoch > log.leader_epoch:
        return UNKNOWN_EPOCH
    if wanted.last_fetched_epoch >= 0:
        found = log.end_offset_for_epoch(wanted.last_fetched_epoch)
        if min(found) < 0 or wanted.fetch_offset < log.log_start_offset:
            return OUT_OF_RANGE
    return NONE
