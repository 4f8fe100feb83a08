"""Which ranges of a segment can hold records of a time.

Timestamps are not sorted: a record may be older than any before it. The lower bound skips what is
older by the time index and the headers' largest timestamps. The upper bound skips a batch only if
its header proves all of it to be later: the broker stamped it, or it has one record, or the user
says that no record of a batch is older than its first one (``timestampOrder=batch``).
"""

from collections.abc import Iterator
from typing import NamedTuple

from siltstone.pipeline.options import FIRST_TIME, LAST_TIME
from siltstone.pipeline.planning.segments import SegmentView
from siltstone.pipeline.planning.split import Rules
from siltstone.protocol.records.batch import HEADER_SIZE, BatchHeader


class Extent(NamedTuple):
    """A range of whole batches."""

    position: int
    end: int


def find_time_spans(
    view: SegmentView, first: int, last: int, rules: Rules, *, order: str
) -> Iterator[Extent]:
    """Yield the ranges between two batch boundaries that can hold records of the rules' times."""
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
