"""Cutting the files of one partition into splits of about equal bytes.

A partition becomes a list of spans: ranges of its segments that can hold wanted records.
Segments are pruned by their offsets and their largest timestamps. If a time bounds the read, batch
headers say which batches can hold its records. Spans are cut at index entries, and small ones are
packed together, so that ten thousand tiny segments are not ten thousand tasks.

Timestamps are not sorted: a record may be older than any before it. The lower bound skips records
that are older by the time index and the headers' largest timestamps. The upper bound skips a batch
only if its header proves all of it to be later: the broker stamped it, or it has one record, or the
user says that no record of a batch is older than its first one (``timestampOrder=batch``).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Final, NamedTuple

from siltstone.pipeline.options import FIRST_TIME, LAST_TIME, ReadOptions
from siltstone.pipeline.planning.manifest import PinnedPartition
from siltstone.pipeline.planning.segments import SegmentView
from siltstone.pipeline.planning.split import Piece, Rules, Split
from siltstone.pipeline.stores import join, open_store
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.producers.transaction_index import AbortedTransaction

_SLACK: Final = 1 / 8
"""How far a cut may be moved to get to the start of the next segment, as a part of a split."""


class Cut(NamedTuple):
    """A place between two splits: the second begins with this offset, at this position."""

    span: int
    position: int
    offset: int
    is_known: bool = True
    """Whether a batch of this offset was seen there."""


class Span(NamedTuple):
    """A range of whole batches in a segment."""

    view: SegmentView
    position: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.position


class PartitionPlan:
    """The splits of one partition's files."""

    def __init__(self, partition: PinnedPartition, whole: Split, options: ReadOptions) -> None:
        self._partition = partition
        self._whole = whole
        self._options = options
        self._store, self._folder = open_store(partition.folder)

    def cut(self, target: int) -> list[Split]:
        """Return splits of about ``target`` bytes."""
        spans = [span for span in self._spans() if span.end > span.position]
        if not spans:
            return []
        size = sum(span.size for span in spans)
        length = self._whole.end_offset - self._whole.start_offset
        if self._options.max_records_per_partition:
            target = min(target, size * self._options.max_records_per_partition // length)
        try:
            cuts = self._cuts(spans, size, max(1, target))
        finally:
            for span in spans:
                span.view.close()
        aborted = self._aborted() if self._options.is_committed else ()
        return [
            replace(
                self._whole,
                start_offset=first.offset,
                end_offset=last.offset,
                pieces=tuple(_pieces(spans, first, last, self._partition.folder)),
                aborted=touching,
            )
            for (first, last), touching in zip(
                pairwise(cuts), _shared_out(aborted, [cut.offset for cut in cuts]), strict=True
            )
        ]

    def _spans(self) -> Iterator[Span]:
        """Yield the ranges that can hold wanted records, in order."""
        rules, start, end = self._whole.rules, self._whole.start_offset, self._whole.end_offset
        segments = self._partition.segments
        bases = [each.base_offset for each in segments[1:]]
        for segment, following in zip(segments, [*bases, None], strict=True):
            if segment.base_offset >= end or (following is not None and following <= start):
                continue
            view = SegmentView(self._store, self._folder, segment)
            first = 0
            if segment.base_offset < start:
                located = view.locate(start)
                first = located.position if located is not None else 0
            last = segment.size
            if end < (self._partition.end_offset if following is None else following):
                located = view.locate(end)
                last = located.position if located is not None else segment.size
                if located is not None and located.header.base_offset < end:
                    last = located.end
            yield from (
                Span(view, *found)
                for found in find_time_spans(
                    view, first, last, rules, order=self._options.timestamp_order
                )
            )
            view.close()

    def _cuts(self, spans: list[Span], size: int, target: int) -> list[Cut]:
        """Return where splits begin and end, the first at the start and the last at the end."""
        parts = max(1, round(size / target))
        step = size / parts
        cuts = [Cut(0, spans[0].position, self._whole.start_offset, is_known=False)]
        before = 0
        for number, span in enumerate(spans):
            while len(cuts) < parts and step * len(cuts) < before + span.size:
                into = int(step * len(cuts) - before)
                cut = _cut_near(spans, number, into, cuts[-1], slack=int(step * _SLACK))
                if cut is None or cut.offset >= self._whole.end_offset:
                    break
                cuts.append(cut)
            span.view.close()
            before += span.size
        return [*cuts, Cut(len(spans), 0, self._whole.end_offset)]

    def _aborted(self) -> tuple[AbortedTransaction, ...]:
        return tuple(
            each
            for segment in self._partition.segments
            for each in SegmentView(self._store, self._folder, segment).aborted()
        )


def _cut_near(
    spans: list[Span], number: int, into: int, previous: Cut, *, slack: int
) -> Cut | None:
    """Return a place for a cut about ``into`` bytes into a span, after the previous one.

    The start of a span is preferred if it is no further than ``slack``; that of a segment is known
    without a look at its files.
    """
    span = spans[number]
    near = number if into <= slack and number > previous.span else number + 1
    if near < len(spans) and (near == number or span.size - into <= slack):
        view, place = spans[near].view, spans[near].position
        header = view.header_at(place) if place else None
        if header is not None or place == 0:
            offset = view.segment.base_offset if header is None else header.base_offset
            return Cut(near, place, offset)
    start = previous.position if previous.span == number else span.position
    batch = span.view.cut_before(span.position + into, start)
    if batch is None or batch.header.base_offset <= previous.offset:
        return None
    return Cut(number, batch.position, batch.header.base_offset)


def _pieces(spans: list[Span], first: Cut, last: Cut, folder: str) -> Iterator[Piece]:
    """Yield the ranges between two cuts."""
    for number in range(first.span, min(last.span + 1, len(spans))):
        span = spans[number]
        position = first.position if number == first.span else span.position
        end = last.position if number == last.span else span.end
        if end > position:
            segment = span.view.segment
            yield Piece(
                place=join(folder, segment.file_name(files.LOG)),
                segment=segment.base_offset,
                position=position,
                end=end,
                inode=segment.inode,
                first_offset=first.offset
                if number == first.span and position and first.is_known
                else -1,
            )


def _shared_out(
    aborted: Iterable[AbortedTransaction], bounds: list[int]
) -> Iterator[tuple[AbortedTransaction, ...]]:
    """Yield the transactions that touch the offsets between each two bounds."""
    coming = sorted(aborted, key=attrgetter("first_offset"), reverse=True)
    touching: list[AbortedTransaction] = []
    for start, end in pairwise(bounds):
        while coming and coming[-1].first_offset < end:
            touching.append(coming.pop())
        touching = [each for each in touching if each.last_offset >= start]
        yield tuple(touching)


class Extent(NamedTuple):
    """A range of whole batches."""

    position: int
    end: int


def find_time_spans(
    view: SegmentView, first: int, last: int, rules: Rules, *, order: str
) -> Iterator[Extent]:
    """Yield the ranges between two batch boundaries that can hold records of the wanted times."""
    if rules.time_from == FIRST_TIME and rules.time_last == LAST_TIME:
        yield Extent(first, last)
        return
    if rules.time_from > FIRST_TIME:
        largest = view.largest_timestamp()
        if largest is not None and largest < rules.time_from:
            return
        first = max(first, view.start_of_time(rules.time_from))
    if not view.is_local:
        yield Extent(first, last)  # a request for each header costs more than the bytes
        return
    yield from _walk(view, first, last, rules, order)


def _walk(view: SegmentView, first: int, last: int, rules: Rules, order: str) -> Iterator[Extent]:
    start = end = first
    for batch in view.batches(first, HEADER_SIZE):
        if batch.position >= last:
            break
        if _can_hold(batch.header, rules, order):
            if batch.position > end:
                if end > start:
                    yield Extent(start, end)
                start = batch.position
            end = batch.end
        first = batch.end
    if first < last:
        yield Extent(start if end == first else first, last)  # damage: the task will find it
    elif end > start:
        yield Extent(start, end)


def _can_hold(header: BatchHeader, rules: Rules, order: str) -> bool:
    if header.count == 0 or header.is_control or header.max_timestamp < rules.time_from:
        return False
    if header.is_log_append_time or header.count == 1:
        return header.max_timestamp <= rules.time_last
    if order == "batch" and not header.has_delete_horizon:
        return header.base_timestamp <= rules.time_last
    return True
