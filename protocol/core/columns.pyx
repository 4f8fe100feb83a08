"""Batches turned into columns; `tests/reference/columns.py` explains each step."""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from siltstone.protocol.core._format cimport *

from siltstone.protocol.core.rows import BatchRow, Filled

if TYPE_CHECKING:
    from collections.abc import Iterator

    import typing_extensions

    from siltstone.protocol.core import rows as row_types

ctypedef const unsigned char* Octets
ctypedef unsigned char* Buffer

prepare()


cdef struct Row:  # the fields of a BatchRow
    Py_ssize_t position
    Py_ssize_t size
    long long origin
    long long base_offset
    long long last_offset
    long long count
    int attributes
    long long max_timestamp
    long long producer_id


@cython.final
cdef class Rows:
    """Batches of data; see `reference.columns.Rows`."""

    cdef Row* items
    cdef Py_ssize_t count, room
    cdef readonly long long records, size

    def __dealloc__(self):
        free(self.items)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, Py_ssize_t index) -> BatchRow:
        if index < 0 or index >= self.count:
            raise IndexError(index)
        cdef Row* row = &self.items[index]
        return BatchRow(
            row.position, row.size, row.origin, row.base_offset, row.last_offset, row.count,
            row.attributes, row.max_timestamp, row.producer_id,
        )

    def __iter__(self) -> Iterator[BatchRow]:
        cdef Py_ssize_t index
        for index in range(self.count):
            yield self[index]

    def append(self, object batch: BatchRow):
        """Add a BatchRow."""
        cdef Row row
        (
            row.position, row.size, row.origin, row.base_offset, row.last_offset, row.count,
            row.attributes, row.max_timestamp, row.producer_id,
        ) = batch
        if not self.add(&row):
            raise MemoryError

    cdef bint add(self, Row* row) noexcept nogil:
        """Add a row; return false if there is no memory."""
        cdef Row* items
        if self.count == self.room:
            items = <Row*> realloc(self.items, (2 * self.room + 64) * sizeof(Row))
            if items == NULL:
                return False
            self.items = items
            self.room = 2 * self.room + 64
        self.items[self.count] = row[0]
        self.count += 1
        self.records += row.count
        self.size += row.size
        return True

    cdef void clear(self) noexcept nogil:
        self.count = 0
        self.records = self.size = 0


@cython.final
cdef class Survey:
    """Lists the batches of data of a chunk; see `reference.columns.Survey`."""

    cdef readonly Rows rows
    cdef readonly int status, flags
    cdef readonly Py_ssize_t position, needed
    cdef public long long last_offset
    cdef Py_ssize_t most

    def __cinit__(self, Py_ssize_t most=8192):
        self.rows = Rows()
        self.last_offset = -1
        self.most = most

    def scan(
        self, object buffer: typing_extensions.Buffer, Py_ssize_t start, long long origin,
        bint is_verified,
    ):
        """List the whole batches from ``start`` on; see `reference.columns.Survey.scan`."""
        cdef Py_buffer view
        cdef bint is_done
        if start < 0:
            raise ValueError(f"byte {start} is not inside the buffer")
        PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
        self.rows.clear()
        with nogil:
            is_done = self.walk(<Octets> view.buf, start, view.len, origin, is_verified)
        PyBuffer_Release(&view)
        if not is_done:
            raise MemoryError

    cdef bint walk(self, Octets data, Py_ssize_t position, Py_ssize_t size, long long origin, bint is_verified) noexcept nogil:
        cdef Header header
        cdef Row row
        self.flags = 0
        while read_whole(data + position, size - position, &header, &self.status, &self.needed):
            if self.rows.count == self.most:
                self.status = FULL
                break
            if (
                header.base_offset <= self.last_offset
                or header.last_offset_delta < 0
                or header.base_offset > INT64_MAX - header.last_offset_delta
            ):
                self.status = OFFSET_BACKWARDS
                break
            if is_verified and batch_checksum(data + position, header.length) != header.crc:
                self.status = WRONG_CRC
                break
            if (
                header.count < 0
                or header.count > header.last_offset_delta + 1
                or (
                    header.attributes & CODEC_MASK == 0
                    and MIN_RECORD_BYTES * header.count > header.length - MIN_LENGTH
                )
            ):
                self.status = BAD_COUNT
                break
            self.last_offset = header.base_offset + header.last_offset_delta
            row.position = position
            row.size = header.length + LOG_OVERHEAD
            row.origin = origin + position
            position += row.size
            if header.attributes & CONTROL or header.count == 0:
                continue
            row.base_offset = header.base_offset
            row.last_offset = self.last_offset
            row.count = header.count
            row.attributes = header.attributes & ATTRIBUTE_BITS
            row.max_timestamp = header.max_timestamp
            row.producer_id = header.producer_id
            self.flags |= row.attributes
            if not self.rows.add(&row):
                return False
        self.position = position
        return True


# Filling -----------------------------------------------------------------------------------------

cdef struct Buffers:  # Arrow's buffers; NULL if not wanted
    Buffer offset
    Buffer timestamp
    Buffer timestamp_type
    Buffer key_valid
    Buffer key_ends
    Buffer key
    Buffer value_valid
    Buffer value_ends
    Buffer value
    Buffer tombstone
    Buffer header_ends
    Buffer name_ends
    Buffer name
    Buffer header_value_valid
    Buffer header_value_ends
    Buffer header_value
    Buffer batch_position
    Buffer batch_offset
    Buffer producer_id


cdef struct Selection:
    long long start
    long long end
    long long time_from
    long long time_last
    long long time_scale
    bint is_walked


cdef struct Done:
    long long rows
    long long key_nulls
    long long key_bytes
    long long value_nulls
    long long value_bytes
    long long headers
    long long name_bytes
    long long header_nulls
    long long header_bytes
    long long bad_row


cdef Buffer buffer_of(dict layout, str name, Py_buffer* arena) except? NULL:
    """Return the start of a buffer, or NULL if the buffer is not wanted."""
    start = layout.get(name)
    if start is None:
        return NULL
    if not 0 <= start <= arena.len:
        raise ValueError(f"the buffer {name} does not begin inside the arena")
    return <Buffer> arena.buf + <Py_ssize_t> start


def fill_columns(
    object buffer: typing_extensions.Buffer, Rows rows, object selection: row_types.Selection,
    dict layout: dict[str, int], object arena: typing_extensions.Buffer,
) -> Filled:
    """Write the records of the batches into the arena; see `reference.columns.fill_columns`."""
    cdef Py_buffer view, target
    cdef Buffers out
    cdef Selection wanted
    cdef Done done
    (
        wanted.start, wanted.end, wanted.time_from, wanted.time_last, wanted.time_scale,
        wanted.is_walked,
    ) = selection
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(arena, &target, PyBUF_WRITABLE)
        try:
            out.offset = buffer_of(layout, "offset", &target)
            out.timestamp = buffer_of(layout, "timestamp", &target)
            out.timestamp_type = buffer_of(layout, "timestamp_type", &target)
            out.key_valid = buffer_of(layout, "key_valid", &target)
            out.key_ends = buffer_of(layout, "key_ends", &target)
            out.key = buffer_of(layout, "key", &target)
            out.value_valid = buffer_of(layout, "value_valid", &target)
            out.value_ends = buffer_of(layout, "value_ends", &target)
            out.value = buffer_of(layout, "value", &target)
            out.tombstone = buffer_of(layout, "tombstone", &target)
            out.header_ends = buffer_of(layout, "header_ends", &target)
            out.name_ends = buffer_of(layout, "name_ends", &target)
            out.name = buffer_of(layout, "name", &target)
            out.header_value_valid = buffer_of(layout, "header_value_valid", &target)
            out.header_value_ends = buffer_of(layout, "header_value_ends", &target)
            out.header_value = buffer_of(layout, "header_value", &target)
            out.batch_position = buffer_of(layout, "batch_position", &target)
            out.batch_offset = buffer_of(layout, "batch_offset", &target)
            out.producer_id = buffer_of(layout, "producer_id", &target)
            with nogil:
                done = fill(<Octets> view.buf, rows, &wanted, &out)
        finally:
            PyBuffer_Release(&target)
    finally:
        PyBuffer_Release(&view)
    return Filled(
        done.rows, done.key_nulls, done.key_bytes, done.value_nulls, done.value_bytes,
        done.headers, done.name_bytes, done.header_nulls, done.header_bytes, done.bad_row,
    )


cdef Done fill(Octets data, Rows rows, Selection* wanted, Buffers* out) noexcept nogil:
    cdef Done done
    cdef Row* row
    cdef long long index, first, offset
    cdef bint is_inside, is_even
    done.rows = done.key_nulls = done.key_bytes = done.value_nulls = done.value_bytes = 0
    done.headers = done.name_bytes = done.header_nulls = done.header_bytes = 0
    done.bad_row = -1
    put_end(out.key_ends, 0, 0)
    put_end(out.value_ends, 0, 0)
    put_end(out.header_ends, 0, 0)
    put_end(out.name_ends, 0, 0)
    put_end(out.header_value_ends, 0, 0)
    for index in range(rows.count):
        row = &rows.items[index]
        first = done.rows
        is_inside = row.base_offset >= wanted.start and row.last_offset < wanted.end
        is_even = out.offset == NULL or row.count == row.last_offset - row.base_offset + 1
        if not wanted.is_walked and is_inside and is_even:
            if out.offset != NULL:
                for offset in range(row.count):
                    put_int64(out.offset, first + offset, row.base_offset + offset)
            done.rows += row.count
        elif not fill_batch(data + row.position, row, wanted, out, &done):
            done.bad_row = index
            return done
        if out.timestamp_type != NULL:
            repeat_int32(out.timestamp_type, first, done.rows, row.attributes & LOG_APPEND_TIME != 0)
        repeat_int64(out.batch_position, first, done.rows, row.origin)
        repeat_int64(out.batch_offset, first, done.rows, row.base_offset)
        repeat_int64(out.producer_id, first, done.rows, row.producer_id)
    return done


cdef bint fill_batch(Octets batch, Row* row, Selection* wanted, Buffers* out, Done* done) noexcept nogil:
    """Write the wanted records of one batch; return whether all of them parse."""
    cdef Py_ssize_t position = HEADER_SIZE
    cdef long long base_timestamp = read_int64(batch, BASE_TIMESTAMP_POSITION)
    cdef long long append_time = read_int64(batch, MAX_TIMESTAMP_POSITION)
    cdef bint is_append_time = row.attributes & LOG_APPEND_TIME
    cdef long long previous = row.base_offset - 1
    cdef long long index, offset, timestamp, at
    cdef Record record
    for index in range(row.count):
        if read_record(batch, position, row.size, &record) < 0:
            return False
        position = record.stop
        if record.offset_delta > row.last_offset - row.base_offset:
            return False
        offset = row.base_offset + record.offset_delta
        if offset <= previous:
            return False
        previous = offset
        if is_append_time:
            timestamp = append_time
        elif leaves_64_bits(base_timestamp, record.timestamp_delta):
            return False
        else:
            timestamp = base_timestamp + record.timestamp_delta
        if offset < wanted.start or offset >= wanted.end:
            continue
        if timestamp < wanted.time_from or timestamp > wanted.time_last:
            continue
        at = done.rows
        if out.offset != NULL:
            put_int64(out.offset, at, offset)
        if out.timestamp != NULL:
            put_int64(out.timestamp, at, scaled(timestamp, wanted.time_scale))
        if out.key_ends != NULL:
            put_bit(out.key_valid, at, record.key_size >= 0)
            if record.key_size >= 0:
                memcpy(out.key + done.key_bytes, batch + record.key, record.key_size)
                done.key_bytes += record.key_size
            else:
                done.key_nulls += 1
            put_end(out.key_ends, at + 1, done.key_bytes)
        if out.value_ends != NULL:
            put_bit(out.value_valid, at, record.value_size >= 0)
            if record.value_size >= 0:
                memcpy(out.value + done.value_bytes, batch + record.value, record.value_size)
                done.value_bytes += record.value_size
            else:
                done.value_nulls += 1
            put_end(out.value_ends, at + 1, done.value_bytes)
        if out.tombstone != NULL:
            put_bit(out.tombstone, at, record.value_size < 0)
        if out.header_ends != NULL:
            fill_headers(batch, &record, out, done)
            put_end(out.header_ends, at + 1, done.headers)
        done.rows = at + 1
    return position == row.size


cdef void fill_headers(Octets batch, Record* record, Buffers* out, Done* done) noexcept nogil:
    """Write the headers of the record."""
    cdef Py_ssize_t position = record.headers
    cdef long long size
    cdef long long index
    for index in range(record.header_count):
        size, position = read_field(batch, position, record.stop)
        memcpy(out.name + done.name_bytes, batch + position, size)
        done.name_bytes += size
        put_end(out.name_ends, done.headers + 1, done.name_bytes)
        size, position = read_field(batch, position + size, record.stop)
        put_bit(out.header_value_valid, done.headers, size >= 0)
        if size >= 0:
            memcpy(out.header_value + done.header_bytes, batch + position, size)
            done.header_bytes += size
            position += size
        else:
            done.header_nulls += 1
        put_end(out.header_value_ends, done.headers + 1, done.header_bytes)
        done.headers += 1


@cython.cdivision(True)
cdef inline long long scaled(long long timestamp, long long scale) noexcept nogil:
    """Return a time in a finer unit, or the largest number if the time does not fit."""
    if timestamp > INT64_MAX // scale:
        return INT64_MAX
    if timestamp < -(INT64_MAX // scale):
        return INT64_MIN
    return timestamp * scale


# Arrow's buffers have the machine's byte order, and may begin at any address.
cdef inline void put_int64(Buffer buffer, Py_ssize_t index, int64_t number) noexcept nogil:
    memcpy(buffer + 8 * index, &number, 8)


cdef inline void put_end(Buffer buffer, Py_ssize_t index, long long number) noexcept nogil:
    cdef int32_t end = <int32_t> number
    if buffer != NULL:
        memcpy(buffer + 4 * index, &end, 4)


# The first bit of a byte clears the others.
cdef inline void put_bit(Buffer buffer, Py_ssize_t index, bint bit) noexcept nogil:
    if index & 7:
        buffer[index >> 3] |= bit << (index & 7)
    else:
        buffer[index >> 3] = bit


cdef void repeat_int64(Buffer buffer, long long start, long long end, long long number) noexcept nogil:
    cdef long long index
    if buffer != NULL:
        for index in range(start, end):
            put_int64(buffer, index, number)


cdef void repeat_int32(Buffer buffer, long long start, long long end, long long number) noexcept nogil:
    cdef long long index
    for index in range(start, end):
        put_end(buffer, index, number)
