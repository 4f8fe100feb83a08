"""What a reader of a log sees: its segments and its end, published in one assignment.

A reader takes the view once and then no lock. Everything in it stays valid: segments that
retention or the cleaner takes out meanwhile keep their open files, and bytes below the end never
change.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from protocol.parts import FileSlice
from storage.segment import LogSegment

LogView: TypeAlias = tuple[int, tuple[LogSegment, ...], int]
"""Log end offset, segments from the oldest to the active one, and the end's position in that.

A bare tuple: one is made for each append.
"""

Place: TypeAlias = tuple[LogSegment, int]
"""A segment and the position in it where a batch begins (or its end)."""


class LogRead(NamedTuple):
    """Whole batches of one segment, as a range of its file.

    ``next_offset`` is one past the last offset in the range, or more where compaction left a gap.
    """

    slice: FileSlice
    next_offset: int
    segment: LogSegment


def base_offset_of(segment: LogSegment) -> int:
    """Return the base offset, as a key for bisection."""
    return segment.base_offset


def find_index(segments: Sequence[LogSegment], offset: int) -> int:
    """Return the index of the segment with the greatest base offset <= ``offset``, else 0."""
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)


def end_of(view: LogView, segment: LogSegment) -> int:
    """Return the position at which the bytes of a segment end for readers of this view."""
    return view[2] if segment is view[1][-1] else segment.size


def find_place(view: LogView, offset: int) -> Place | None:
    """Return where the first batch with a last offset >= ``offset`` begins; None: nowhere.

    An offset in a gap that compaction left is answered by the next batch that is there, in this
    segment or in a later one (storage.md §5.2).
    """
    segments = view[1]
    for segment in segments[find_index(segments, offset) :]:
        located = segment.locate(offset)
        if located is not None:
            if located.position >= end_of(view, segment):
                return None  # appended after this view was taken
            return segment, located.position
    return None


def next_place(view: LogView, segment: LogSegment) -> Place | None:
    """Return the start of the next segment after ``segment`` that has bytes; None: nowhere."""
    segments = view[1]
    for later in segments[find_index(segments, segment.base_offset) + 1 :]:
        if end_of(view, later):
            return later, 0
    return None


def size_between(view: LogView, start: Place, end: Place) -> int:
    """Return the bytes from one place to another, in whole segments in between."""
    segments = view[1]
    first = find_index(segments, start[0].base_offset)
    last = find_index(segments, end[0].base_offset)
    if first == last:
        return max(0, end[1] - start[1])
    return sum(segment.size for segment in segments[first:last]) - start[1] + end[1]
