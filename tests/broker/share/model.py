"""The queue of a partition for a group in a page: record by record, as Kafka keeps it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

FREE, HELD, ACCEPTED, ARCHIVED = 0, 1, 2, 4
FATES = [ARCHIVED, ACCEPTED, FREE, ARCHIVED]  # by acknowledge type
FINAL = (ACCEPTED, ARCHIVED)


@dataclass
class Record:
    """The state of one record."""

    state: int = FREE
    count: int = 0
    member: str = ""
    due: float = 0


class Held:
    """Records acquired together; ``apart`` once they had different fates; ``new`` if never."""

    def __init__(self, records: dict[int, Record], *, apart: bool, new: bool = False) -> None:
        self.records, self.apart, self.new = records, apart, new
        self.size = len(records)


class Refused(Exception):  # noqa: N818 - it is no fault
    """The member may not acknowledge that."""


class Model:
    """All records from the start on that are or were acquired; limits as in the group."""

    def __init__(self, start: int, deliveries: int, in_flight: int, lock_ms: int) -> None:
        self.start = start
        self.batches: list[Held] = []
        self.deliveries, self.in_flight, self.lock_ms = deliveries, in_flight, lock_ms
        self.tired = max(2, ceil(deliveries / 2))

    @property
    def known(self) -> dict[int, Record]:
        """All records in order."""
        return {offset: each for batch in self.batches for offset, each in batch.records.items()}

    def next_offset(self) -> int:
        """Where to read: the first free record, or the one after all."""
        known = self.known
        free = (offset for offset, each in known.items() if each.state == FREE)
        return next(free, max(known) + 1 if known else self.start)

    def acquire(  # noqa: C901 - a model is read in one go
        self, member: str, most: int, size: int, limited: bool, log: Sequence[range], now: float
    ) -> list[tuple[int, int, int]]:
        """Give records of the log's batches; the answer is (first, last, count) in order."""
        fetch, known, due = self.next_offset(), self.known, now + self.lock_ms
        last, end = log[-1][-1], max(known, default=self.start - 1)
        room = min(most, self.in_flight - (end - self.start + 1 if known else 0))
        if room <= 0:
            room, last = min(most, end - fetch + 1), min(last, end)
        if room <= 0 or last < self.start:
            return []
        self._archive(range(fetch, log[0][0]), FREE)  # compaction has removed these
        asked, told = range(log[0][0], last + 1), list[tuple[int, int, int]]()

        def fresh(first: int, last: int) -> int:
            nonlocal room
            last = min(last, max([first + room - 1, *(_ends(log, first + room - 1))]))
            for piece in [range(first, last + 1)] if limited else _pieces(log, first, last, size):
                mine = piece[:room] if limited else piece
                new = {o: Record(HELD, 1, member, due) if o in mine else Record() for o in piece}
                self.start = self.start if self.batches else piece[0]
                self.batches.append(Held(new, apart=len(mine) < len(piece)))
                told.append((mine[0], mine[-1], 1))
                room -= len(mine)
            return last

        over = [batch for batch in self.batches if set(batch.records) & set(asked)]
        first = max(over[-1].records) + 1 if over else max(log[0][0], self.start)
        for batch in over:
            records = batch.records
            if room > 0 and batch.new:
                begin, stop = min(records), max(records)
                self.batches.remove(batch)
                begin = fresh(begin, min(last, stop)) + 1
                left = {o: Record() for o in range(begin, stop + 1)}
                self.batches += [Held(left, apart=False, new=True)] if left else []
                continue
            free = [o for o in records if o in asked and records[o].state == FREE]
            if room <= 0 or not free:
                continue
            tired = max(records[o].count for o in free) >= self.tired
            if tired and told:
                break
            whole = set(records) <= set(asked) and not batch.apart and not tired
            if not whole or (limited and len(records) > room):
                batch.apart = True
                free = self._choose(batch, free, room if limited else 0)
            for o in free:
                records[o] = Record(HELD, records[o].count + 1, member, due)
            told += _ranges([(o, records[o].count) for o in free])
            room = 0 if tired else room - len(free)
        else:
            if room > 0 and first <= last:
                fresh(first, last)
        self.batches.sort(key=lambda each: min(each.records))
        return told

    def _choose(self, batch: Held, free: list[int], most: int) -> list[int]:
        chosen, allowed = list[int](), 0
        for offset in free:
            count = batch.records[offset].count
            final = self.deliveries > 2 and count == self.deliveries - 1
            if final and chosen:
                break
            if count >= self.tired and not allowed:
                allowed = max(1, batch.size >> (count - self.tired + 1))
            chosen.append(offset)
            if final or len(chosen) in (most, allowed):
                break
        return chosen

    def _archive(self, gone: range, state: int) -> None:
        for batch in self.batches:
            doomed = [o for o, each in batch.records.items() if o in gone and each.state == state]
            batch.apart |= 0 < len(doomed) < len(batch.records)
            batch.new &= not doomed
            for offset in doomed:
                batch.records[offset] = Record(ARCHIVED, batch.records[offset].count)

    def acknowledge(
        self, member: str, first: int, last: int, types: Sequence[int], now: float
    ) -> None:
        """Decide the fate of records, or renew their locks: all or none."""
        if last < self.start:
            return
        over = [each for each in self.batches if min(each.records) <= last]
        at = first if first >= min(self.known, default=0) else max(first, self.start)
        begun = [number for number, each in enumerate(over) if min(each.records) <= at]
        if not begun or max(over[-1].records) < last:
            raise Refused
        for batch in over[begun[-1] :]:
            records = batch.records
            if not batch.apart and next(iter(records.values())).member != member:
                raise Refused
            batch.apart |= not (first <= min(records) and max(records) <= last) or len(types) > 1
            for offset, each in records.items():
                if first <= offset <= last and (each.state, each.member) != (HELD, member):
                    raise Refused
        for offset, each in self.known.items():
            if first <= offset <= last:
                kind = types[0] if len(types) == 1 else types[offset - first]
                if kind == len(FATES):
                    each.due = now + self.lock_ms
                else:
                    self._end(each, FATES[kind])

    def let_go(self, member: str | None, now: float = 0) -> None:
        """Free what a member holds, or everything whose lock has run out."""
        for each in self.known.values():
            over = each.due <= now if member is None else each.member == member
            if each.state == HELD and over:
                self._end(each, FREE)

    def _end(self, record: Record, state: int) -> None:
        at_limit = state == FREE and record.count >= self.deliveries
        record.state, record.member, record.due = ARCHIVED if at_limit else state, "", 0

    def complete(self) -> int:
        """How many records have their final fate."""
        return sum(each.state in FINAL for each in self.known.values())

    def move(self, start: int | None = None) -> None:
        """Move the start over records with their final fate, or to where the log begins now."""
        known = self.known
        if start is None:
            open_ = (offset for offset, each in known.items() if each.state not in FINAL)
            start = next(open_, max(known, default=self.start - 1) + 1)
            if not known or start == min(known):
                return
        self.start = max(self.start, start)
        for batch in self.batches:
            left = {o: each for o, each in batch.records.items() if o >= self.start}
            batch.apart |= len(left) < len(batch.records)
            batch.records = left
        self.batches = [batch for batch in self.batches if batch.records]


def _ends(log: Sequence[range], offset: int) -> Iterable[int]:
    return (each[-1] for each in log if each[0] <= offset)


def _pieces(log: Sequence[range], first: int, last: int, size: int) -> list[range]:
    pieces = []
    for each in log:
        if each[0] <= last and each[0] - first >= size:
            pieces.append(range(first, each[0]))
            first = each[0]
    return [*pieces, range(first, last + 1)]


def _ranges(counts: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    ranges = list[tuple[int, int, int]]()
    for offset, count in counts:
        if ranges and ranges[-1][1:] == (offset - 1, count):
            ranges[-1] = (ranges[-1][0], offset, count)
        else:
            ranges.append((offset, offset, count))
    return ranges
