"""Finding the bytes of a fetch: from an offset to a range of a file.

A consumer's next fetch begins where its last one ended, so the reader remembers where reads ended,
and a consumer at the log's end never searches. Others use the offset index and a short walk over
batch headers, a few KiB at a time and never past an end. A batch that does not end there is a torn
tail and is not seen; nothing here checks a CRC. Compiled by Cython.
The types of C stand in ``_read_kernels.pxd``.
"""

from os import pread
from typing import TYPE_CHECKING

import cython

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.parts import FileSlice
from siltstone.storage.log.view import LogRead, find_index

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.protocol.core import find_batch, find_end
    from siltstone.protocol.core._format import (
        field_of,
        inside,
        number_of,
        read_int32,
        read_int64,
        row_of,
    )

    HINTS = 17  # a prime: batches of a power of two records do not share a slot

if TYPE_CHECKING:
    from typing import Protocol

    from siltstone.protocol.errors import KafkaError
    from siltstone.storage.appending._append_kernels import LogEnd
    from siltstone.storage.log.view import LogView, Place, Segment

    Hint = tuple[int, Segment | None, int]

    class Log(Protocol):
        """The log that is read: its errors."""

        def absence(self) -> KafkaError:
            """Return the refusal of a log that is closed."""

        def out_of_range(self, offset: int, end_offset: int) -> KafkaError:
            """Return the refusal of an offset that the log does not have."""

        def unreadable(self, error: OSError) -> KafkaError:
            """Return the refusal of a read that the disk failed."""

        def damaged(self, error: CorruptMessage) -> KafkaError:
            """Return the refusal of a read that found no batch."""


LOOKUP_CHUNK = 8192
"""Bytes that a lookup reads at once: two index entries' usual distance, and the batch after it."""

_NEAR = 64 * 1024
"""A distance that is walked from header to header without asking the index."""

_HEADER_SIZE = 61
_LOG_OVERHEAD = 12
_MAGIC = 2

_NO_HINT: "Hint" = (-1, None, 0)


class LogReader:
    """Reads of one log, and where the last few of them ended.

    A hint (offset, segment, position) says that the first batch whose last offset is >= offset
    begins at position, or will once it is written. Any thread may read; losing a hint costs a
    search at worst. A call gets the `Log`, for its errors.
    """

    __slots__ = ("_end", "_hints")

    def __init__(self, end: "LogEnd") -> None:
        self._end = end
        self._hints = [_NO_HINT] * HINTS

    def forget(self) -> None:
        """Drop all hints, since the log drops some of their segments.

        A read that has begun continues with the hints that it has.
        """
        self._hints = [_NO_HINT] * HINTS

    def read(
        self, log: "Log", offset: int, max_bytes: int, upto: int, at_least_one: bool
    ) -> LogRead | None:
        """Return whole batches from ``offset`` on; None if the log has no such batch yet.

        ``upto`` is exclusive: the high watermark, or the last stable offset for read_committed. The
        first batch may exceed ``max_bytes`` if ``at_least_one``. The range may begin with records
        below ``offset``, and ends with its segment at the latest.

        Raises:
            NotLeaderOrFollower: The log is closed.
            UnknownTopicOrPartition: Its topic was deleted.
            OffsetOutOfRange: ``offset`` is below the log start offset or above the log end offset.
            KafkaStorageError: The files there cannot be read.
            CorruptMessage: They have no batch there.
        """
        end = self._end
        if end.is_closed:
            raise log.absence()
        view = end.view
        end_offset = view[0]
        if not end.log_start_offset <= offset <= end_offset:
            raise log.out_of_range(offset, end_offset)
        try:
            return self._read(view, offset, max_bytes, upto, at_least_one)
        except OSError as error:
            raise log.unreadable(error) from error
        except CorruptMessage as error:
            raise log.damaged(error) from error

    def available_bytes(self, log: "Log", offset: int, upto: int) -> int:
        """Return the bytes from ``offset``'s batch to ``upto``, exclusive, over all segments.

        Raises:
            KafkaError: As `read` does, but for an offset that the log does not have.
        """
        end = self._end
        if end.is_closed:
            raise log.absence()
        try:
            return _count_bytes(self._hints, end.view, offset, upto)
        except OSError as error:
            raise log.unreadable(error) from error
        except CorruptMessage as error:
            raise log.damaged(error) from error

    def _read(
        self, view: "LogView[Segment]", offset: int, max_bytes: int, upto: int, at_least_one: bool
    ) -> LogRead | None:
        """Read; ``offset`` is within the log."""
        end_offset, segments, end_position = view
        active = segments[len(segments) - 1]
        hints = self._hints  # kept here: another thread may replace them
        hint = hints[offset % HINTS]
        is_hinted = number_of(hint, 0) == offset
        if offset >= upto or offset >= end_offset:
            if offset == end_offset and not (is_hinted and field_of(hint, 1) is active):
                hints[offset % HINTS] = (offset, active, end_position)
            return None
        _, segment, position = hint
        if not is_hinted or segment is not active or position >= end_position:
            place = _search(hints, view, offset)
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
        hints[next_offset % HINTS] = (next_offset, segment, limit)
        part = FileSlice(segment.file(), position, limit - position)
        read: LogRead = row_of(LogRead, (part, next_offset, segment))
        return read


def _count_bytes(hints: "list[Hint]", view: "LogView[Segment]", offset: int, upto: int) -> int:
    """Return the bytes for `LogReader.available_bytes`."""
    if offset >= upto or offset >= view[0]:
        return 0
    start = _search(hints, view, offset)
    if start is None:
        return 0
    end: Place | None = None
    if upto < view[0]:
        end = _search(hints, view, upto)
    segments = view[1]
    return _size_between(view, start, end or (segments[len(segments) - 1], view[2]))


def _search(hints: "list[Hint]", view: "LogView[Segment]", offset: int) -> "Place | None":
    """Return where the first batch whose last offset is >= ``offset`` begins."""
    hinted_offset, segment, position = hints[offset % HINTS]
    if hinted_offset != offset or segment is None:
        return _find_place(view, offset)
    if position < _end_of(view, segment):
        return segment, position
    return _next_place(view, segment)  # the log has rolled since then


def find_position(fd: int, position: int, end: int, offset: int) -> int:
    """Return where the first batch begins whose last offset is at or above ``offset``, else -1.

    ``position`` is the start of a batch.

    Raises:
        CorruptMessage: No batch begins where one has to.
    """
    while end - position >= _HEADER_SIZE:
        chunk = pread(fd, min(LOOKUP_CHUNK, end - position), position)
        if len(chunk) < _HEADER_SIZE:
            return -1
        found = find_batch(chunk, 0, len(chunk), offset)
        at = found if found >= 0 else ~found
        if found >= 0 or at == 0:
            size = _size_at(chunk, at, position)
            return position + at if position + at + size <= end else -1
        position += at
    return -1


def find_cut(
    segment: "Segment", position: int, max_bytes: int, limit: int, at_least_one: bool
) -> tuple[int, int]:
    """Return the end and the next offset, as `ReadableSegment.cut` does.

    Raises:
        CorruptMessage: No batch begins where one has to.
    """
    fd = segment.file().fileno()
    bound = limit if max_bytes > limit - position else position + max_bytes
    chunk = pread(fd, _HEADER_SIZE, position)
    start = position + _size_at(chunk, 0, position)
    if start > bound and not at_least_one:
        return position, _base_offset_at(chunk, 0)
    if bound - start < _HEADER_SIZE:  # a large batch: there is nothing to search
        return start, _next_offset_at(chunk, 0)
    target = min(bound, limit - 1)
    if target - start > _NEAR:
        start = max(start, segment.start_before_position(target))
    while True:
        chunk = pread(fd, min(LOOKUP_CHUNK, limit - start), start)
        at = find_end(chunk, 0, target - start)
        if len(chunk) - at < _HEADER_SIZE:
            start += at
            at = 0
            chunk = pread(fd, _HEADER_SIZE, start)
        size = _size_at(chunk, at, start)
        if start + at + size > target:
            break
        start += at + size
    if bound == limit:
        return start + at + size, _next_offset_at(chunk, at)
    return start + at, _base_offset_at(chunk, at)


def count_up_to(data: "bytes | bytearray", size: int, key: int, width: int, at: int) -> int:
    """Count the entries of ``size`` bytes whose field is at most ``key``, as they are in order.

    The field is ``width`` bytes, ``at`` bytes into the entry. The data may be growing, so no buffer
    of it is kept, which would block its writer.
    """
    octets = data
    low = 0
    high = len(data) // size
    while low < high:
        middle = (low + high) >> 1
        if width == 4:  # an int32
            value = read_int32(octets, middle * size + at)  # type: ignore[arg-type]
        else:
            value = read_int64(octets, middle * size + at)  # type: ignore[arg-type]
        if value <= key:
            low = middle + 1
        else:
            high = middle
    return low


def position_before(data: bytearray, key: int, at: int) -> int:
    """Return the position in the last entry of an offset index whose field is at most ``key``.

    The fields are the offset relative to the segment, at 0, and the position, at 4. Below the first
    entry the answer is 0, the segment's start.
    """
    count = count_up_to(data, 8, key, 4, at)
    octets = data
    return read_int32(octets, count * 8 - 4) if count else 0  # type: ignore[arg-type]


def _cut_at(segment: "Segment", limit: int, upto: int) -> tuple[int, int]:
    """Return the end position and the next offset of what lies below ``upto`` in a segment."""
    position = segment.find(upto)
    return (limit if position < 0 or position >= limit else position), upto


def _end_of(view: "LogView[Segment]", segment: "Segment") -> int:
    """Return the position at which the bytes of a segment end for readers of this view."""
    segments = view[1]
    return view[2] if segment is segments[len(segments) - 1] else segment.size


def _find_place(view: "LogView[Segment]", offset: int) -> "Place | None":
    """Return where the first batch with a last offset >= ``offset`` begins; None: nowhere.

    For an offset in a gap that compaction left it is the next batch, in this segment or a later
    one.
    """
    segments = view[1]
    for index in range(find_index(segments, offset), len(segments)):
        segment = segments[index]
        position = segment.find(offset)
        if position >= 0:
            if position >= _end_of(view, segment):
                return None  # appended after this view was taken
            return segment, position
    return None


def _next_place(view: "LogView[Segment]", segment: "Segment") -> "Place | None":
    """Return the start of the next segment after ``segment`` that has bytes; None: nowhere."""
    segments = view[1]
    for later in segments[find_index(segments, segment.base_offset) + 1 :]:
        if _end_of(view, later):
            return later, 0
    return None


def _size_between(view: "LogView[Segment]", start: "Place", end: "Place") -> int:
    """Return the bytes from one place to another, in whole segments in between."""
    segments = view[1]
    first = find_index(segments, start[0].base_offset)
    last = find_index(segments, end[0].base_offset)
    if first == last:
        return max(0, end[1] - start[1])
    return sum([segment.size for segment in segments[first:last]]) - start[1] + end[1]


def _size_at(chunk: bytes, at: int, position: int) -> int:
    """Return the size of the batch at ``at``; ``position`` is that of the chunk."""
    if len(chunk) - at < _HEADER_SIZE:
        raise CorruptMessage(f"the log ends inside the batch at position {position + at}")
    octets = inside(chunk)
    length = read_int32(octets, at + 8)
    magic = octets[at + 16]
    if length < _HEADER_SIZE - _LOG_OVERHEAD or magic != _MAGIC:
        raise CorruptMessage(
            f"no batch of magic {_MAGIC} at position {position + at}: length {length}, "
            f"magic {magic}"
        )
    return length + _LOG_OVERHEAD


def _base_offset_at(chunk: bytes, at: int) -> int:
    return read_int64(inside(chunk), at)


def _next_offset_at(chunk: bytes, at: int) -> int:
    """Return the offset after a batch, even if it does not fit 64 bits."""
    first: int = read_int64(inside(chunk), at)
    delta: int = read_int32(inside(chunk), at + 23)
    return first + delta + 1
