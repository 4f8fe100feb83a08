"""Finding the bytes of a fetch: from an offset to a range of a file.

A consumer's next fetch begins where its last one ended, so the reader remembers where reads ended
and a follower of the log's end never searches (performance.md §8). Everybody else goes by the
offset index and a short walk over batch headers.
Compiled by Cython, or plain Python as it stands. The types of C stand in ``_read_kernels.pxd``;
import `storage.read_kernels`, which chooses.
"""

from typing import TYPE_CHECKING

from protocol.parts import FileSlice
from storage.log_view import LogRead, end_of, find_index, find_place, next_place, size_between

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if TYPE_CHECKING:
    from storage.log_view import LogView, Place
    from storage.segment import LogSegment

COMPILED: bool = cython.compiled

_HINTS = 17  # a prime: batches of a power of two records do not share a slot
_NO_HINT: "tuple[int, LogSegment | None, int]" = (-1, None, 0)


class LogReader:
    """Reads of one log, and where the last few of them ended.

    A hint (offset, segment, position) says that the first batch whose last offset is >= offset
    begins at position, or will once it is written. Hints hold on to segments: a log that drops
    segments takes a new reader. Any thread may read; the worst that a lost hint costs is a
    search.
    """

    __slots__ = ("_hints",)

    def __init__(self) -> None:
        self._hints = [_NO_HINT] * _HINTS

    def read(
        self, view: "LogView", offset: int, max_bytes: int, upto: int, at_least_one: bool
    ) -> LogRead | None:
        """Return what `storage.log.Log.read` promises; ``offset`` is within the log.

        Raises:
            OSError: The segment can not be read.
        """
        end_offset, segments, end_position = view
        active = segments[len(segments) - 1]
        if offset >= upto or offset >= end_offset:
            if offset == end_offset:
                self._hints[offset % _HINTS] = (offset, active, end_position)
            return None
        _, segment, position = hint = self._hints[offset % _HINTS]
        if hint[0] != offset or segment is not active or position >= end_position:
            place = self._search(view, offset)
            if place is None:
                return None
            segment, position = place
        if segment is active:
            limit, next_offset = end_position, end_offset
        else:
            limit = segment.size
            next_offset = segments[find_index(segments, segment.base_offset) + 1].base_offset
        if upto < next_offset:
            limit, next_offset = _cut_at(segment, limit, upto)
        if limit - position > max_bytes:
            limit, next_offset = segment.cut(position, max_bytes, limit, at_least_one=at_least_one)
        if limit <= position:
            return None
        self._hints[next_offset % _HINTS] = (next_offset, segment, limit)
        part = FileSlice(segment.file(), position, limit - position)
        return LogRead(part, next_offset, segment)

    def available_bytes(self, view: "LogView", offset: int, upto: int) -> int:
        """Return the bytes from ``offset``'s batch to ``upto``, exclusive, over all segments.

        Raises:
            OSError: A segment can not be read.
        """
        if offset >= upto or offset >= view[0]:
            return 0
        start = self._search(view, offset)
        if start is None:
            return 0
        end: Place | None = None
        if upto < view[0]:
            end = self._search(view, upto)
        segments = view[1]
        return size_between(view, start, end or (segments[len(segments) - 1], view[2]))

    def _search(self, view: "LogView", offset: int) -> "Place | None":
        """Return where the first batch whose last offset is >= ``offset`` begins."""
        hinted_offset, segment, position = self._hints[offset % _HINTS]
        if hinted_offset != offset or segment is None:
            return find_place(view, offset)
        if position < end_of(view, segment):
            return segment, position
        return next_place(view, segment)  # it has rolled since


def _cut_at(segment: "LogSegment", limit: int, upto: int) -> tuple[int, int]:
    """Return the end position and the next offset of what lies below ``upto`` in a segment."""
    located = segment.locate(upto)
    if located is None or located.position >= limit:
        return limit, upto
    return located.position, upto
