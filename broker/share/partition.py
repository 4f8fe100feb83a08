"""The queue of one partition for one group: which records are out, with whom, and until when.

Kafka: SharePartition, InFlightBatch, InFlightState. It does no I/O and has no clock. Records are
kept as they were acquired, in batches; a batch whose records have different fates is split into
runs of records with the same fate. So a step costs as many runs as it touches, however many records
they have.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import ceil
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple, TypeAlias

from siltstone.broker.share.state import DeliveryState, ShareState, StateBatch
from siltstone.protocol.errors import (
    InvalidRecordState,
    InvalidRequest,
    KafkaError,
    UnknownServerError,
)
from siltstone.protocol.messages.share_fetch import AcquiredRecords

AVAILABLE: Final = DeliveryState.AVAILABLE
ACQUIRED: Final = DeliveryState.ACQUIRED
ARCHIVING: Final = DeliveryState.ARCHIVING
ARCHIVED: Final = DeliveryState.ARCHIVED
TERMINAL: Final = frozenset({DeliveryState.ACKNOWLEDGED, ARCHIVED})

_first_of = attrgetter("first")
_last_of = itemgetter(1)
_LEAST_LOCKS: Final = 64
_ALONE_ABOVE: Final = 2  # with a higher limit, the last delivery of a record is one of its own


Acknowledged: TypeAlias = tuple[int, int, Sequence[int]]
"""A range and what a member says of it: the first and last offset, and a type, or one a record."""


class AcknowledgeType(IntEnum):
    """The word of a member on a record that it has acquired."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


_FATES: Final = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: DeliveryState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


class Limits(NamedTuple):
    """The settings of the group that are in force."""

    max_deliveries: int = 5
    max_in_flight: int = 2000
    lock_ms: int = 30_000
    may_renew: bool = True
    has_dead_letters: bool = False

    @property
    def throttled_from(self) -> int:
        """Return the delivery count from which on ever fewer records are given at once."""
        return max(2, ceil(self.max_deliveries / 2))


class Wish(NamedTuple):
    """The wish of a member: at most so many records, as whole batches unless ``is_limited``."""

    member: str
    max_records: int
    batch_size: int = 1
    is_limited: bool = False


class Stored(NamedTuple):
    """A batch of the log, and where its bytes are in what was read."""

    first: int
    last: int
    position: int = 0
    size: int = 0


class Run(NamedTuple):
    """Neighbouring records with the same fate; only acquired ones have a member and a deadline."""

    first: int
    last: int
    state: DeliveryState
    deliveries: int
    member: str = ""
    deadline: float = 0.0

    def cut(self, first: int, last: int) -> "Run":
        """Return the part of this run within a range that it reaches into."""
        if first <= self.first and self.last <= last:
            return self
        return Run(max(first, self.first), min(last, self.last), *self[2:])


class Batch:
    """Records that were acquired together, as runs.

    ``is_new`` is a range that the stored state leaves out: its records were never delivered.
    ``is_split`` says that records are looked at one by one. ``size`` is how many there were.
    """

    __slots__ = ("first", "is_new", "is_split", "last", "runs", "size")

    def __init__(self, run: Run, *, is_new: bool = False) -> None:
        self.first, self.last = run.first, run.last
        self.size = run.last - run.first + 1
        self.runs = [run]
        self.is_split = False
        self.is_new = is_new

    def within(self, first: int, last: int) -> Iterator[Run]:
        """Yield the runs, or parts of them, in a range."""
        for run in self.runs[bisect_left(self.runs, first, key=_last_of) :]:
            if run.first > last:
                return
            yield run.cut(first, last)

    def put(self, runs: Sequence[Run]) -> None:
        """Put neighbouring runs in the place of what was known of their records."""
        first, last = runs[0].first, runs[-1].last
        low = bisect_left(self.runs, first, key=_last_of)
        high = bisect_left(self.runs, last, key=_last_of)
        before, after = self.runs[low], self.runs[high]
        pieces = [*runs]
        if before.first < first:
            pieces.insert(0, before.cut(before.first, first - 1))
        elif low:
            low -= 1
            pieces.insert(0, self.runs[low])
        if after.last > last:
            pieces.append(after.cut(last + 1, after.last))
        elif high + 1 < len(self.runs):
            high += 1
            pieces.append(self.runs[high])
        # A new list: a change that is taken back needs the old one.
        self.runs = [*self.runs[:low], *_joined(pieces), *self.runs[high + 1 :]]

    def trim(self, start: int) -> None:
        """Forget the records before ``start``, which is within the batch."""
        if start > self.first:
            self.runs = list(self.within(start, self.last))
            self.first = start
            self.is_split = True


def _joined(runs: Iterable[Run]) -> list[Run]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1][2:] == run[2:]:
            joined[-1] = Run(joined[-1].first, *run[1:])
        else:
            joined.append(run)
    return joined


class Dead(NamedTuple):
    """Records on the way to the dead letters: rejected by a member, or delivered too often."""

    first: int
    last: int
    deliveries: int
    is_rejected: bool


class Change:
    """The outcome of a step: the ``batches`` to write. `SharePartition.undo` takes it back."""

    __slots__ = ("batches", "before", "complete", "dead")

    def __init__(self, complete: int) -> None:
        self.batches: list[StateBatch] = []
        self.dead: list[Dead] = []
        self.before: dict[Batch, list[Run]] = {}
        self.complete = complete


class SharePartition:
    """One queue.

    Invariants: the batches are disjoint and in order, all at or after ``start_offset``, and the
    last one ends at ``end_offset``; without batches both offsets are the next record's.
    ``delivery_complete_count`` is how many of their records are acknowledged or archived. A record
    is acquired by at most one member.
    """

    __slots__ = (
        "_available_from", "_lock_room", "_locks", "batches", "delivery_complete_count",
        "end_offset", "start_offset", "state_epoch",
    )  # fmt: skip

    def __init__(self, start_offset: int, state_epoch: int = 0) -> None:
        self.start_offset = self.end_offset = start_offset
        self.state_epoch = state_epoch
        self.delivery_complete_count = 0
        self.batches: list[Batch] = []
        self._available_from: int | None = None  # no record before it is available
        self._locks: list[tuple[float, int, int]] = []  # a heap: deadline, first and last offset
        self._lock_room = _LEAST_LOCKS

    @classmethod
    def load(cls, state: ShareState, start_offset: int) -> "SharePartition":
        """Return the queue as its stored state describes it.

        Raises:
            UnknownServerError: The state has a batch from before its start.
        """
        queue = cls(start_offset, state.state_epoch)
        following = start_offset
        for first, last, state_id, count in state.batches:
            if first < following:
                raise UnknownServerError(f"offset {first} of the state is before {following}")
            if first > following:
                gap = Run(following, first - 1, AVAILABLE, 0)
                queue.batches.append(Batch(gap, is_new=True))
            fate = DeliveryState(state_id)
            queue.batches.append(Batch(Run(first, last, fate, count)))
            if fate in TERMINAL:
                queue.delivery_complete_count += last - first + 1
            following = last + 1
        if queue.batches:
            queue._available_from = start_offset
            queue.end_offset = following - 1
            queue.advance()
        return queue

    @property
    def in_flight_count(self) -> int:
        """Return how many records there are from the start to the end."""
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def next_deadline(self) -> float | None:
        """Return when a lock may run out; None without locks."""
        return self._locks[0][0] if self._locks else None

    def runs(self) -> Iterator[Run]:
        """Yield all runs in order."""
        for batch in self.batches:
            yield from batch.runs

    # Giving records to members

    def next_fetch_offset(self) -> int:
        """Return the offset to read from: the first available record, else the next new one."""
        if not self.batches:
            self._available_from = None
            return self.end_offset
        if self._available_from is not None:
            for batch in self._batches_from(self._available_from):
                for run in batch.runs:
                    if run.state is AVAILABLE:
                        self._available_from = run.first
                        return run.first
            self._available_from = None
        return self.end_offset + 1

    def can_acquire(self, limits: Limits) -> bool:
        """Tell whether a record is available, or another one may be in flight."""
        return (
            self.next_fetch_offset() != self.end_offset + 1
            or self.in_flight_count < limits.max_in_flight
        )

    def acquire(
        self, wish: Wish, fetch_offset: int, stored: Sequence[Stored], limits: Limits, now_ms: float
    ) -> list[AcquiredRecords]:
        """Give records of ``stored``, which was read from ``fetch_offset`` on, to a member.

        ``stored`` may end early, if it reaches ``max_records`` beyond the end of the queue.
        """
        if wish.max_records <= 0 or not stored or stored[-1].last < self.start_offset:
            return []
        last = stored[-1].last
        room = min(wish.max_records, limits.max_in_flight - self.in_flight_count)
        if room <= 0:
            if fetch_offset > self.end_offset:
                return []
            room = min(wish.max_records, self.end_offset - fetch_offset + 1)
            last = min(last, self.end_offset)
        base = stored[0].first
        self._archive_compacted(fetch_offset, base)
        grant = _Grant(self, wish, stored, limits, now_ms + limits.lock_ms, room)
        first = max(base, self.start_offset)
        overlapping = self._batches_between(first, last)
        for batch in overlapping:
            if grant.room <= 0:
                break
            grant.take(batch, last)
        following = overlapping[-1].last + 1 if overlapping else first
        if grant.room > 0 and following <= last:
            grant.take_new(following, last)
        return grant.acquired

    def archive(
        self, stored: Iterable[Stored], acquired: list[AcquiredRecords]
    ) -> list[AcquiredRecords]:
        """Archive records just acquired: their transaction was aborted; return what is left."""
        for first, last, *_ in stored:
            for batch in self._batches_between(first, last):
                self._archive_in(batch, first, last, ACQUIRED)
            acquired = list(_without(acquired, first, last))
        self.advance()
        return acquired

    def _archive_compacted(self, fetch_offset: int, base: int) -> None:
        """Archive available records that the log no longer has."""
        for batch in self._batches_between(fetch_offset, base - 1):
            self._archive_in(batch, fetch_offset, base - 1, AVAILABLE)

    def _archive_in(self, batch: Batch, first: int, last: int, state: DeliveryState) -> None:
        if batch.runs[0].state is state and not (first <= batch.first and batch.last <= last):
            batch.is_split = True
        for run in list(batch.within(first, last)):
            if run.state is state:
                batch.put([Run(run.first, run.last, ARCHIVED, run.deliveries)])
                batch.is_new = False
                self.delivery_complete_count += run.last - run.first + 1

    # The fate of records

    def acknowledge(
        self,
        member: str,
        acknowledged: Iterable[Acknowledged],
        limits: Limits,
        now_ms: float,
    ) -> Change:
        """Take what a member says of its records: all of it or, with an error, nothing.

        The fields of ``acknowledged`` are checked: ranges forward and in order, and one type, or
        one for each record.

        Raises:
            InvalidRecordState: The member does not hold a record, or may not renew its lock.
            InvalidRequest: A range ends or begins after all that was acquired.
        """
        change = Change(self.delivery_complete_count)
        try:
            for each in acknowledged:
                if each[1] >= self.start_offset:
                    for batch in self._find_acknowledged(*each[:2]):
                        self._acknowledge(batch, member, each, limits, now_ms, change)
        except KafkaError:
            self.undo(change)
            raise
        return change

    def release(self, member: str, limits: Limits) -> Change:
        """Make all records available that a member holds, for its session has ended."""
        change = Change(self.delivery_complete_count)
        for batch in self.batches:
            held = [run for run in batch.runs if run.state is ACQUIRED and run.member == member]
            self._let_go(batch, held, limits, change)
        return change

    def expire(self, now_ms: float, limits: Limits) -> Change:
        """Make all records available whose locks have run out."""
        change = Change(self.delivery_complete_count)
        while self._locks and self._locks[0][0] <= now_ms:
            _, first, last = heappop(self._locks)
            for batch in self._batches_between(first, last):
                over = [
                    run
                    for run in batch.within(first, last)
                    if run.state is ACQUIRED and run.deadline <= now_ms
                ]
                self._let_go(batch, over, limits, change)
        return change

    def undo(self, change: Change) -> None:
        """Take a change back that could not be written; nothing else has changed since."""
        for batch, runs in change.before.items():
            batch.runs = runs
        self.delivery_complete_count = change.complete

    def finish_dead(self, dead: Dead) -> Change:
        """Archive records that are among the dead letters now."""
        change = Change(self.delivery_complete_count)
        for batch in self._batches_between(dead.first, dead.last):
            for run in list(batch.within(dead.first, dead.last)):
                if run.state is ARCHIVING:
                    change.before.setdefault(batch, batch.runs)
                    batch.put([self._archived(run, change)])
        return change

    def advance(self) -> bool:
        """Move the start over all records whose fate is final; tell whether it has moved."""
        before = self.start_offset
        done = 0
        for batch in self.batches:
            for run in batch.runs:
                if run.state not in TERMINAL:
                    break
                self.delivery_complete_count -= run.last - run.first + 1
                self.start_offset = run.last + 1
            else:
                done += 1
                continue
            if self.start_offset != before:
                self.start_offset = max(self.start_offset, batch.first)
                batch.trim(self.start_offset)
            break
        del self.batches[:done]
        if done and not self.batches:
            self.start_offset = self.end_offset = self.end_offset + 1
        return self.start_offset != before

    def move_start(self, log_start_offset: int) -> None:
        """Forget the records that the log has deleted, also those that a member holds."""
        if log_start_offset <= self.start_offset:
            return
        index = self._index_of(log_start_offset)
        gone = self.batches[:index]
        del self.batches[:index]
        removed = sum(_count_terminal(batch.runs) for batch in gone)
        if self.batches and self.batches[0].first < log_start_offset:
            batch = self.batches[0]
            removed += _count_terminal(batch.within(batch.first, log_start_offset - 1))
            batch.trim(log_start_offset)
        self.delivery_complete_count -= removed
        self.start_offset = log_start_offset
        if not self.batches:
            self.end_offset = log_start_offset

    def _find_acknowledged(self, first: int, last: int) -> list[Batch]:
        """Return the batches that a range names: from the one at or before its first offset."""
        index = bisect_right(self.batches, first, key=_first_of) - 1
        if index < 0 and first < self.start_offset <= last:
            index = bisect_right(self.batches, self.start_offset, key=_first_of) - 1
        if index < 0:
            raise InvalidRecordState(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
        found = self.batches[index : bisect_right(self.batches, last, key=_first_of)]
        if found[-1].last < first:
            raise InvalidRequest(
                "Batch record not found. The first offset in request is past acquired records."
            )
        if found[-1].last < last:
            raise InvalidRequest(
                "Batch record not found. The last offset in request is past acquired records."
            )
        return found

    def _acknowledge(
        self,
        batch: Batch,
        member: str,
        acknowledged: Acknowledged,
        limits: Limits,
        now_ms: float,
        change: Change,
    ) -> None:
        first, last, types = acknowledged
        if not batch.is_split:
            holder = batch.runs[0].member
            if not holder:
                raise InvalidRecordState(
                    "The batch cannot be acknowledged. The batch is not in the acquired state."
                )
            if holder != member:
                raise InvalidRecordState("Member is not the owner of batch record")
            batch.is_split = not (first <= batch.first and batch.last <= last) or len(types) > 1
        ended: list[Run] = []
        for run in batch.within(first, last):
            if run.state is not ACQUIRED:
                raise InvalidRecordState(
                    "The offset cannot be acknowledged. The offset is not acquired."
                )
            if run.member != member:
                raise InvalidRecordState("Member is not the owner of offset")
            for piece, kind in _by_type(run, first, types):
                if kind == AcknowledgeType.RENEW:
                    ended.append(self._renew(piece, limits, now_ms))
                else:
                    ended.append(self._end(piece, AcknowledgeType(kind), limits, change))
        if ended:
            change.before.setdefault(batch, batch.runs)
            batch.put(ended)

    def _renew(self, run: Run, limits: Limits, now_ms: float) -> Run:
        if not limits.may_renew:
            raise InvalidRecordState("Renewing acquisition locks is not enabled for the group.")
        deadline = now_ms + limits.lock_ms
        self.lock(run.first, run.last, deadline)
        return Run(run.first, run.last, ACQUIRED, run.deliveries, run.member, deadline)

    def _let_go(self, batch: Batch, held: list[Run], limits: Limits, change: Change) -> None:
        if held:
            change.before.setdefault(batch, batch.runs)
            for run in held:
                batch.put([self._end(run, AcknowledgeType.RELEASE, limits, change)])

    def _end(self, run: Run, kind: AcknowledgeType, limits: Limits, change: Change) -> Run:
        """Return a run with its fate, and note it; a record at its limit is not delivered again."""
        first, last, _, count, *_ = run
        fate = _FATES[kind]
        if fate is AVAILABLE and count >= limits.max_deliveries:
            fate = ARCHIVED
        if fate is ARCHIVED and kind is not AcknowledgeType.GAP and limits.has_dead_letters:
            fate = ARCHIVING
            change.dead.append(Dead(first, last, count, kind is AcknowledgeType.REJECT))
        elif fate is AVAILABLE:
            self.note_available(first)
        else:
            self.delivery_complete_count += last - first + 1
        change.batches.append(StateBatch(first, last, fate.value, count))
        return Run(first, last, fate, count)

    def _archived(self, run: Run, change: Change) -> Run:
        self.delivery_complete_count += run.last - run.first + 1
        change.batches.append(StateBatch(run.first, run.last, ARCHIVED.value, run.deliveries))
        return Run(run.first, run.last, ARCHIVED, run.deliveries)

    def note_available(self, offset: int) -> None:
        """Note that a record is available."""
        if self._available_from is None or offset < self._available_from:
            self._available_from = offset

    def lock(self, first: int, last: int, deadline: float) -> None:
        """Note when a lock runs out; a lock that has ended earlier is passed over then."""
        if len(self._locks) >= self._lock_room:
            held = (run for run in self.runs() if run.state is ACQUIRED)
            self._locks = [(run.deadline, run.first, run.last) for run in held]
            heapify(self._locks)
            self._lock_room = 2 * len(self._locks) + _LEAST_LOCKS
        heappush(self._locks, (deadline, first, last))

    def add(self, batch: Batch) -> None:
        """Add a batch of new records."""
        index = bisect_right(self.batches, batch.first, key=_first_of)
        self.batches.insert(index, batch)
        if index == 0:
            self.start_offset = batch.first
        self.end_offset = max(self.end_offset, batch.last)

    def remove(self, batch: Batch) -> None:
        """Remove a batch, for others take its place."""
        del self.batches[bisect_left(self.batches, batch.first, key=_first_of)]

    def _index_of(self, offset: int) -> int:
        """Return the place of the first batch that ends at or after an offset."""
        index = bisect_right(self.batches, offset, key=_first_of)
        return index - 1 if index and self.batches[index - 1].last >= offset else index

    def _batches_from(self, offset: int) -> list[Batch]:
        return self.batches[self._index_of(offset) :]

    def _batches_between(self, first: int, last: int) -> list[Batch]:
        if first > last:
            return []
        return self.batches[self._index_of(first) : bisect_right(self.batches, last, key=_first_of)]


class _Grant:
    """One answer to a wish while it is put together: ``room`` is for how many records."""

    def __init__(
        self,
        queue: SharePartition,
        wish: Wish,
        stored: Sequence[Stored],
        limits: Limits,
        deadline: float,
        room: int,
    ) -> None:
        self.queue = queue
        self.wish = wish
        self.stored = stored
        self.limits = limits
        self.deadline = deadline
        self.room = room
        self.acquired: list[AcquiredRecords] = []

    def take(self, batch: Batch, last: int) -> None:
        """Take what is available of a batch, up to ``last``."""
        first = self.stored[0].first
        if batch.is_new:
            self._take_gap(batch, min(batch.last, last))
            return
        available = [run for run in batch.within(first, last) if run.state is AVAILABLE]
        if not available:
            return
        is_throttled = max(run.deliveries for run in available) >= self.limits.throttled_from
        if is_throttled and self.acquired:
            self.room = 0  # such records are not given together with others
            return
        is_whole = first <= batch.first and batch.last <= last
        is_too_long = self.wish.is_limited and batch.last - batch.first + 1 > self.room
        if is_whole and not (batch.is_split or is_too_long or is_throttled):
            self._acquire(batch, [available[0]])
        else:
            batch.is_split = True
            self._acquire(batch, self._choose(batch, available))
        if is_throttled:
            self.room = 0

    def take_new(self, first: int, last: int) -> int:
        """Take records that were never delivered, as whole batches of the log unless limited.

        Returns:
            The last offset of the batches that were added.
        """
        wish = self.wish
        if last - first + 1 > self.room:
            last = min(last, self._end_of_stored(first + self.room - 1))
        if wish.is_limited:
            self._add_limited(first, last)
            return last
        size = max(1, wish.batch_size)
        for each in self.stored:
            if each.first > last:
                break
            if each.first - first >= size:
                self._add(first, each.first - 1)
                first = each.first
        self._add(first, last)
        return last

    def _take_gap(self, batch: Batch, last: int) -> None:
        """Take new records from a range that the stored state leaves out."""
        queue = self.queue
        queue.remove(batch)
        last = self.take_new(batch.first, last)
        if last < batch.last:
            queue.add(Batch(Run(last + 1, batch.last, AVAILABLE, 0), is_new=True))
            queue.note_available(last + 1)

    def _end_of_stored(self, offset: int) -> int:
        """Return the last offset of the log's batch that has an offset; in a gap, the offset."""
        index = bisect_right(self.stored, offset, key=itemgetter(0)) - 1
        return max(offset, self.stored[index].last) if index >= 0 else offset

    def _choose(self, batch: Batch, available: list[Run]) -> list[Run]:
        """Choose records of a batch one by one: ever fewer, the more often they were delivered."""
        limits, most = self.limits, self.limits.max_deliveries
        allowed: int | None = None
        chosen: list[Run] = []
        count = 0
        for run in available:
            is_last = most > _ALONE_ABOVE and run.deliveries == most - 1
            if is_last and count:
                break  # the last delivery of a record is one of its own
            if allowed is None and run.deliveries >= limits.throttled_from:
                allowed = max(1, batch.size >> (run.deliveries - limits.throttled_from + 1))
            length = 1 if is_last else run.last - run.first + 1
            if self.wish.is_limited:
                length = min(length, self.room - count)
            if allowed is not None and count < allowed:
                length = min(length, allowed - count)
            chosen.append(run.cut(run.first, run.first + length - 1))
            count += length
            if is_last or count == allowed or (self.wish.is_limited and count == self.room):
                break
        return chosen

    def _acquire(self, batch: Batch, chosen: list[Run]) -> None:
        """Acquire available records again; neighbours with the same count are told as one."""
        told: list[Run] = []
        for run in chosen:
            first, last, _, count, *_ = run
            taken = Run(first, last, ACQUIRED, count + 1, self.wish.member, self.deadline)
            batch.put([taken])
            self.queue.lock(first, last, self.deadline)
            told.append(taken)
            self.room -= last - first + 1
        for each in _joined_neighbours(told):
            self.acquired.append(AcquiredRecords(each.first, each.last, each.deliveries))

    def _add(self, first: int, last: int) -> None:
        run = Run(first, last, ACQUIRED, 1, self.wish.member, self.deadline)
        self._added(Batch(run), run)

    def _added(self, batch: Batch, run: Run) -> None:
        self.queue.add(batch)
        self.queue.lock(run.first, run.last, run.deadline)
        self.acquired.append(AcquiredRecords(run.first, run.last, 1))
        self.room -= run.last - run.first + 1

    def _add_limited(self, first: int, last: int) -> None:
        """Add a batch; if there is not room for all of it, its last records stay available."""
        middle = min(last, first + self.room - 1)
        run = Run(first, middle, ACQUIRED, 1, self.wish.member, self.deadline)
        batch = Batch(run)
        if middle < last:
            batch.last, batch.size, batch.is_split = last, last - first + 1, True
            batch.runs.append(Run(middle + 1, last, AVAILABLE, 0))
            self.queue.note_available(middle + 1)
        self._added(batch, run)


def _joined_neighbours(runs: Iterable[Run]) -> Iterator[Run]:
    """Join runs that touch and have the same count."""
    last: Run | None = None
    for run in runs:
        if last is not None and last.last + 1 == run.first and last.deliveries == run.deliveries:
            last = Run(last.first, *run[1:])
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def _by_type(run: Run, first: int, types: Sequence[int]) -> Iterator[tuple[Run, int]]:
    """Yield the pieces of a run with the same acknowledge type; ``first`` is of the first type."""
    if len(types) == 1:
        yield run, types[0]
        return
    offset = run.first
    for kind, same in groupby(types[run.first - first : run.last - first + 1]):
        following = offset + sum(1 for _ in same)
        yield run.cut(offset, following - 1), kind
        offset = following


def _without(
    acquired: Iterable[AcquiredRecords], first: int, last: int
) -> Iterator[AcquiredRecords]:
    for each in acquired:
        if each.first_offset < first:
            yield each._replace(last_offset=min(each.last_offset, first - 1))
        if each.last_offset > last:
            yield each._replace(first_offset=max(each.first_offset, last + 1))


def _count_terminal(runs: Iterable[Run]) -> int:
    return sum(run.last - run.first + 1 for run in runs if run.state in TERMINAL)
