"""Finds the bytes of a fetch: turns an offset into a range of a file.

A consumer's next fetch begins where its last one ended, so the reader remembers where reads ended,
and a consumer at the log's end never searches. Others use the offset index and a short walk over
batch headers (`storage.segment.lookup`).
"""

from typing import TYPE_CHECKING

cimport cython

from siltstone.storage.log.end cimport LogEnd

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.parts import FileSlice
from siltstone.storage.segment.readable import find_index

if TYPE_CHECKING:
    from siltstone.storage.log.epochs import LeaderEpochs
    from siltstone.storage.log.log import Log

cdef enum:
    HINTS = 17  # a prime: batches of a power of two records do not share a slot


@cython.final
cdef class LogRead:
    """Whole batches of one segment, ``slice``, as a range of its file.

    ``next_offset`` is one past the last offset in the range, or more if compaction left a gap.
    """


@cython.final
@cython.freelist(32)
cdef class Place:
    """The place of the batch with ``offset``, or of the next one; it may not be written yet."""

    cdef long long offset
    cdef object segment
    cdef long long position


cdef Place place_of(long long offset, object segment, long long position):
    cdef Place place = Place.__new__(Place)
    place.offset = offset
    place.segment = segment
    place.position = position
    return place


cdef Place NOWHERE = place_of(-1, None, 0)


@cython.final
cdef class LogReader:
    """Reads one log, and remembers where the last few reads ended.

    Any thread may read; a lost hint costs a search at worst. The methods get the `Log` because it
    creates the errors.
    """

    def __init__(self, LogEnd end):
        self.end = end
        self.forget()

    def forget(self):
        """Drop all hints, since the log drops segments to which hints lead.

        A read that has begun continues with the hints that it has.
        """
        self._hints = [NOWHERE] * HINTS

    cpdef LogRead read(
        self, object log: Log, long long offset, long long max_bytes, long long upto,
        bint at_least_one,
    ):  # -> LogRead | None
        """Return whole batches from ``offset`` on; None if the log has no such batch yet.

        ``upto`` is exclusive: the high watermark, or the last stable offset for read_committed.
        With ``at_least_one`` the first batch may exceed ``max_bytes``. The range may begin with
        records below ``offset``, and ends at the end of its segment at the latest.

        Raises:
            NotLeaderOrFollower: The log is closed.
            UnknownTopicOrPartition: Its topic was deleted.
            OffsetOutOfRange: ``offset`` is below the log start offset or above the log end offset.
            KafkaStorageError: A file with the offset cannot be read.
            CorruptMessage: The file has no batch where one must begin.
        """
        cdef LogEnd end = self.end
        cdef tuple view
        cdef long long end_offset
        if end.is_closed:
            raise log.absence()
        view = end.view
        end_offset = view[0]
        if not end.log_start_offset <= offset <= end_offset:
            raise log.out_of_range(offset, end_offset)
        try:
            # The hints are passed as an argument: another thread may replace them.
            return read_view(self._hints, view, offset, max_bytes, upto, at_least_one)
        except OSError as error:
            raise log.unreadable(error) from error
        except CorruptMessage as error:
            raise log.damaged(error) from error

    def available_bytes(self, log: Log, long long offset, long long upto) -> int:
        """Return the bytes from ``offset``'s batch to ``upto``, exclusive, over all segments.

        Raises:
            KafkaError: As `read` does, except that an offset outside of the log is no error.
        """
        cdef LogEnd end = self.end
        if end.is_closed:
            raise log.absence()
        try:
            return count_bytes(self._hints, end.view, offset, upto)
        except OSError as error:
            raise log.unreadable(error) from error
        except CorruptMessage as error:
            raise log.damaged(error) from error


cdef LogRead read_view(
    list hints, tuple view, long long offset, long long max_bytes, long long upto,
    bint at_least_one,
):
    """Read as `LogReader.read` does; ``offset`` is within the log."""
    cdef long long end_offset, end_position, limit, next_offset
    cdef tuple segments
    cdef Place place = hints[offset % HINTS]
    cdef bint is_hinted = place.offset == offset
    cdef LogRead read
    end_offset, segments, end_position = view
    active = segments[len(segments) - 1]
    if offset >= upto or offset >= end_offset:
        if offset == end_offset and not (is_hinted and place.segment is active):
            hints[offset % HINTS] = place_of(offset, active, end_position)
        return None
    if not is_hinted or place.segment is not active or place.position >= end_position:
        place = search(hints, view, offset)
        if place is None:
            return None
    segment = place.segment
    if segment is active:
        limit = end_position
        next_offset = end_offset
    else:
        limit = segment.size
        next_offset = segments[find_index(segments, segment.base_offset) + 1].base_offset
    if upto < next_offset:
        limit = limit_below(segment, limit, upto)
        next_offset = upto
    if limit - place.position > max_bytes:
        limit, next_offset = segment.cut(
            place.position, max_bytes, limit, at_least_one=at_least_one
        )
    if limit <= place.position:
        return None
    hints[next_offset % HINTS] = place_of(next_offset, segment, limit)
    read = LogRead.__new__(LogRead)
    read.slice = FileSlice(segment.file(), place.position, limit - place.position)
    read.next_offset = next_offset
    read.segment = segment
    return read


cdef object count_bytes(list hints, tuple view, long long offset, long long upto):
    """Do the work of `LogReader.available_bytes`."""
    cdef Place start, end = None
    cdef long long end_offset, end_position
    cdef tuple segments
    end_offset, segments, end_position = view
    if offset >= upto or offset >= end_offset:
        return 0
    start = search(hints, view, offset)
    if start is None:
        return 0
    if upto < end_offset:
        end = search(hints, view, upto)
    if end is None:
        end = place_of(upto, segments[len(segments) - 1], end_position)
    return size_between(segments, start, end)


cdef Place search(list hints, tuple view, long long offset):
    """Return where the first batch whose last offset is >= ``offset`` begins."""
    cdef Place hint = hints[offset % HINTS]
    if hint.offset != offset or hint.segment is None:
        return find_place(view, offset)
    if hint.position < end_of(view, hint.segment):
        return hint
    return next_place(view, hint.segment, offset)  # the log has rolled since the hint


cdef long long limit_below(object segment, long long limit, long long upto) except -1:
    """Return the position in a segment where the batches below ``upto`` end."""
    cdef long long position = segment.find(upto)
    return limit if position < 0 or position >= limit else position


cdef long long end_of(tuple view, object segment) except -1:
    """Return the position at which the bytes of a segment end for readers of this view."""
    cdef tuple segments = view[1]
    return view[2] if segment is segments[len(segments) - 1] else segment.size


cdef Place find_place(tuple view, long long offset):
    """Return where the first batch with a last offset >= ``offset`` begins; None without one.

    For an offset in a gap that compaction left, this is the next batch, in the same segment or a
    later one.
    """
    cdef tuple segments = view[1]
    cdef Py_ssize_t index
    cdef long long position
    for index in range(find_index(segments, offset), len(segments)):
        segment = segments[index]
        position = segment.find(offset)
        if position >= 0:
            if position >= end_of(view, segment):
                return None  # appended after this view was taken
            return place_of(offset, segment, position)
    return None


cdef Place next_place(tuple view, object segment, long long offset):
    """Return the start of the next segment after ``segment`` that has bytes; None without one."""
    cdef tuple segments = view[1]
    for later in segments[find_index(segments, segment.base_offset) + 1:]:
        if end_of(view, later):
            return place_of(offset, later, 0)
    return None


cdef object size_between(tuple segments, Place start, Place end):
    """Return the number of bytes from one place to another, over all segments in between."""
    cdef Py_ssize_t first = find_index(segments, start.segment.base_offset)
    cdef Py_ssize_t last = find_index(segments, end.segment.base_offset)
    if first == last:
        return max(0, end.position - start.position)
    return sum([each.size for each in segments[first:last]]) - start.position + end.position


cdef class LogParts:
    """The parts of a `Log` that a request of many partitions looks at, as fields of C.

    This is the base class of `Log` and not a member: a look-up by name for each partition is a
    tenth of such a request (docs/decisions/0015-compiled-bases.md). Each sender of a read adds to
    ``bytes_out``.
    """
