"""Lookups in the bytes of a segment: a batch by its offset, the end of what may be read, an entry.

Batches are found by a short walk over their headers, a few KiB at a time and never past the end of
what may be read. Nothing here checks a CRC.
"""

from typing import TYPE_CHECKING

from siltstone.protocol.core._format cimport (
    HEADER_SIZE, LAST_OFFSET_DELTA_POSITION, LENGTH_POSITION, LOG_OVERHEAD, MAGIC, MAGIC_POSITION,
    read_int32, read_int64,
)
from siltstone.protocol.core._records cimport find_batch, find_end
from siltstone.storage.files._disk cimport read_at

from siltstone.protocol.errors import CorruptMessage

if TYPE_CHECKING:
    from siltstone.storage.segment.readable import ReadableSegment

ctypedef const unsigned char* Octets

# Bytes that a lookup reads at once: the usual distance of two index entries, and one more batch.
cdef long long CHUNK = 8192
# A distance up to which a lookup walks from header to header without the index.
cdef long long NEAR = 64 * 1024


def find_position(int fd, long long position, long long end, long long offset) -> int:
    """Return where the first batch begins whose last offset is at or above ``offset``, else -1.

    ``position`` is the start of a batch. A batch that ends after ``end`` is a torn tail: -1.

    Raises:
        CorruptMessage: No batch begins where one has to.
    """
    cdef bytes chunk
    cdef Py_ssize_t found, at
    while end - position >= HEADER_SIZE:
        chunk = read_at(fd, min(CHUNK, end - position), position)
        if len(chunk) < HEADER_SIZE:
            return -1
        found = find_batch(chunk, 0, len(chunk), offset)
        at = found if found >= 0 else ~found
        if found >= 0 or at == 0:
            position += at
            return position if position + size_at(chunk, at, position) <= end else -1
        position += at
    return -1


def find_cut(
    segment: ReadableSegment, long long position, long long max_bytes, long long limit,
    bint at_least_one,
) -> tuple[int, int]:
    """Return the end and the next offset, as `ReadableSegment.cut` does.

    Raises:
        CorruptMessage: No batch begins where one has to, or the first or the last of the result
            ends after ``limit``.
    """
    cdef int fd = segment.file().fileno()
    cdef long long bound = limit if max_bytes > limit - position else position + max_bytes
    cdef bytes chunk = read_at(fd, HEADER_SIZE, position)
    cdef long long start = end_within(position, size_at(chunk, 0, position), limit)
    cdef long long target, size
    cdef Py_ssize_t at
    if start > bound and not at_least_one:
        return position, base_offset_at(chunk, 0)
    if bound - start < HEADER_SIZE:  # no second header fits: the first batch is large
        return start, next_offset_at(chunk, 0)
    target = min(bound, limit - 1)
    if target - start > NEAR:
        start = max(start, <long long> segment.start_before_position(target))
    while True:
        chunk = read_at(fd, min(CHUNK, limit - start), start)
        at = find_end(chunk, 0, target - start)
        if len(chunk) - at < HEADER_SIZE:
            start += at
            at = 0
            chunk = read_at(fd, HEADER_SIZE, start)
        size = size_at(chunk, at, start + at)
        if start + at + size > target:
            break
        start += at + size
    if bound == limit:
        return end_within(start + at, size, limit), next_offset_at(chunk, at)
    return start + at, base_offset_at(chunk, at)


cpdef Py_ssize_t count_up_to(
    data: bytes | bytearray, Py_ssize_t size, long long key, int width, int at
) except -1:
    """Count the entries of ``size`` bytes whose field is at most ``key``; they must be in order.

    The field has ``width`` bytes and begins ``at`` bytes into the entry. The data may grow, so no
    buffer of it is kept: a buffer would block the writer.
    """
    cdef Octets octets = data
    cdef Py_ssize_t low = 0, high = len(data) // size, middle
    cdef long long value
    while low < high:
        middle = (low + high) >> 1
        if width == 4:  # an int32
            value = read_int32(octets, middle * size + at)
        else:
            value = read_int64(octets, middle * size + at)
        if value <= key:
            low = middle + 1
        else:
            high = middle
    return low


def position_before(data: bytearray, long long key, int at) -> int:
    """Return the position in the last entry of an offset index whose field is at most ``key``.

    ``at`` selects the field: 0 is the offset relative to the segment, 4 is the position. Before the
    first entry the result is 0, the segment's start.
    """
    cdef Py_ssize_t count = count_up_to(data, 8, key, 4, at)
    cdef Octets octets = data
    return read_int32(octets, count * 8 - 4) if count else 0


cdef long long size_at(bytes chunk, Py_ssize_t at, long long position) except -1:
    """Return the size of the batch at ``at``; ``position`` is its position in the segment."""
    cdef Octets octets = chunk
    cdef long long length
    cdef int magic
    if len(chunk) - at < HEADER_SIZE:
        raise CorruptMessage(f"the log ends inside the batch at position {position}")
    length = read_int32(octets, at + LENGTH_POSITION)
    magic = octets[at + MAGIC_POSITION]
    if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC:
        raise CorruptMessage(
            f"no batch of magic {MAGIC} at position {position}: length {length}, magic {magic}"
        )
    return length + LOG_OVERHEAD


cdef long long end_within(long long position, long long size, long long end) except -1:
    """Return where a batch of ``size`` bytes at ``position`` ends: at ``end`` at the latest."""
    if position + size > end:
        raise CorruptMessage(f"the log ends inside the batch at position {position}")
    return position + size


cdef object base_offset_at(bytes chunk, Py_ssize_t at):
    return read_int64(<Octets> chunk, at)


cdef object next_offset_at(bytes chunk, Py_ssize_t at):
    """Return the offset after a batch, even if the offset does not fit into 64 bits."""
    cdef object first = read_int64(<Octets> chunk, at)
    return first + read_int32(<Octets> chunk, at + LAST_OFFSET_DELTA_POSITION) + 1
