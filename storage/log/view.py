"""The log as its readers see it: its segments and its end, published in one assignment.

A reader reads the view once and needs no lock. Everything in the view stays valid: segments that
retention or the cleaner removes meanwhile keep their open files, and bytes below the end never
change.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.storage.segment.open_file import SegmentFile


class Segment(Protocol):
    """A segment, as a reader sees it; see `storage.segment.readable`."""

    @property
    def base_offset(self) -> int:
        """Return the offset in the names of its files."""

    @property
    def size(self) -> int:
        """Return how many bytes there are to read."""

    def file(self) -> "SegmentFile":
        """Return the ``.log``, open."""

    def find(self, offset: int) -> int:
        """Return where the first batch begins that ends at or after ``offset``, or -1."""

    def start_before_position(self, position: int) -> int:
        """Return the start of a batch at or before a position."""

    def cut(
        self, position: int, max_bytes: int, limit: int, *, at_least_one: bool
    ) -> tuple[int, int]:
        """Return where whole batches end, and the next offset."""


S = TypeVar("S", bound=Segment)

LogView: TypeAlias = tuple[int, tuple[S, ...], int]
"""Log end offset, segments from the oldest to the active one, and the end's position in that.

A bare tuple: one is made for each append.
"""


def base_offset_of(segment: Segment) -> int:
    """Return the base offset, as a key for bisection."""
    return segment.base_offset


def find_index(segments: "Sequence[Segment]", offset: int) -> int:
    """Return the index of the segment with the greatest base offset <= ``offset``, else 0."""
    return max(0, bisect_right(segments, offset, key=base_offset_of) - 1)
