"""The records that a partition must hold, and a judge that reads them in every way."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from random import Random
from uuid import UUID

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import ABORT
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.log.log import Log
from siltstone.storage.log.view import find_index
from siltstone.storage.producers.markers import read_marker
from siltstone.storage.topic_partition import TopicPartition
from tests.support.invariants import check_log

_BODY = 16
"""Where a batch begins to be what its producer has sent: base offset and epoch are before."""

_WHOLE = 1 << 30


class Found(AssertionError):  # noqa: N818  # what a history ends with
    """Something is not as it must be; the first line is the rule."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


def body_of(data: "bytes | bytearray | memoryview") -> bytes:
    """Return what of a batch the broker does not write."""
    return bytes(data[_BODY:])


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch as it is stored."""

    data: bytes

    @cached_property
    def header(self) -> BatchHeader:
        """Return its header."""
        return BatchHeader.read(self.data)

    @property
    def base(self) -> int:
        """Return its first offset."""
        return self.header.base_offset

    @property
    def last(self) -> int:
        """Return its last offset."""
        return self.header.last_offset

    @cached_property
    def records(self) -> list[Record]:
        """Return its records."""
        return list(iterate_records(self.data))

    @cached_property
    def is_abort(self) -> bool:
        """Tell whether it is the marker of a transaction that was aborted."""
        marker = read_marker(self.data) if self.header.is_control else None
        return marker is not None and marker.kind == ABORT

    def __repr__(self) -> str:
        return f"{self.base}..{self.last}"


@dataclass
class Producer:
    """A producer with an id: its next sequence, and the last batch it has sent."""

    number: int
    sequence: int = 0
    sent: bytes = b""
    stored: Batch | None = None


@dataclass
class Transactions:
    """Which producers have open ones, and which data batches were aborted."""

    first: dict[int, Batch] = field(default_factory=dict)  # of each open one, by producer
    undecided: dict[int, list[Batch]] = field(default_factory=dict)
    aborted: set[int] = field(default_factory=set)  # base offsets


@dataclass
class Partition:
    """A partition as a witness of everything knows it.

    ``known`` are all batches that were written since it was made, in order; some of the first may
    be deleted. ``attempts`` are the bodies of all that were tried: what failed may exist after a
    crash. ``sure`` is the offset below which a power failure may take nothing. What ends below
    ``loose`` need not be in the files, even if its segment is.
    """

    topic_partition: TopicPartition
    topic_id: UUID
    config: TopicConfig
    known: list[Batch] = field(default_factory=list)
    attempts: set[bytes] = field(default_factory=set)
    producers: dict[int, Producer] = field(default_factory=dict)
    start: int = 0
    end: int = 0
    sure: int = 0
    loose: int = 0
    unclosed: list[int] = field(default_factory=list)  # transactions open until the next start
    recognized_from: int = 0  # retries of batches below may be unknown since the last start
    is_unsure: bool = False  # a move was not made durable, so the recovery point means little

    def producer(self, number: int) -> Producer:
        """Return a producer, a new one if it has not sent anything yet."""
        return self.producers.setdefault(number, Producer(number))

    def note(self, log: Log, *written: "bytes | bytearray | memoryview") -> list[Batch]:
        """Take note of batches that the log has at its end; they follow what it had."""
        batches = [Batch(bytes(data)) for data in written]
        for batch in batches:
            if batch.base != self.end:
                raise Found("offsets follow", f"{self} ends at {self.end}, and {batch} is next")
            self.end = batch.last + 1
            self.known.append(batch)
        if log.log_end_offset != self.end:
            raise Found("the end", f"{self} ends at {self.end}, and says {log.log_end_offset}")
        return batches

    def transactions(self) -> Transactions:
        """Return what became of the transactions so far."""
        found = Transactions()
        for batch in self.known:
            number = batch.header.producer_id
            if batch.header.is_control:
                data = found.undecided.pop(number, [])
                found.first.pop(number, None)
                if batch.is_abort:
                    found.aborted |= {each.base for each in data}
            elif batch.header.is_transactional:
                found.first.setdefault(number, batch)
                found.undecided.setdefault(number, []).append(batch)
        return found

    def absorb(self, log: Log, *, lost_power: bool) -> None:
        """Compare what a start has found with what it must find, and go on from there."""
        self.unclosed.clear()
        there = read_files(log, log.log_start_offset if lost_power else 0)
        sure = self.sure if lost_power else self.end
        if log.log_end_offset < sure:
            raise Found("an offset is given out again", f"{self} ends at {log.log_end_offset}")
        if log.log_start_offset > self.start:
            raise Found("the start", f"{self} begins at {log.log_start_offset}, not {self.start}")
        self.recognize(there)
        self.miss(there, sure)
        first = min([log.log_start_offset, *(each.base for each in there[:1])])
        self.known = [each for each in self.known if each.last < first] + there
        self.start = log.log_start_offset
        if lost_power or self.config.is_compacted:  # cut, or cleaned by the start
            self.loose = self.start
        self.end = log.log_end_offset
        self.sure = min(self.sure, self.end)
        self.recognized_from = self.start
        self.is_unsure = False
        for producer in self.producers.values():
            mine = [each for each in self.known if each.header.producer_id == producer.number]
            producer.stored = mine[-1] if mine else None
            producer.sent = b""
            data = [each.header for each in mine if not each.header.is_control]
            if data:  # a marker has no sequence, and what came after it may be lost
                producer.sequence = data[-1].base_sequence + data[-1].last_offset_delta + 1
        self.find_marker_alone(log)

    def find_marker_alone(self, log: Log) -> None:
        """Have producers begin again of which the log knows a marker alone, as in Kafka.

        Their batches were deleted before a start, so that no snapshot has them.
        """
        for producer in self.producers.values():
            entry = log.producers.producers.get(producer.number)
            data = (
                each.header
                for each in self.known
                if each.header.producer_id == producer.number and not each.header.is_control
            )
            is_deleted = all(each.last_offset < self.start for each in data)
            if is_deleted and entry is not None and entry.last_batch is None:
                producer.sequence = 0

    def relearn(self, log: Log, start: int = 0) -> None:
        """Compare what a pass of the cleaner has left with what there was, and go by it.

        Of what ends below ``start`` anything may exist, or nothing.
        """
        there = read_files(log)
        self.recognize([each for each in there if each.last >= start])
        self.miss(there, self.end)
        first = log.segments[0].base_offset
        self.known = [each for each in self.known if each.last < first] + there

    def recognize(self, there: Sequence[Batch]) -> None:
        """Fail if the files hold what nobody has written."""
        if self.config.is_compacted:
            written = {each.offset: each for batch in self.known for each in batch.records}
            for batch in there:
                if body_of(batch.data) not in self.attempts:
                    for record in batch.records:
                        if written.get(record.offset) != record:
                            raise Found("a foreign record", f"{record.offset} of {self}")
            return
        known = {each.base: each.data for each in self.known}
        for batch in there:
            if known.get(batch.base) != batch.data and body_of(batch.data) not in self.attempts:
                raise Found("a foreign batch", f"{batch} of {self}")

    def miss(self, there: Sequence[Batch], sure: int) -> None:
        """Fail if something is missing that was written below an offset, and not deleted."""
        if self.config.is_compacted:
            offsets = {each.offset for batch in there for each in batch.records}
            newest = {each.key: each.offset for batch in self.known for each in batch.records}
            for key, offset in newest.items():
                if self.start <= offset < sure and offset not in offsets:
                    raise Found("the last value of a key is lost", f"{key!r} of {self} at {offset}")
            return
        data = {each.base: each.data for each in there}
        for batch in self.known:
            if self.start <= batch.last < sure and data.get(batch.base) != batch.data:
                raise Found("a batch is lost", f"{batch} of {self}, which has {there}")

    def judge(self, log: Log, chance: Random) -> None:
        """Read everything in every way and compare."""
        check_log(log)
        there = read_files(log)
        first = log.segments[0].base_offset
        data = {each.data for each in there}
        known = [
            each
            for each in self.known
            if each.last >= first and (each.last >= self.loose or each.data in data)
        ]
        if [each.data for each in there] != [each.data for each in known]:
            raise Found("the files", f"{self} has {there}, and must have {known}")
        if log.log_end_offset != self.end:
            raise Found("the end", f"{self} ends at {self.end}, and says {log.log_end_offset}")
        start = log.log_start_offset
        present = [each for each in there if each.last >= start]
        self._read_from_every_offset(log, present)
        self._read_in_runs(log, present, chance)
        self._look_up_every_time(log, present)
        self._look_up_the_greatest_time(log, there)
        self._read_committed(log, present)

    def _read_from_every_offset(self, log: Log, present: Sequence[Batch]) -> None:
        end = log.log_end_offset
        at = 0
        for offset in range(log.log_start_offset, end):
            while at < len(present) and present[at].last < offset:
                at += 1
            expected = present[at] if at < len(present) else None
            log.reader.forget()
            read = log.read(offset, 1, end)
            if read is None or expected is None:
                if read is not None or expected is not None:
                    raise Found("a read from every offset", f"{offset} of {self}: {read}")
                continue
            data = read.segment.read(read.slice.position, read.slice.size)
            if data != expected.data:
                raise Found(
                    "a read from every offset",
                    f"{offset} of {self} is in {expected}, and {Batch(data)} was read",
                )
            following = present[at + 1].base if at + 1 < len(present) else end
            if not expected.last < read.next_offset <= following:
                raise Found("no hole", f"{self} goes on at {read.next_offset} behind {expected}")

    def _read_in_runs(self, log: Log, present: Sequence[Batch], chance: Random) -> None:
        """Read on as a consumer does, where the last read has ended."""
        offset = log.log_start_offset
        data = b""
        while offset < log.log_end_offset:
            read = log.read(offset, chance.choice([1, 400, _WHOLE]), log.log_end_offset)
            if read is None:
                break
            data += read.segment.read(read.slice.position, read.slice.size)
            offset = read.next_offset
        if data != b"".join(each.data for each in present):
            raise Found("a consumer", f"{self} is not read as it is")

    def _look_up_every_time(self, log: Log, present: Sequence[Batch]) -> None:
        start, end = log.log_start_offset, log.log_end_offset
        records = [each for batch in present for each in batch.records if each.offset >= start]
        latest, upto = [], -1
        for record in records:
            upto = max(upto, record.timestamp)
            latest.append(upto)
        for timestamp in sorted({each.timestamp for each in records} | {upto + 1}):
            place = bisect_left(latest, timestamp)
            expected = records[place].offset if place < len(records) else None
            found = log.find_offset_by_timestamp(timestamp, end)
            offset = None if found is None else found.offset
            if offset != expected:
                raise Found(
                    "a lookup by every time", f"{timestamp} of {self}: {offset}, not {expected}"
                )

    def _look_up_the_greatest_time(self, log: Log, there: Sequence[Batch]) -> None:
        newest = max(
            (each for batch in there for each in batch.records),
            key=lambda each: (each.timestamp, -each.offset),
            default=None,
        )
        found = log.find_max_timestamp(log.log_end_offset)
        expected = None if newest is None else (newest.offset, newest.timestamp)
        emptied = [each.header for each in there if not each.records]  # they keep their time
        if newest is not None and any(
            (each.max_timestamp, -each.base_offset) > (newest.timestamp, -newest.offset)
            for each in emptied
        ):
            expected = None  # as in Kafka, which looks at the batch of the greatest time alone
        if (None if found is None else (found.offset, found.timestamp)) != expected:
            raise Found("the greatest time", f"of {self} is {found}, not {expected}")

    def _read_committed(self, log: Log, present: Sequence[Batch]) -> None:
        found = self.transactions()
        stable = log.last_stable_offset
        start = log.log_start_offset
        firsts = [max(each.base, start) for each in found.first.values()]
        left = [
            each.base for data in found.undecided.values() for each in data if each.last >= start
        ]
        unclosed = [max(each, start) for each in self.unclosed]
        bounds = {min([*each, *unclosed], default=self.end) for each in (firsts, left)}
        if stable not in bounds:
            raise Found("the last stable offset", f"of {self} is {stable}, not {sorted(firsts)}")
        if not any(each.header.is_transactional for each in self.known):
            if log.aborted_transactions(start, self.end):
                raise Found("committed records", f"{self} lists aborted transactions")
            return
        for batch in present:
            if batch.base < start or batch.base >= stable:
                continue
            delivered, end = self._deliver(log, batch.base, stable)
            expected = [
                each.base
                for each in present
                if batch.base <= each.base < end
                and not each.header.is_control
                and each.base not in found.aborted
            ]
            if delivered != expected:
                raise Found(
                    "committed records", f"{self} from {batch.base}: {delivered}, not {expected}"
                )

    @staticmethod
    def _deliver(log: Log, offset: int, stable: int) -> tuple[list[int], int]:
        """Return what a consumer of committed records makes of one answer, and where it ends."""
        read = log.read(offset, _WHOLE, stable)
        if read is None:
            return [], stable
        aborted = sorted(
            log.aborted_transactions(offset, read.next_offset), key=lambda each: each[1]
        )
        skipped: set[int] = set()
        delivered = []
        for batch in split(read.segment.read(read.slice.position, read.slice.size)):
            while aborted and aborted[0][1] <= batch.last:
                skipped.add(aborted.pop(0)[0])
            number = batch.header.producer_id
            if batch.header.is_control:
                if batch.is_abort:
                    skipped.discard(number)
            elif not (batch.header.is_transactional and number in skipped):
                delivered.append(batch.base)
        return delivered, read.next_offset

    def __str__(self) -> str:
        return str(self.topic_partition)


def split(data: bytes) -> Iterator[Batch]:
    """Yield the batches in a run of bytes."""
    position = 0
    while position < len(data):
        size = BatchHeader.read(data, position).size
        yield Batch(data[position : position + size])
        position += size


def read_files(log: Log, offset: int = 0) -> list[Batch]:
    """Return all batches of the segments from that of an offset on, by no index."""
    found: list[Batch] = []
    for segment in log.segments[find_index(log.segments, offset) :]:
        found += split(segment.read(0, segment.size))
    for one, other in pairwise(found):
        if other.base <= one.last:
            raise Found("no offset twice", f"{one} and {other} of {log.topic_partition}")
    return found
