"""What a reader of a log sees: its segments and its end, published in one assignment.

A reader takes the view once and then no lock. Everything in it stays valid: segments that
retention or the cleaner takes out meanwhile keep their open files, and bytes below the end never
change.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from siltstone.protocol.parts import FileSlice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.storage.segment.segment import LogSegment

LogView: TypeAlias = "tuple[int, tuple[LogSegment, ...], int]"
"""Log end offset, segments from the oldest to the active one, and the end's position in that.

A bare tuple: one is made for each append.
"""

Place: TypeAlias = "tuple[LogSegment, int]"
"""A segment and the position in it where a batch begins (or its end)."""


class LogRead(NamedTuple):
    """Whole batches of one segment, as a range of its file.

    ``next_offset`` is one past the last offset in the range, or more where compaction left a gap.
    """

    slice: FileSlice
    next_offset: int
    segment: "LogSegment"


def base_offset_of(segment: "LogSegment") -> int:
    """Return the base offset, as a key for bisection."""
    return segment.base_offset


def find_index(segments: "Sequence[LogSegment]", offset: int) -> int:
    """Return the index of the segment with the greatest base offset <= ``offset``, else 0."""
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)
