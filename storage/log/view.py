"""The log as its readers see it: its segments and its end, published in one assignment.

A reader reads the view once and needs no lock. Everything in the view stays valid: segments that
retention or the cleaner removes meanwhile keep their open files, and bytes below the end never
change.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment

LogView: TypeAlias = tuple[int, tuple[LogSegment, ...], int]
"""Log end offset, segments from the oldest to the active one, and the end's position in that.

A bare tuple: one is made for each append.
"""


def base_offset_of(segment: ReadableSegment) -> int:
    """Return the base offset, as a key for bisection."""
    return segment.base_offset


def find_index(segments: Sequence[ReadableSegment], offset: int) -> int:
    """Return the index of the segment with the greatest base offset <= ``offset``, or 0."""
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)
