"""Splits: offset ranges of about equal bytes, cut where batches begin.

A partition is a row of spans, ranges of its segments that can hold what is asked for: segments are
pruned by their offsets and by their largest timestamps, and where a time bounds the read the batch
headers say which batches can hold records of it. The spans are cut at index entries, and small
ones packed together: ten thousand tiny segments are not ten thousand tasks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from pipeline.errors import SourceUnavailable
from pipeline.manifest import Manifest, PinnedPartition
from pipeline.options import LAST_TIME, ReadOptions
from pipeline.ranges import OffsetRange, find_in_files, resolve
from pipeline.segments import SegmentView
from pipeline.split import Lease, Piece, Rules, Split
from pipeline.stores import join, open_store
from pipeline.time_spans import find_time_spans
from storage import files
from storage.topic_partition import TopicPartition
from storage.transaction_index import AbortedTransaction

_SAFE_SHARE: Final = 2
"""A read without a pin may take this part of delete.retention.ms: a half."""
_NOWHERE: Final = -1
_SLACK: Final = 1 / 8
"""How far, as a part of a split, a cut is moved to the start of the next segment."""


class Cut(NamedTuple):
    """A place between two splits: what comes after begins with this offset, at this position.

    What comes before ends at ``until``: behind the batch, if the offset is within it.
    """

    span: int
    position: int
    until: int
    offset: int


class Span(NamedTuple):
    """A range of whole batches in a segment."""

    view: SegmentView
    position: int
    end: int

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.position


def plan_splits(
    view: Manifest,
    options: ReadOptions,
    ranges: Mapping[TopicPartition, OffsetRange] | None = None,
    *,
    transport: str = "archive",
    is_live: bool = False,
) -> list[Split]:
    """Return splits that together read the ranges once; without ranges what the options say.

    ``is_live`` says of a view without a pin that its files may change while they are read.

    Raises:
        PipelineError: the ranges can not be told, or are gone.
    """
    if ranges is None:
        ranges = resolve(view, options, find_in_files)
    rules = rules_of(options)
    lease = None
    if view.pin:
        lease = Lease(
            data=options.data, control=options.control, pin=view.pin, lease_ms=options.pin_lease_ms
        )
    splits: list[Split] = []
    sizes = {each.topic_partition: each.size for each in view.partitions}
    target = target_bytes(sum(sizes.values()), options)
    for partition in view.partitions:
        wanted = ranges.get(partition.topic_partition)
        if wanted is None or wanted.start >= wanted.end:
            continue
        whole = Split(
            transport=transport,
            topic=partition.topic,
            partition=partition.partition,
            topic_id=partition.topic_id,
            folder=partition.folder,
            start_offset=wanted.start,
            end_offset=wanted.end,
            rules=replace(rules, deadline_ms=deadline(view, partition) if is_live else 0),
            lease=lease,
        )
        if partition.folder:
            splits += _cut_files(partition, whole, options, target)
        else:
            network = replace(whole, bootstrap=options.bootstrap, kafka=options.kafka)
            splits += _cut_offsets(network, options, sum(map(_length, ranges.values())))
    return splits


def rules_of(options: ReadOptions) -> Rules:
    """Return what options say about how to read."""
    return Rules(
        is_verified=options.verify,
        skips_corrupt=options.on_corrupt == "skip",
        quarantine=options.quarantine,
        is_committed=options.is_committed,
        fails_on_data_loss=options.fail_on_data_loss,
        time_from=options.time_from,
        time_last=options.time_to - (options.time_to < LAST_TIME),
    )


def deadline(view: Manifest, partition: PinnedPartition) -> int:
    """Return until when a read without a pin is of one moment, as far as deleted keys go.

    While tombstones stay, a key that an early task has seen can not lose its deletion before a late
    task comes to it.
    """
    if not partition.is_compacted:
        return 0
    return view.taken_at_ms + partition.delete_retention_ms // _SAFE_SHARE


def target_bytes(size: int, options: ReadOptions) -> int:
    """Return how many bytes a split should have."""
    if options.min_partitions:
        return max(1, min(options.split_bytes, -(-size // options.min_partitions)))
    return max(1, options.split_bytes)


def _cut_files(
    partition: PinnedPartition, whole: Split, options: ReadOptions, target: int
) -> list[Split]:
    try:
        return PartitionPlan(partition, whole, options).cut(target)
    except FileNotFoundError as error:
        raise SourceUnavailable(
            f"files of {partition.topic_partition} went away while the read was planned: "
            f"{error}; run it again"
        ) from error


def _cut_offsets(whole: Split, options: ReadOptions, total: int) -> list[Split]:
    """Return splits of about equal offsets, as many as are asked for: bytes are not known."""
    length = whole.end_offset - whole.start_offset
    parts = max(1, round(options.min_partitions * length / total))
    if options.max_records_per_partition:
        parts = max(parts, -(-length // options.max_records_per_partition))
    bounds = [whole.start_offset + length * part // parts for part in range(parts + 1)]
    return [
        replace(whole, start_offset=start, end_offset=end, is_whole_partition=parts == 1)
        for start, end in pairwise(bounds)
        if end > start
    ]


def _length(wanted: OffsetRange) -> int:
    return max(0, wanted.end - wanted.start)


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
        try:
            cuts = self._finer(spans, self._cuts(spans, target))
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
                aborted=_touching(aborted, first.offset, last.offset),
                is_whole_partition=len(cuts) == 2,
            )
            for first, last in pairwise(cuts)
        ]

    def _spans(self) -> Iterator[Span]:
        """Yield the ranges that can hold what is asked for, in order."""
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
            if following is None or following > end:
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

    def _cuts(self, spans: list[Span], target: int) -> list[Cut]:
        """Return where splits begin and end, the first at the start and the last at the end."""
        size = sum(span.size for span in spans)
        parts = max(1, round(size / target))
        step = size / parts
        cuts = [Cut(0, spans[0].position, _NOWHERE, self._whole.start_offset)]
        before = 0
        for number, span in enumerate(spans):
            while len(cuts) < parts and step * len(cuts) < before + span.size:
                into = int(step * len(cuts) - before)
                cut = _cut_near(spans, number, into, cuts[-1], slack=int(step * _SLACK))
                if cut is None or cut.offset >= self._whole.end_offset:
                    break
                cuts.append(cut)
            before += span.size
        return [*cuts, Cut(len(spans), 0, 0, self._whole.end_offset)]

    def _finer(self, spans: list[Span], cuts: list[Cut]) -> list[Cut]:
        """Add cuts where a split would have more offsets than one may have."""
        most = self._options.max_records_per_partition
        if not most:
            return cuts
        finer = []
        for first, last in pairwise(cuts):
            length = last.offset - first.offset
            parts = -(-length // most)
            finer.append(first)
            finer += [
                _cut_at(spans, first.span, first.offset + length * part // parts)
                for part in range(1, parts)
            ]
        return [*finer, cuts[-1]]

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

    The start of the next span is preferred if it is no further than ``slack``.
    """
    span = spans[number]
    if number + 1 < len(spans) and span.size - into <= slack:
        following = spans[number + 1]
        header = following.view.header_at(following.position)
        if header is not None:
            place = following.position
            return Cut(number + 1, place, place, header.base_offset)
    after = previous.position if previous.span == number else span.position - 1
    batch = span.view.cut_before(span.position + into, after)
    if batch is None or batch.header.base_offset <= previous.offset:
        return None
    return Cut(number, batch.position, batch.position, batch.header.base_offset)


def _cut_at(spans: list[Span], start: int, offset: int) -> Cut:
    """Return the cut at an offset, which may be within a batch or in a gap."""
    for number in range(start, len(spans)):
        span = spans[number]
        located = span.view.locate(offset)
        if located is None or located.position >= span.end:
            continue
        is_within = located.header.base_offset < offset
        position = max(span.position, located.position)
        return Cut(number, position, max(position, located.end) if is_within else position, offset)
    return Cut(len(spans), 0, 0, offset)


def _pieces(spans: list[Span], first: Cut, last: Cut, folder: str) -> Iterator[Piece]:
    """Yield the ranges between two cuts."""
    for number in range(first.span, min(last.span + 1, len(spans))):
        span = spans[number]
        position = first.position if number == first.span else span.position
        end = last.until if number == last.span else span.end
        if end > position:
            segment = span.view.segment
            yield Piece(
                place=join(folder, segment.file_name(files.LOG)),
                segment=segment.base_offset,
                position=position,
                end=end,
                inode=segment.inode,
                first_offset=first.offset
                if number == first.span and 0 < position == first.until
                else -1,
            )


def _touching(
    aborted: tuple[AbortedTransaction, ...], start: int, end: int
) -> tuple[AbortedTransaction, ...]:
    return tuple(each for each in aborted if each.first_offset < end and each.last_offset >= start)
