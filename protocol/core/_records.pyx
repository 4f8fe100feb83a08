"""Frames, batches, records, segments and journals; `tests/reference/records.py` explains each step.

The bytes come from the wire or from a disk: no length, count or number in them is trusted before it
was compared with the end of the buffer.
"""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN
from libc.string cimport memcmp, memcpy

from siltstone.protocol.core._format cimport *

from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import describe_bad_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

ctypedef const unsigned char* Octets

prepare()


# Frames ------------------------------------------------------------------------------------------

cpdef Py_ssize_t next_frame(
    object buffer: Buffer, Py_ssize_t position, Py_ssize_t filled, long long limit
) except -1:
    """Return the end of the frame at ``position``; see `reference.records.next_frame`."""
    cdef Py_buffer view
    cdef long long size = 0
    if filled - position < SIZE_PREFIX:
        return position + SIZE_PREFIX
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    if position >= 0 and filled <= view.len:
        size = read_int32(<Octets> view.buf, position)
    PyBuffer_Release(&view)
    if 0 < size <= limit:
        return position + SIZE_PREFIX + size
    prefix = bytes(memoryview(buffer)[position:position + SIZE_PREFIX])
    raise ProtocolError(describe_bad_size(size, prefix, limit))


# Checksums ---------------------------------------------------------------------------------------

def crc32c(object buffer: Buffer, unsigned int value=0) -> int:
    """Return the CRC-32C of the buffer, continued from ``value``; 0 begins a new one."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    with nogil:
        value = continue_checksum(value, <Octets> view.buf, 0, view.len)
    PyBuffer_Release(&view)
    return value


def crc32c_by_tables(object buffer: Buffer) -> int:
    """Return the CRC-32C, computed without the processor's instruction for it."""
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    cdef unsigned int value = checksum_software(<Octets> view.buf, 0, view.len)
    PyBuffer_Release(&view)
    return value


# Judging batches ---------------------------------------------------------------------------------

cdef struct Verdict:
    long long code
    long long index  # the index of the record that the verdict is about
    long long timestamp  # the largest timestamp, not below -1


cdef inline Verdict verdict_of(long long code, long long index, long long timestamp) noexcept nogil:
    cdef Verdict verdict
    verdict.code = code
    verdict.index = index
    verdict.timestamp = timestamp
    return verdict


def check_batch(
    object buffer: Buffer, long long low, long long high, bint keys_required
) -> tuple[int, int, int]:
    """Check a buffer that is exactly one batch; see `reference.records.check_batch`."""
    cdef Py_buffer view
    cdef Verdict verdict = verdict_of(BAD_LENGTH, 0, NO_TIMESTAMP)
    cdef Header header
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    if view.len >= HEADER_SIZE:
        header = read_header(<Octets> view.buf)
        if header.length == view.len - LOG_OVERHEAD:
            verdict = check_content(
                <Octets> view.buf, view.len, &header, low, high, keys_required
            )
    PyBuffer_Release(&view)
    return verdict.code, verdict.index, verdict.timestamp


cpdef Plain take_plain(
    object buffer: Buffer, long long low, long long high, bint keys_required, int flags, int codecs
) except *:  # -> Any
    """Return the numbers of a common batch; see `reference.records.take_plain`."""
    cdef Py_buffer view
    cdef Verdict verdict
    cdef Header header
    cdef Plain plain = Plain(0, 0, 0, 0, 0, 0, 0)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    if view.len > HEADER_SIZE:
        header = read_header(<Octets> view.buf)
        if is_plain(&header, view.len, flags, codecs, keys_required, low, high):
            verdict = check_content(
                <Octets> view.buf, view.len, &header, low, high, keys_required
            )
            if verdict.code == FINE and verdict.timestamp == header.max_timestamp:
                plain = Plain(
                    header.count,
                    header.last_offset_delta,
                    header.attributes,
                    header.max_timestamp,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                )
    PyBuffer_Release(&view)
    return plain


def walk_records(
    object buffer: Buffer, Py_ssize_t start, Py_ssize_t end, long long count,
    long long base_timestamp, long long low, long long high, bint keys_required,
) -> tuple[int, int, int]:
    """Check ``count`` records that fill a range; see `reference.records.walk_records`."""
    cdef Py_buffer view
    cdef Verdict verdict
    cdef Octets data
    take_range(buffer, &view, start, end)
    data = <Octets> view.buf
    if end - start >= UNLOCKED_BYTES:
        with nogil:
            verdict = walk(data, start, end, count, base_timestamp, low, high, keys_required)
    else:
        verdict = walk(data, start, end, count, base_timestamp, low, high, keys_required)
    PyBuffer_Release(&view)
    return verdict.code, verdict.index, verdict.timestamp


def list_bad_records(
    object buffer: Buffer, Py_ssize_t start, Py_ssize_t end, long long count,
    long long base_timestamp, long long low, long long high, bint keys_required, Py_ssize_t most,
) -> list[tuple[int, int, int]]:
    """List the records that a walk flagged; see `reference.records.list_bad_records`."""
    cdef Py_buffer view
    cdef Record record
    cdef long long index, timestamp
    cdef list bad = []
    take_range(buffer, &view, start, end)
    try:
        for index in range(count):
            if len(bad) == most or read_record(<Octets> view.buf, start, end, &record) < 0:
                break
            start = record.stop
            timestamp = base_timestamp + record.timestamp_delta
            if keys_required and record.key_size < 0:
                bad.append((index, NULL_KEY, timestamp))
            elif timestamp != NO_TIMESTAMP and (timestamp < low or timestamp > high):
                bad.append((index, TIMESTAMP_OUTSIDE, timestamp))
    finally:
        PyBuffer_Release(&view)
    return bad


cdef int take_range(object buffer, Py_buffer* view, Py_ssize_t start, Py_ssize_t end) except -1:
    """Acquire a buffer that must contain the range; the caller releases the buffer."""
    PyObject_GetBuffer(buffer, view, PyBUF_SIMPLE)
    if start < 0 or start > end or end > view.len:
        PyBuffer_Release(view)
        raise ValueError(f"bytes {start} to {end} are not inside the buffer")
    return 0


cdef inline bint is_plain(Header* header, Py_ssize_t size, int flags, int codecs, bint keys_required, long long low, long long high) noexcept nogil:
    """Check a header: base offset 0, an allowed codec, allowed flags, and a count that fits."""
    if (
        header.base_offset != 0
        or header.length != size - LOG_OVERHEAD
        or header.magic != MAGIC
        or header.attributes & ~(flags | CODEC_MASK)
        or not codecs >> (header.attributes & CODEC_MASK) & 1
        or header.count != header.last_offset_delta + 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
    ):
        return False
    if header.attributes & CODEC_MASK == 0:
        return True
    return not keys_required and low <= header.base_timestamp <= header.max_timestamp <= high


cdef inline Verdict check_content(Octets data, Py_ssize_t size, Header* header, long long low, long long high, bint keys_required) noexcept:
    """Check the CRC of a whole batch, and its records unless they are compressed."""
    cdef Verdict verdict
    if size < UNLOCKED_BYTES:
        return judge(data, size, header, low, high, keys_required)
    with nogil:
        verdict = judge(data, size, header, low, high, keys_required)
    return verdict


cdef inline Verdict judge(Octets data, Py_ssize_t size, Header* header, long long low, long long high, bint keys_required) noexcept nogil:
    if checksum(data, ATTRIBUTES_POSITION, size) != header.crc:
        return verdict_of(WRONG_CRC, 0, NO_TIMESTAMP)
    if header.attributes & CODEC_MASK:
        return verdict_of(FINE if header.count > 0 else NO_RECORDS, 0, header.max_timestamp)
    return walk(
        data, HEADER_SIZE, size, header.count, header.base_timestamp, low, high, keys_required
    )


cdef Verdict walk(
    Octets data, Py_ssize_t position, Py_ssize_t end, long long count, long long base_timestamp,
    long long low, long long high, bint keys_required,
) noexcept nogil:
    """Compare deltas, not timestamps: no record can make a sum overflow."""
    cdef long long low_delta = difference(low, base_timestamp)
    cdef long long high_delta = difference(high, base_timestamp)
    cdef long long none_delta = NO_TIMESTAMP - base_timestamp
    cdef long long smallest = INT64_MAX
    cdef long long largest = INT64_MIN
    cdef long long flags = FINE
    cdef long long index, delta, fault
    cdef Record record
    if count < 1:
        return verdict_of(NO_RECORDS, 0, NO_TIMESTAMP)
    for index in range(count):
        if position >= end:
            return verdict_of(RECORDS_MISSING, index, NO_TIMESTAMP)
        fault = read_record(data, position, end, &record)
        if fault < 0:
            return verdict_of(fault, index, NO_TIMESTAMP)
        position = record.stop
        delta = record.timestamp_delta
        if record.offset_delta != index:
            flags |= UNEVEN_OFFSETS
        if record.attributes != 0 or (index == 0 and delta != 0):
            flags |= NEEDS_REWRITE
        if record.key_size < 0 and keys_required:
            flags |= NULL_KEY
        if (delta < low_delta or delta > high_delta) and delta != none_delta:
            flags |= TIMESTAMP_OUTSIDE
        smallest = min(smallest, delta)
        largest = max(largest, delta)
    if position != end:
        return verdict_of(BYTES_LEFT, count, NO_TIMESTAMP)
    if leaves_64_bits(base_timestamp, smallest) or leaves_64_bits(base_timestamp, largest):
        return verdict_of(BAD_TIMESTAMP, 0, NO_TIMESTAMP)
    return verdict_of(flags, 0, max(base_timestamp + largest, NO_TIMESTAMP))


cdef long long difference(long long a, long long b) noexcept nogil:
    """Return a - b, limited to the range of 64 bits."""
    if is_far(a, b):
        return INT64_MIN if b > 0 else INT64_MAX
    return a - b


# Writing batches ---------------------------------------------------------------------------------

def rewrite_records(
    object buffer: Buffer, Py_ssize_t start, Py_ssize_t end, long long count, object output: Buffer
) -> int:
    """Rewrite records with offsets from 0; see `reference.records.rewrite_records`."""
    cdef Py_buffer view, target
    cdef Py_ssize_t size
    take_range(buffer, &view, start, end)
    try:
        PyObject_GetBuffer(output, &target, PyBUF_WRITABLE)
    except:
        PyBuffer_Release(&view)
        raise
    with nogil:
        size = rewrite(
            <Octets> view.buf, start, end, count, <unsigned char*> target.buf, target.len
        )
    PyBuffer_Release(&target)
    PyBuffer_Release(&view)
    return size


cdef Py_ssize_t rewrite(
    Octets data, Py_ssize_t position, Py_ssize_t end, long long count, unsigned char* output,
    Py_ssize_t room,
) noexcept nogil:
    cdef Py_ssize_t size = 0
    cdef Py_ssize_t at, length
    cdef long long first = 0
    cdef long long index, delta, fault
    cdef Record record
    for index in range(count):
        fault = read_record(data, position, end, &record)
        if fault < 0:
            return fault
        if index == 0:
            first = record.timestamp_delta
        if is_far(record.timestamp_delta, first):
            return -1
        delta = record.timestamp_delta - first
        length = 1 + zigzag_size(delta) + zigzag_size(index) + record.stop - record.tail
        position = record.stop
        at = size
        size += zigzag_size(length) + length
        if size <= room:
            at = write_zigzag(output, at, length)
            output[at] = 0
            at = write_zigzag(output, at + 1, delta)
            at = write_zigzag(output, at, index)
            memcpy(output + at, data + record.tail, record.stop - record.tail)
    return size


cpdef bytearray pack_rows(
    object rows: Sequence[tuple[bytes, bytes | None]], long long timestamp, long long producer_id,
    long long producer_epoch,
):
    """Return one uncompressed batch of keys and values; see `reference.records.pack_rows`."""
    cdef Header header
    cdef Py_ssize_t size = HEADER_SIZE
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t at, body
    cdef bytes key, value
    cdef bytearray batch
    cdef unsigned char* output
    for key, value in rows:
        body = body_size(count, key, value)
        size += zigzag_size(body) + body
        count += 1
    batch = PyByteArray_FromStringAndSize(NULL, size)
    output = <unsigned char*> PyByteArray_AS_STRING(batch)
    at = HEADER_SIZE
    count = 0
    for key, value in rows:
        at = write_zigzag(output, at, body_size(count, key, value))
        output[at] = 0
        at = write_zigzag(output, at + 1, 0)
        at = write_zigzag(output, at, count)
        at = write_field(output, at, key)
        at = write_field(output, at, value)
        at = write_zigzag(output, at, 0)
        count += 1
    header.base_offset = 0
    header.length = size - LOG_OVERHEAD
    header.leader_epoch = NO_LEADER_EPOCH
    header.magic = MAGIC
    header.attributes = TRANSACTIONAL if producer_id >= 0 else 0
    header.last_offset_delta = count - 1
    header.base_timestamp = timestamp
    header.max_timestamp = timestamp
    header.producer_id = producer_id
    header.producer_epoch = producer_epoch
    header.base_sequence = NO_SEQUENCE
    header.count = count
    write_header(output, header)
    write_int32(output, CRC_POSITION, batch_checksum(output, header.length))
    return batch


cdef inline Py_ssize_t body_size(Py_ssize_t delta, bytes key, bytes value):
    """Return a record's size without its length; attributes, time and header count take 3 bytes."""
    return 3 + zigzag_size(delta) + field_size(key) + field_size(value)


cdef inline Py_ssize_t field_size(bytes field):
    if field is None:
        return 1
    return zigzag_size(PyBytes_GET_SIZE(field)) + PyBytes_GET_SIZE(field)


cdef inline Py_ssize_t write_field(unsigned char* output, Py_ssize_t at, bytes field):
    if field is None:
        return write_zigzag(output, at, -1)
    at = write_zigzag(output, at, PyBytes_GET_SIZE(field))
    memcpy(output + at, PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field))
    return at + PyBytes_GET_SIZE(field)


# Segments ----------------------------------------------------------------------------------------

cpdef Py_ssize_t find_batch(
    object buffer: Buffer, Py_ssize_t start, Py_ssize_t end, long long offset
) except? -1:
    """Return the first batch that ends at an offset or above; see `reference.records.find_batch`."""
    cdef Py_buffer view
    cdef Octets data
    cdef Py_ssize_t position = max(start, 0)
    cdef long long length
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    data = <Octets> view.buf
    end = min(end, view.len)
    while position + HEADER_SIZE <= end:
        length = read_int32(data, position + LENGTH_POSITION)
        if length < MIN_LENGTH:
            break
        if sum_reaches(
            read_int64(data, position),
            read_int32(data, position + LAST_OFFSET_DELTA_POSITION),
            offset,
        ):
            PyBuffer_Release(&view)
            return position
        position += length + LOG_OVERHEAD
    PyBuffer_Release(&view)
    return -1 - position


cpdef Py_ssize_t find_end(object buffer: Buffer, Py_ssize_t start, Py_ssize_t end) except -1:
    """Return the end of the last whole batch; see `reference.records.find_end`."""
    cdef Py_buffer view
    cdef Py_ssize_t position = max(start, 0)
    cdef long long length
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    end = min(end, view.len)
    while position + HEADER_SIZE <= end:
        length = read_int32(<Octets> view.buf, position + LENGTH_POSITION)
        if length < MIN_LENGTH or length + LOG_OVERHEAD > end - position:
            break
        position += length + LOG_OVERHEAD
    PyBuffer_Release(&view)
    return position


cdef struct IndexEntry:
    long long last_offset
    long long position
    long long max_timestamp
    long long max_timestamp_offset


cdef struct Notable:
    Py_ssize_t position  # the position in the chunk
    bint is_kept  # kept even if its producer sent more batches after it


cdef struct Seen:
    long long producer_id
    int batches


cdef enum:
    SEEN_PRODUCERS = 256  # entries of a table; a power of two


@cython.final
cdef class SegmentScan:
    """Walks a segment from its start, chunk by chunk; see `reference.records.SegmentScan`."""

    cdef readonly long long base_offset, batches, first_timestamp, indexed, last_offset
    cdef readonly long long leader_epoch, max_timestamp, max_timestamp_offset, position
    cdef readonly Py_ssize_t needed
    cdef readonly int status
    cdef long long interval
    cdef Py_ssize_t entry_room, notable_room, entry_count, notable_count
    cdef IndexEntry* entries
    cdef Notable* notable
    cdef Seen[SEEN_PRODUCERS] seen

    def __cinit__(self, long long base_offset, long long interval, Py_ssize_t entry_room=1024, Py_ssize_t notable_room=4096):
        self.base_offset = self.max_timestamp_offset = base_offset
        self.last_offset = base_offset - 1
        self.interval = interval
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.leader_epoch = NO_LEADER_EPOCH
        self.entry_room = entry_room
        self.notable_room = notable_room
        self.entries = <IndexEntry*> PyMem_Malloc(max(entry_room, 1) * sizeof(IndexEntry))
        self.notable = <Notable*> PyMem_Malloc(max(notable_room, 1) * sizeof(Notable))
        if self.entries == NULL or self.notable == NULL:
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.entries)
        PyMem_Free(self.notable)

    def scan(self, object chunk: Buffer) -> tuple[list[tuple[int, int, int, int]], list[int]]:
        """Walk the whole batches of a chunk; see `reference.records.SegmentScan.scan`."""
        cdef Py_buffer view
        cdef long long origin = self.position
        cdef Py_ssize_t first, index
        cdef IndexEntry* entry
        PyObject_GetBuffer(chunk, &view, PyBUF_SIMPLE)
        with nogil:
            self.walk(<Octets> view.buf, view.len)
            first = self.thin(<Octets> view.buf)
        PyBuffer_Release(&view)
        entries = []
        for index in range(self.entry_count):
            entry = &self.entries[index]
            entries.append(
                (entry.last_offset, entry.position, entry.max_timestamp, entry.max_timestamp_offset)
            )
        notable = [origin + self.notable[index].position for index in range(first, self.notable_count)]
        return entries, notable

    cdef void walk(self, Octets data, Py_ssize_t size) noexcept nogil:
        cdef long long origin = self.position
        cdef Py_ssize_t position = 0
        cdef long long last
        cdef Header header
        cdef IndexEntry* entry
        cdef Notable* notable
        self.entry_count = self.notable_count = 0
        while read_whole(data + position, size - position, &header, &self.status, &self.needed):
            if self.entry_count == self.entry_room or self.notable_count == self.notable_room:
                self.status = FULL
                break
            if batch_checksum(data + position, header.length) != header.crc:
                self.status = WRONG_CRC
                break
            if (
                header.base_offset < self.base_offset
                or header.base_offset >= INT64_MAX - max(header.last_offset_delta, 0)
            ):
                self.status = OFFSET_OVERFLOW
                break
            last = header.base_offset + header.last_offset_delta
            if max(header.base_offset, last) - self.base_offset > INT32_MAX:
                self.status = OFFSET_OVERFLOW
                break
            if header.last_offset_delta < 0 or last <= self.last_offset:
                self.status = OFFSET_BACKWARDS
                break
            self.last_offset = last
            if self.batches == 0:
                self.first_timestamp = header.max_timestamp
            self.batches += 1
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = last
            if origin + position - self.indexed > self.interval:
                self.indexed = origin + position
                entry = &self.entries[self.entry_count]
                self.entry_count += 1
                entry.last_offset = last
                entry.position = self.indexed
                entry.max_timestamp = self.max_timestamp
                entry.max_timestamp_offset = self.max_timestamp_offset
            notable = &self.notable[self.notable_count]
            notable.position = position
            notable.is_kept = (
                header.leader_epoch > self.leader_epoch
                or header.attributes & (TRANSACTIONAL | CONTROL)
            )
            if notable.is_kept or header.producer_id >= 0:
                self.notable_count += 1
            self.leader_epoch = max(self.leader_epoch, header.leader_epoch)
            position += header.length + LOG_OVERHEAD
        self.position = origin + position

    cdef Py_ssize_t thin(self, Octets data) noexcept nogil:
        """Drop batches that a producer's later batches replace; return where the rest begins.

        The batches are counted backwards, in a table by producer id. If two ids have the same
        entry, they overwrite each other; then more batches are kept, which does no harm.
        """
        cdef Py_ssize_t first = self.notable_count
        cdef Py_ssize_t index = self.notable_count
        cdef long long producer_id
        cdef Seen* seen
        cdef int place
        for place in range(SEEN_PRODUCERS):
            self.seen[place].producer_id = NO_PRODUCER_ID
        while index > 0:
            index -= 1
            if not self.notable[index].is_kept:
                producer_id = read_int64(
                    data, self.notable[index].position + PRODUCER_ID_POSITION
                )
                seen = &self.seen[producer_id & (SEEN_PRODUCERS - 1)]
                if seen.producer_id != producer_id:
                    seen.producer_id = producer_id
                    seen.batches = 0
                seen.batches += 1
                if seen.batches > KEPT_BATCHES:
                    continue
            first -= 1
            self.notable[first] = self.notable[index]
        return first


# Journals ----------------------------------------------------------------------------------------

def read_journal(
    object buffer: Buffer, Py_ssize_t position, Py_ssize_t most, bint has_offsets
) -> tuple[list[tuple[Any, ...]], int, int]:
    """Return entries of whole batches, and why they end; see `reference.records.read_journal`."""
    cdef Py_buffer view
    cdef Octets data
    cdef Header header
    cdef Names names
    cdef int status = AT_END
    cdef list entries = []
    names = Names.__new__(Names)
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        data = <Octets> view.buf
        while len(entries) < most and position + HEADER_SIZE <= view.len:
            header = read_header(data + position)
            if header.length < MIN_LENGTH or header.magic != MAGIC:
                status = NO_BATCH
                break
            if header.length + LOG_OVERHEAD > view.len - position:
                break
            if batch_checksum(data + position, header.length) != header.crc:
                status = DAMAGED
                break
            if header.attributes & CODEC_MASK:
                status = COMPRESSED
                break
            status = read_entries(data + position, &header, names if has_offsets else None, entries)
            if status != AT_END:
                break
            position += header.length + LOG_OVERHEAD
    finally:
        PyBuffer_Release(&view)
    return entries, position, status


cdef int read_entries(Octets batch, Header* header, Names names, list entries) except -1:
    """Append the entries of a batch; return whether the whole batch could be read."""
    cdef Py_ssize_t position = HEADER_SIZE
    cdef Py_ssize_t end = header.length + LOG_OVERHEAD
    cdef long long left = header.count
    cdef long long offset
    cdef int kind
    cdef Record record
    while left > 0:
        left -= 1
        if read_record(batch, position, end, &record) < 0:
            return UNREADABLE
        position = record.stop
        if record.offset_delta < 0 or header.base_offset > INT64_MAX - record.offset_delta:
            return NO_BATCH
        offset = header.base_offset + record.offset_delta
        value = None
        if header.attributes & CONTROL:
            # The key of a marker: its version and its type, 0 for an abort, 1 for a commit.
            if record.key_size < 4 or not 0 <= read_int16(batch, record.key + 2) <= 1:
                continue
            kind = ABORT_ENTRY + read_int16(batch, record.key + 2)
            key = b""
        else:
            kind = TRANSACTIONAL_ENTRY if header.attributes & TRANSACTIONAL else PLAIN_ENTRY
            key = None if names is None else names.take(batch, &record)
            if key is None:
                key = take_bytes(batch, record.key, record.key_size)
            if record.value_size >= 0:
                value = take_bytes(batch, record.value, record.value_size)
        entries.append((offset, kind, key, value, header.producer_id, header.producer_epoch))
    return AT_END


cdef inline bytes take_bytes(Octets data, Py_ssize_t start, long long size):
    return PyBytes_FromStringAndSize(<const char*> data + start, max(size, 0))


@cython.final
cdef class Names:
    """Splits the keys of committed offsets; a name that repeats is decoded once."""

    cdef str group, topic
    cdef bytes group_bytes, topic_bytes

    def __cinit__(self):
        self.group = self.topic = ""
        self.group_bytes = self.topic_bytes = b""

    cdef object take(self, Octets data, Record* record):
        """Return group, topic and partition; None for another or an unreadable record."""
        cdef Octets group, topic
        cdef Py_ssize_t group_size, topic_size
        if not is_committed_offset(data, record):
            return None
        group_size = read_int16(data, record.key + 2)
        group = data + record.key + 4
        topic_size = read_int16(group, group_size)
        topic = group + group_size + 2
        try:
            if not is_same(self.group_bytes, group, group_size):
                self.group = PyUnicode_DecodeUTF8(<const char*> group, group_size, NULL)
                self.group_bytes = take_bytes(group, 0, group_size)
            if not is_same(self.topic_bytes, topic, topic_size):
                self.topic = PyUnicode_DecodeUTF8(<const char*> topic, topic_size, NULL)
                self.topic_bytes = take_bytes(topic, 0, topic_size)
        except UnicodeDecodeError:
            return None
        return self.group, self.topic, read_int32(topic, topic_size)


cdef inline bint is_same(bytes known, Octets data, Py_ssize_t size):
    return PyBytes_GET_SIZE(known) == size and memcmp(PyBytes_AS_STRING(known), data, size) == 0


cdef bint is_committed_offset(Octets data, Record* record) noexcept nogil:
    """Whether a record is a committed offset with a value that can be read, or without a value.

    The key has a version of 0 or 1, group, topic and partition. The value has a version, an offset,
    from version 3 on a leader epoch, metadata, a time, and in version 1 a second time.
    """
    cdef long long names = record.key_size - 10  # the bytes of both names together
    cdef int group_size, version, head, tail
    cdef long long metadata
    if names < 0 or not 0 <= read_int16(data, record.key) <= 1:
        return False
    group_size = read_int16(data, record.key + 2)
    if group_size < 0 or group_size > names:
        return False
    if read_int16(data, record.key + 4 + group_size) != names - group_size:
        return False
    if record.value_size < 0:
        return True
    if record.value_size < 20:
        return False
    version = read_int16(data, record.value)
    if version < 0 or version > 3:
        return False
    head = 16 if version == 3 else 12
    tail = 16 if version == 1 else 8
    metadata = record.value_size - head - tail
    return metadata >= 0 and read_int16(data, record.value + head - 2) == metadata
