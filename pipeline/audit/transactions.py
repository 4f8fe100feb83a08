"""Compares the transaction indexes of a partition with the markers in its log.

The segments are read in tasks; each lists its `Step`s. The steps are joined in the order of the
log, since a transaction may begin in one segment and end in another.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage.producers.markers import MarkerKind, read_marker
from siltstone.storage.producers.transaction_index import AbortedTransaction

_DATA: Final = -1


class Step(NamedTuple):
    """The first batch of a transaction in a segment, or the marker that ends one."""

    producer_id: int
    offset: int
    kind: int
    """A `MarkerKind`, or -1 for data."""


class Steps:
    """Lists the steps of a segment from its bytes, chunk by chunk."""

    def __init__(self) -> None:
        self.found: list[Step] = []
        self._open: set[int] = set()

    def add(self, chunk: memoryview) -> None:
        """Walk the headers of whole batches."""
        at = 0
        while at + HEADER_SIZE <= len(chunk):
            header = BatchHeader.read(chunk, at)
            if header.size < HEADER_SIZE:
                return
            if header.is_control:
                self._end(header, chunk[at : at + header.size])
            elif header.is_transactional and header.producer_id not in self._open:
                self._open.add(header.producer_id)
                self.found.append(Step(header.producer_id, header.base_offset, _DATA))
            at += header.size

    def _end(self, header: BatchHeader, batch: memoryview) -> None:
        try:
            marker = read_marker(batch)
        except KafkaError:
            return  # reported as a damaged batch
        if marker is not None:
            self._open.discard(header.producer_id)
            self.found.append(Step(header.producer_id, header.last_offset, marker.kind))


class Told(NamedTuple):
    """A sentence about an entry of a segment's transaction index, and its offset."""

    base_offset: int
    offset: int
    sentence: str


class SegmentSteps(NamedTuple):
    """The steps of a segment, and the entries of its transaction index."""

    base_offset: int
    steps: Sequence[Step]
    entries: Sequence[AbortedTransaction]


def compare(
    segments: Iterable[SegmentSteps], first_offset: int, *, is_whole: bool
) -> Iterator[Told]:
    """Yield the differences; the segments are in the order of the log.

    ``first_offset`` is that of the log: transactions from before it cannot be compared.
    ``is_whole`` says that no record is missing: no cleaner has worked there, and no damage was
    found.
    """
    log = _Log(first_offset, is_whole=is_whole)
    for segment in segments:
        entries = {entry.last_offset: entry for entry in segment.entries}
        for step in segment.steps:
            entry = None if step.kind == _DATA else entries.pop(step.offset, None)
            for sentence in log.take(step, entry):
                yield Told(segment.base_offset, step.offset, sentence)
        for entry in entries.values():
            yield Told(
                segment.base_offset,
                entry.last_offset,
                f"no marker of producer {entry.producer_id} is at {entry.last_offset}",
            )


class _Log:
    """The transactions that are open at one place of the log."""

    def __init__(self, first_offset: int, *, is_whole: bool) -> None:
        self._first_offset = first_offset
        self._is_whole = is_whole
        self._open: dict[int, int] = {}
        self._ended: dict[int, int] = {}

    def take(self, step: Step, entry: AbortedTransaction | None) -> Iterator[str]:
        """Go on by a step; yield the faults of the entry that stands for it."""
        if step.kind == _DATA:
            self._open.setdefault(step.producer_id, step.offset)
            return
        began = self._open.pop(step.producer_id, None)
        if entry is not None:
            yield from self._compare(step, entry, began)
        elif step.kind == MarkerKind.ABORT and began is not None and self._is_whole:
            yield f"the abort of producer {step.producer_id} at {step.offset} has no entry"
        self._ended[step.producer_id] = step.offset

    def _compare(self, step: Step, entry: AbortedTransaction, began: int | None) -> Iterator[str]:
        if step.kind != MarkerKind.ABORT or step.producer_id != entry.producer_id:
            kind = "an abort" if step.kind == MarkerKind.ABORT else "a commit"
            yield (
                f"the entry of producer {entry.producer_id} at {step.offset} stands for {kind} of "
                f"producer {step.producer_id}"
            )
            return
        if not self._can_begin(step, entry.first_offset, began):
            yield (
                f"the entry at {step.offset} says that the transaction began at "
                f"{entry.first_offset}, and the log does not"
            )
        stable = min(self._open.values(), default=step.offset + 1)
        is_known = self._is_whole and entry.last_stable_offset >= self._first_offset
        if entry.last_stable_offset > stable or (is_known and entry.last_stable_offset != stable):
            yield (
                f"the entry at {step.offset} says that the log was stable up to "
                f"{entry.last_stable_offset}, and it was up to {stable}"
            )

    def _can_begin(self, step: Step, first: int, began: int | None) -> bool:
        """Tell whether a transaction can have begun at an offset."""
        ended = self._ended.get(step.producer_id)
        if first <= (-1 if ended is None else ended) or first < 0:
            return False
        if self._is_whole and (ended is not None or first >= self._first_offset):
            return first == began
        return first <= (step.offset if began is None else began)
