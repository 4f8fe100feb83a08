# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Messages read and written by tables; `tests/reference/messages.py` explains each step.

A `Table` is one structure of one version as an array of `Field`. One recursive function reads,
another writes. Memory is reserved only for bytes that have arrived, and the caller limits how many
elements all arrays have together.
"""

from typing import TYPE_CHECKING

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GetItem, PyList_New, PyList_SET_ITEM
from cpython.memoryview cimport PyMemoryView_Check, PyMemoryView_FromObject
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.sequence cimport PySequence_Fast, PySequence_Fast_GET_ITEM, PySequence_Fast_GET_SIZE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MIN, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from siltstone.protocol.core._format cimport field_of

from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.java import AS_JAVA

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from siltstone.protocol.core import fields as field_types
    from siltstone.protocol.parts import Buffer, Parts

cdef extern from *:
    """
    #include <endian.h>
    #include <string.h>
    #define NUMBER(bits) \
        static inline uint##bits##_t load##bits(const unsigned char *data) { \
            uint##bits##_t value; memcpy(&value, data, sizeof value); return be##bits##toh(value); \
        } \
        static inline void store##bits(unsigned char *data, uint##bits##_t value) { \
            value = htobe##bits(value); memcpy(data, &value, sizeof value); \
        }
    NUMBER(16) NUMBER(32) NUMBER(64)
    #define Py_DECREF_POINTER(pointer) Py_DECREF(pointer)
    """
    uint16_t load16(const unsigned char* data) noexcept nogil
    uint32_t load32(const unsigned char* data) noexcept nogil
    uint64_t load64(const unsigned char* data) noexcept nogil
    void store16(unsigned char* data, uint16_t value) noexcept nogil
    void store32(unsigned char* data, uint32_t value) noexcept nogil
    void store64(unsigned char* data, uint64_t value) noexcept nogil
    void Py_DECREF_POINTER(PyObject* pointer)

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t count)

# The order is that of `protocol.core.fields.KINDS`.
cdef enum Kind:
    BOOL, INT8, INT16, UINT16, INT32, UINT32, INT64, FLOAT64, UUID, STRING, BYTES, RECORDS, OCTETS
    STRUCT

# The fields of a request's head, which has no table.
cdef enum HeadField:
    HEAD_CLIENT_ID, HEAD_TAGS

cdef int[14] SIZES = [1, 1, 2, 2, 4, 4, 8, 8, 16, 0, 0, 0, 0, 0]
cdef long long[8] LOWEST = [0, -0x80, -0x8000, 0, -0x80000000LL, 0, INT64_MIN, 0]
cdef long long[8] HIGHEST = [1, 0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFFLL, 0xFFFFFFFFLL, 0x7FFFFFFFFFFFFFFFLL, 0]

cdef bytes JAVA = AS_JAVA.encode()
cdef const char* AS_JAVAS = JAVA

cdef int NO_TAG = -1
cdef int NO_HEAD = -0x10000
cdef Py_ssize_t MAX_STRING_BYTES = 0x7FFF  # the limit of strings in both encodings, as in Kafka
cdef uint64_t FIVE_OCTETS = 0x7FFFFFFFF  # how many bits the varint of a length may have
cdef Py_ssize_t MAX_HEAD_TAGS = 1000
cdef Py_ssize_t VIEWED_BYTES = 128 * 1024  # a copy of many holds the loop: each page is made first
cdef Py_ssize_t FIRST_ROOM = 512
cdef Py_ssize_t MAX_KEPT = 1 << 16
cdef Py_ssize_t STEP = 1000  # elements of one step, half a millisecond at most
cdef Py_ssize_t NO_LIMIT = 0x7FFFFFFFFFFFFFFF


class Many(Exception):
    """Raised for more elements than are read or written at once; only this module uses it."""


@cython.final
cdef class Table:
    """One structure in one version: its class and its fields, from `protocol.messages`."""

    def __cinit__(self, object cls: Any, object fields: Sequence[field_types.Field], bint is_flexible):
        cdef Py_ssize_t i, numbers = 0, others = 0
        cdef Field* field
        self.cls = cls
        self.kept = fields
        self.is_flexible = is_flexible
        self.count = len(fields)
        self.fields = <Field*> PyMem_Calloc(self.count + 1, sizeof(Field))
        self.tag_order = <int*> PyMem_Calloc(self.count + 1, sizeof(int))
        if self.fields == NULL or self.tag_order == NULL:
            raise MemoryError
        if not issubclass(cls, tuple):
            raise TypeError(f"{cls.__name__} is no NamedTuple")
        order = []
        for i in range(self.count):
            row = fields[i]
            field = &self.fields[i]
            field.kind = row.kind
            field.is_array = row.is_array
            field.is_nullable = row.is_nullable
            field.is_present = row.is_present
            field.is_error = row.is_error
            field.tag = row.tag if row.is_present else NO_TAG
            default = row.default
            field.default = <PyObject*> default
            if not field.is_array and field.kind <= INT64:
                field.number = default
            if not field.is_present or field.tag != NO_TAG:
                pass
            elif not field.is_array and field.kind <= INT64:
                numbers += 1
            else:
                others += 1
                self.text = -1 if field.is_array or field.kind != STRING else i
            child = row.child
            if (row.kind == STRUCT) != isinstance(child, Table):
                raise TypeError(f"a structure, and nothing else, has a table: {row}")
            field.child = <PyObject*> child
            if field.tag != NO_TAG:
                order.append((field.tag, i))
            elif field.is_present:
                self.min_size += self._min_size(field)
        if is_flexible:
            self.min_size += 1
        self.is_numbers = numbers > 0 and others == 0
        if others != 1 or numbers < 2:
            self.text = -1
        self.tagged = len(order)
        for i, (_, place) in enumerate(sorted(order)):
            self.tag_order[i] = place

    def __dealloc__(self):
        PyMem_Free(self.fields)
        PyMem_Free(self.tag_order)

    cdef Py_ssize_t _min_size(self, Field* field) except -1:
        """Return the least number of bytes that a field takes."""
        if field.is_array:
            return 1 if self.is_flexible else 4
        if field.kind == STRING:
            return 1 if self.is_flexible else 2
        if field.kind == BYTES or field.kind == RECORDS or field.kind == OCTETS:
            return 1 if self.is_flexible else 4
        if field.kind == STRUCT:
            return 1 if field.is_nullable else (<Table> <object> field.child).min_size
        return SIZES[field.kind]


@cython.final
cdef class Grid:  # type: Sequence[Any]
    """Rows of numbers, with other values in some columns; see `reference.messages.Grid`."""

    def __cinit__(self, Py_ssize_t count, Py_ssize_t width):
        if count < 0 or width < 1:
            raise ValueError(f"{count} rows of {width} columns")
        self.numbers = <long long*> PyMem_Calloc(count * width + 1, sizeof(long long))
        if self.numbers == NULL:
            raise MemoryError
        self.count = count
        self.width = width

    def __dealloc__(self):
        PyMem_Free(self.numbers)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int | slice) -> Any:
        cdef Py_ssize_t place
        if isinstance(index, slice):
            return [self.row(place) for place in range(*index.indices(self.count))]
        place = index
        if place < 0:
            place += self.count
        if place < 0 or place >= self.count:
            raise IndexError(index)
        return self.row(place)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter([self.row(place) for place in range(self.count)])

    def __eq__(self, other):
        if isinstance(other, (Grid, list)):
            return list(self) == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    cpdef put(self, Py_ssize_t place, Py_ssize_t column, long long number):
        """Set a number; see `reference.messages.Grid.put`."""
        if place < 0 or place >= self.count or column < 0 or column >= self.width:
            raise IndexError(f"row {place}, column {column}")
        self.numbers[place * self.width + column] = number

    cpdef put_column(self, Py_ssize_t column, list values: list[Any]):
        """Set a column of other values; see `reference.messages.Grid.put_column`."""
        if column < 0 or column >= self.width or len(values) < self.count:
            raise IndexError(f"{len(values)} values for column {column}")
        if self.columns is None:
            self.columns = [None] * self.width
        self.columns[column] = values

    cdef put_other(self, Py_ssize_t place, Py_ssize_t column, object value):
        """Set a value that is no number; its row and its column must exist."""
        if self.columns is None or self.columns[column] is None:
            self.put_column(column, [None] * self.count)
        self.columns[column][place] = value

    cdef object cell(self, Py_ssize_t place, Py_ssize_t column):
        """Return a value of a row; the row must exist."""
        if self.columns is not None and self.columns[column] is not None:
            return <object> PyList_GetItem(self.columns[column], place)
        return self.numbers[place * self.width + column]

    cdef object row(self, Py_ssize_t place):
        """Return a row, which must exist."""
        cdef Table table = None
        cdef Field* field
        cdef Py_ssize_t i
        cdef object value
        cdef object row
        if self.table is None:
            row = PyTuple_New(self.width)
        else:
            table = self.table
            row = PyType_GenericAlloc(<PyTypeObject*> table.cls, self.width)
        for i in range(self.width):
            if table is None:
                value = self.cell(place, i)
            else:
                field = &table.fields[i]
                if not field.is_present or field.tag != NO_TAG:
                    value = <object> field.default
                elif self.columns is not None and self.columns[i] is not None:
                    value = self.cell(place, i)
                elif field.kind == BOOL:
                    value = self.numbers[place * self.width + i] != 0
                else:
                    value = self.numbers[place * self.width + i]
            Py_INCREF(value)
            PyTuple_SET_ITEM(row, i, value)
        return row


cpdef Grid grid_of(object rows: Sequence[Any], Py_ssize_t width):
    """Return rows as a grid of their first columns; see `reference.messages.grid_of`."""
    cdef Py_ssize_t place = 0, column
    cdef Grid grid
    cdef object value
    if type(rows) is Grid:
        return rows
    grid = Grid(len(rows), width)
    for row in rows:
        if place == grid.count:
            break
        for column in range(width):
            value = field_of(row, column)
            if isinstance(value, int):
                grid.numbers[place * width + column] = value
            else:
                grid.put_other(place, column, value)
        place += 1
    return grid


# Reading ------------------------------------------------------------------------------------------

cdef struct Source:
    const unsigned char* data
    Py_ssize_t position
    Py_ssize_t end
    Py_ssize_t room  # how many more elements all arrays may have
    Py_ssize_t at_once  # how many elements before `Many` is raised
    PyObject* buffer  # the object whose bytes are `data`
    PyObject* table  # the structure of the field that is being read, for errors
    Py_ssize_t field


cdef int begin(Source* source, Table table, object buffer, Py_buffer* view, Py_ssize_t position, Py_ssize_t end) except -1:
    """Begin to read a structure; ``room`` and ``at_once`` are for the caller to set."""
    if position < 0 or position > end or end > view.len:
        raise IndexError(f"{position} to {end} of a buffer of {view.len} bytes")
    source.data = <const unsigned char*> view.buf
    source.position = position
    source.end = end
    source.buffer = <PyObject*> buffer
    source.table = <PyObject*> table
    source.field = 0
    return 0


cpdef tuple read(
    Table table, object buffer: Buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t room,
    Py_ssize_t at_once=NO_LIMIT,
):  # -> tuple[Any, int]
    """Read a structure from ``buffer[position:end]``; see `reference.messages.read`."""
    cdef Source source
    cdef Py_buffer view
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        begin(&source, table, buffer, &view, position, end)
        source.room = room
        source.at_once = at_once
        row = read_struct(table, &source)
        return row, source.position
    except Many:
        return None, -1
    finally:
        PyBuffer_Release(&view)


def fill_versioned(
    Grid grid, Py_ssize_t first, list tables: list[Table], list cells: list[bytes | None],
    tuple missing: tuple[Any, ...],
):
    """Put the first columns of structures into a grid; see `reference.messages.fill_versioned`."""
    cdef Source source
    cdef Py_ssize_t i, place, count = len(missing)
    cdef int64_t version
    cdef bytes cell
    cdef list others = [None if isinstance(each, int) else [each] * grid.count for each in missing]
    if first < 0 or first + count > grid.width or len(cells) != grid.count:
        raise IndexError(f"{len(cells)} rows of {count} columns from {first} on")
    for place in range(grid.count):
        if cells[place] is None:
            for i in range(count):
                if others[i] is None:
                    grid.numbers[place * grid.width + first + i] = missing[i]
            continue
        cell = cells[place]
        source.data = <const unsigned char*> PyBytes_AS_STRING(cell)
        source.position = 0
        source.end = source.room = PyBytes_GET_SIZE(cell)
        source.at_once = NO_LIMIT
        source.buffer = <PyObject*> cell
        source.table = NULL
        source.field = 0
        version = -1
        if source.end >= 2:
            version = take_int(&source, INT16)
        if version < 0 or version >= len(tables):
            raise IndexError(f"no table for version {version}")
        fill_row(tables[version], &source, grid.numbers + place * grid.width + first, others, place)
    for i in range(count):
        if others[i] is not None:
            grid.put_column(first + i, others[i])


cdef int fill_row(Table table, Source* source, long long* numbers, list others, Py_ssize_t place) except -1:
    """Read the first fields of a structure into a row of a grid."""
    cdef Py_ssize_t i
    cdef Field* field
    cdef bint is_there
    if len(others) > table.count:
        raise IndexError(f"{table.cls.__name__} has no {len(others)} fields")
    for i in range(len(others)):
        field = &table.fields[i]
        is_there = field.is_present and field.tag == NO_TAG
        source.table = <PyObject*> table
        source.field = i
        if others[i] is not None:
            others[i][place] = (
                read_field(source, field, table.is_flexible, False)
                if is_there
                else <object> field.default
            )
        elif field.is_array or field.kind > INT64:
            raise TypeError(f"{table.cls.__name__}.{table.cls._fields[i]} is no number")
        elif is_there:
            need(source, SIZES[field.kind])
            numbers[i] = take_int(source, field.kind)
        else:
            numbers[i] = <object> field.default
    return 0


def read_in_steps(
    Table table, object buffer: Buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t room
) -> Generator[None, None, tuple[Any, int]]:
    """Return the result of `read` after some steps; see `reference.messages.read_in_steps`."""
    cdef Reader reader = Reader(table, buffer, position, end, room)
    return reader.whole(table)


@cython.final
cdef class Reader:
    """A structure that is read some elements at a time."""

    cdef Source source
    cdef Py_buffer view
    cdef object buffer
    cdef Py_ssize_t left  # elements of this step

    def __cinit__(self, Table table, object buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t room):
        PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
        self.buffer = buffer
        begin(&self.source, table, buffer, &self.view, position, end)
        self.source.room = room
        self.left = STEP

    def __dealloc__(self):
        PyBuffer_Release(&self.view)

    def whole(self, Table table):
        """Read the structure; return it and the position after it."""
        row = yield from self.struct_(table)
        return row, self.source.position

    def struct_(self, Table table):
        """Read a structure that may have many elements."""
        cdef Py_ssize_t i
        cdef Field* field
        values = []
        for i in range(table.count):
            field = &table.fields[i]
            if field.is_present and field.tag == NO_TAG:
                self.source.table = <PyObject*> table
                self.source.field = i
                if field.is_array:
                    value = yield from self.array(table, i)
                else:
                    self.source.at_once = NO_LIMIT
                    value = read_field(&self.source, field, table.is_flexible, False)
            else:
                value = <object> field.default
            values.append(value)
        row = make_row(table, values)
        if table.is_flexible:
            self.source.table = <PyObject*> table
            self.source.field = table.count
            self.source.at_once = NO_LIMIT
            read_tags(table, &self.source, row)
        return row

    def array(self, Table table, Py_ssize_t place):
        """Read an array; after some elements, let other work run."""
        cdef int64_t count, i
        self.source.at_once = NO_LIMIT
        count = take_count(&self.source, &table.fields[place], table.is_flexible)
        if count < 0:
            return None
        items = []
        for i in range(count):
            if self.left <= 0:
                yield
                self.left = STEP
            item = self.element(table, place)
            if item is MORE:
                item = yield from self.struct_(<Table> <object> table.fields[place].child)
            items.append(item)
        return items

    cdef object element(self, Table table, Py_ssize_t place):
        """Read one element, or return `MORE` if it has too many elements of its own."""
        cdef Field* field = &table.fields[place]
        cdef Source before = self.source
        self.left -= 1
        if field.kind != STRUCT:
            return take_value(&self.source, field.kind, table.is_flexible, False)
        self.source.at_once = STEP
        try:
            item = read_struct(<Table> <object> field.child, &self.source)
        except Many:
            self.source = before
            self.left -= STEP
            return MORE
        self.left -= before.room - self.source.room
        return item


cdef object MORE = object()


cdef object make_row(Table table, list values):
    """Return a structure with these values."""
    cdef Py_ssize_t i
    row = PyType_GenericAlloc(<PyTypeObject*> table.cls, table.count)
    for i in range(table.count):
        value = values[i]
        Py_INCREF(value)
        PyTuple_SET_ITEM(row, i, value)
    return row


cpdef tuple read_head(
    object buffer: Buffer, Py_ssize_t start, Py_ssize_t end,
    list served: Sequence[tuple[int, int, int] | None],
):  # -> tuple[int, int, int, str | None, int]
    """Read the head of the request ``buffer[start:end]``; see `reference.messages.read_head`."""
    cdef Source source
    cdef Py_buffer view
    cdef int key, version, length
    cdef tuple versions
    cdef int32_t correlation_id
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if start < 0 or start > end or end > view.len:
            raise IndexError(f"{start} to {end} of a buffer of {view.len} bytes")
        if end - start < 8:
            raise ProtocolError(f"a frame of {end - start} bytes holds no request header")
        source.data = <const unsigned char*> view.buf
        source.position = start
        source.end = end
        source.room = MAX_HEAD_TAGS
        source.at_once = NO_LIMIT
        source.table = NULL
        source.field = HEAD_CLIENT_ID
        key = take_int(&source, INT16)
        version = take_int(&source, INT16)
        correlation_id = take_int(&source, INT32)
        versions = served[key] if 0 <= key < len(served) else None
        if versions is None:
            return key, version, correlation_id, None, -1
        lowest, highest, first_flexible = versions
        if version < <int> lowest or version > <int> highest:
            return key, version, correlation_id, None, -1
        need(&source, 2)
        length = take_int(&source, INT16)
        client_id = None
        if length >= 0:
            need(&source, length)
            client_id = take_text(&source, length)
        if version >= <int> first_flexible:
            source.field = HEAD_TAGS
            skip_tags(&source)
        return key, version, correlation_id, client_id, source.position
    finally:
        PyBuffer_Release(&view)


cdef int64_t take_tag_count(Source* source) except -1:
    """Read the number of tagged fields that follow; they count as elements of an array."""
    cdef int64_t count = take_varint(source)
    if count > (source.end - source.position) // 2:
        fail(source, f"{count} tagged fields")
    take_room(source, count)
    return count


cdef int take_room(Source* source, int64_t count) except -1:
    """Refuse more elements than the request may have."""
    if count > source.room:
        fail(source, f"more elements than one request may have: {count}, with {source.room} left,")
    if count > source.at_once:
        raise Many
    source.room -= count
    source.at_once -= count
    return 0


cdef int skip_tags(Source* source) except -1:
    """Skip the tagged fields of a head."""
    cdef int64_t count = take_tag_count(source)
    cdef int64_t size
    for _ in range(count):
        take_varint(source)
        size = take_varint(source)
        need(source, size)
        source.position += size
    return 0


cdef object fail(Source* source, str reason):
    """Raise an error that names the field and the position."""
    if source.table == NULL:
        name = "client_id" if source.field == HEAD_CLIENT_ID else "tagged fields"
        raise ProtocolError(
            f"header.{name}: {reason} at {source.position} in a frame that ends at {source.end}"
        )
    cdef Table table = <Table> <object> source.table
    names = table.cls._fields
    name = names[source.field] if source.field < len(names) else "tagged fields"
    raise ProtocolError(
        f"{table.cls.__name__}.{name}: {reason} at {source.position} in a frame that ends at "
        f"{source.end}"
    )


cdef inline int need(Source* source, Py_ssize_t size) except -1:
    if size > source.end - source.position:
        fail(source, f"a field of {size} bytes")
    return 0


cdef inline int64_t take_int(Source* source, int kind) noexcept:
    """Read an integer whose bytes are inside the frame."""
    cdef const unsigned char* data = source.data + source.position
    source.position += SIZES[kind]
    if kind == INT32:
        return <int32_t> load32(data)
    if kind == INT64:
        return <int64_t> load64(data)
    if kind == INT16:
        return <int16_t> load16(data)
    if kind == INT8:
        return <signed char> data[0]
    if kind == UINT16:
        return load16(data)
    if kind == UINT32:
        return load32(data)
    return data[0]


cdef int64_t take_varint(Source* source, uint64_t most=0x7FFFFFFF) except -1:
    """Read an unsigned varint of at most five octets; one above ``most`` is refused."""
    cdef uint64_t value = 0
    cdef int shift = 0
    cdef unsigned char octet
    cdef Py_ssize_t position = source.position
    while position < source.end and shift < 35:
        octet = source.data[position]
        position += 1
        value |= <uint64_t> (octet & 0x7F) << shift
        if octet < 0x80:
            if value > most:
                break
            source.position = position
            return <int64_t> value
        shift += 7
    fail(source, "no varint ends")
    return -1


cdef int64_t take_length(Source* source, bint is_flexible, int kind) except -2:
    """Read a length in the version's encoding; return -1 for null: any length below 0, as in Kafka.

    ``kind`` is the type of the length in versions that are not flexible. Kafka keeps 32 bits of a
    varint; the first bit is the sign.
    """
    cdef int64_t length
    if is_flexible:
        length = <int64_t> <uint32_t> take_varint(source, FIVE_OCTETS) - 1
        return length if length <= 0x7FFFFFFF else -1
    need(source, SIZES[kind])
    length = take_int(source, kind)
    return length if length >= 0 else -1


cdef inline object take_value(Source* source, int kind, bint is_flexible, bint is_nullable):
    """Read one value that is no structure."""
    if kind <= INT64:
        need(source, SIZES[kind])
        if kind == BOOL:
            return take_int(source, kind) != 0
        return take_int(source, kind)
    return take_long(source, kind, is_flexible, is_nullable)


cdef object take_long(Source* source, int kind, bint is_flexible, bint is_nullable):
    """Read a value that is neither an integer nor a structure."""
    cdef int64_t length
    cdef Py_ssize_t position
    if kind == FLOAT64:
        need(source, 8)
        return take_float(source)
    if kind == UUID:
        need(source, 16)
        position = source.position
        source.position += 16
        return PyBytes_FromStringAndSize(<const char*> source.data + position, 16)
    length = take_length(source, is_flexible, INT16 if kind == STRING else INT32)
    if length < 0:
        if not is_nullable:
            fail(source, "null, where a value is required,")
        return None
    if kind == STRING and length > MAX_STRING_BYTES:
        fail(source, f"a string of {length} bytes, which is more than {MAX_STRING_BYTES},")
    need(source, length)
    if kind == STRING:
        return take_text(source, length)
    position = source.position
    source.position += length
    if kind == BYTES or (kind == OCTETS and length < VIEWED_BYTES):
        return PyBytes_FromStringAndSize(<const char*> source.data + position, length)
    return take_view(<object> source.buffer, position, length)


cdef object take_view(object buffer, Py_ssize_t position, Py_ssize_t length):
    """Return a view of a part of the frame."""
    whole = buffer if PyMemoryView_Check(buffer) else PyMemoryView_FromObject(buffer)
    return whole[position:position + length]


cdef inline object take_text(Source* source, Py_ssize_t length):
    """Read text whose bytes are inside the frame; refuse text that U+FFFD makes too long."""
    cdef Py_ssize_t size
    text = PyUnicode_DecodeUTF8(<const char*> source.data + source.position, length, AS_JAVAS)
    if 3 * length > MAX_STRING_BYTES:
        PyUnicode_AsUTF8AndSize(text, &size)
        if size > MAX_STRING_BYTES:
            fail(source, f"a text of {size} bytes, more than {MAX_STRING_BYTES},")
    source.position += length
    return text


cdef object take_float(Source* source):
    cdef uint64_t bits = <uint64_t> take_int(source, INT64)
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef int64_t take_count(Source* source, Field* field, bint is_flexible) except -2:
    """Read the number of an array's elements; the remaining bytes and the room limit it."""
    cdef int64_t count = take_length(source, is_flexible, INT32)
    cdef Py_ssize_t least
    if count < 0:
        if not field.is_nullable:
            fail(source, "null, where an array is required,")
        return -1
    if field.kind == STRUCT:
        least = (<Table> <object> field.child).min_size
        if least == 0:
            least = 1
    elif field.kind <= UUID:
        least = SIZES[field.kind]
    else:
        least = 1 if is_flexible else 2
    if count > (source.end - source.position) // least:
        fail(source, f"an array of {count} elements")
    take_room(source, count)
    return count


cdef object take_array(Source* source, Field* field, bint is_flexible):
    """Read an array."""
    cdef int64_t count = take_count(source, field, is_flexible)
    cdef Table child = None
    cdef Py_ssize_t i
    if count < 0:
        return None
    if field.kind == STRUCT:
        child = <Table> <object> field.child
        if child.is_numbers and count and (not child.is_flexible or are_untagged(source, child, count)):
            return take_grid(source, child, count)
        if child.text >= 0 and count:
            items = take_texts(source, child, count)
            if items is not None:
                return items
    items = PyList_New(count)
    for i in range(count):
        if field.kind == STRUCT:
            item = read_struct(child, source)
        else:
            item = take_value(source, field.kind, is_flexible, False)
        Py_INCREF(item)
        PyList_SET_ITEM(items, i, item)
    return items


cdef bint are_untagged(Source* source, Table table, Py_ssize_t count) noexcept:
    """Return whether structures of numbers, inside the frame, have no tagged fields."""
    cdef const unsigned char* end = source.data + source.position - 1
    cdef Py_ssize_t i
    for i in range(count):
        end += table.min_size
        if end[0] != 0:
            return False
    return True


cdef Grid take_grid(Source* source, Table table, Py_ssize_t count):
    """Read structures of numbers, inside the frame."""
    cdef Py_ssize_t row, i
    cdef Field* field
    cdef Grid grid = Grid(count, table.count)
    cdef long long* numbers = grid.numbers
    grid.table = table
    for row in range(count):
        for i in range(table.count):
            field = &table.fields[i]
            if field.is_present and field.tag == NO_TAG:
                numbers[i] = take_int(source, field.kind)
            else:
                numbers[i] = field.number
        numbers += table.count
        source.position += table.is_flexible
    return grid


cdef Grid take_texts(Source* source, Table table, Py_ssize_t count):
    """Read structures of numbers and a text; return None, unread, if one has tagged fields."""
    cdef Py_ssize_t row, i, before = source.position
    cdef Field* field
    cdef Grid grid = Grid(count, table.count)
    cdef long long* numbers = grid.numbers
    cdef list texts = PyList_New(count)
    cdef object text
    grid.table = table
    source.table = <PyObject*> table
    for row in range(count):
        for i in range(table.count):
            field = &table.fields[i]
            if i == table.text:
                source.field = i
                text = take_long(source, STRING, table.is_flexible, field.is_nullable)
                Py_INCREF(text)
                PyList_SET_ITEM(texts, row, text)
            elif field.is_present and field.tag == NO_TAG:
                source.field = i
                need(source, SIZES[field.kind])
                numbers[i] = take_int(source, field.kind)
            else:
                numbers[i] = field.number
        numbers += table.count
        if not table.is_flexible:
            continue
        if source.position >= source.end or source.data[source.position] != 0:
            source.position = before
            return None
        source.position += 1
    grid.put_column(table.text, texts)
    return grid


cdef inline object read_field(Source* source, Field* field, bint is_flexible, bint is_tagged):
    """Read one field of a structure."""
    if field.is_array:
        return take_array(source, field, is_flexible)
    if field.kind != STRUCT:
        return take_value(source, field.kind, is_flexible, field.is_nullable)
    if field.is_nullable:
        if is_tagged:
            if take_varint(source) == 0:
                return None
        else:
            need(source, 1)
            if take_int(source, INT8) < 0:
                return None
    return read_struct(<Table> <object> field.child, source)


cdef object read_struct(Table table, Source* source):
    """Read a structure as an instance of its class."""
    row = PyType_GenericAlloc(<PyTypeObject*> table.cls, table.count)
    read_columns(table, source, row, table.count)
    if table.is_flexible:
        source.field = table.count
        if source.position < source.end and source.data[source.position] == 0:
            source.position += 1
        else:
            read_tags(table, source, row)
    return row


cdef inline int read_columns(Table table, Source* source, object row, Py_ssize_t count) except -1:
    """Read the first fields of a structure; tagged fields get their defaults."""
    cdef Py_ssize_t i
    cdef Field* field
    cdef object value
    source.table = <PyObject*> table
    for i in range(count):
        field = &table.fields[i]
        if field.is_present and field.tag == NO_TAG:
            source.field = i
            if field.is_array or field.kind == STRUCT:
                value = read_field(source, field, table.is_flexible, False)
                source.table = <PyObject*> table
            else:
                value = take_value(source, field.kind, table.is_flexible, field.is_nullable)
        else:
            value = <object> field.default
        Py_INCREF(value)
        PyTuple_SET_ITEM(row, i, value)
    return 0


cdef int read_tags(Table table, Source* source, object row) except -1:
    """Read the tagged fields of a structure; unknown ones are skipped (KIP-482)."""
    cdef int64_t count = take_tag_count(source)
    cdef int64_t tag, size
    cdef Py_ssize_t i, stop, outer
    cdef Field* field
    cdef object value
    for _ in range(count):
        source.table = <PyObject*> table
        source.field = table.count
        tag = take_varint(source)
        size = take_varint(source)
        need(source, size)
        stop = source.position + size
        for i in range(table.count):
            field = &table.fields[i]
            if field.tag == tag:
                outer = source.end
                source.end = stop
                source.field = i
                value = read_field(source, field, True, True)
                source.end = outer
                Py_INCREF(value)
                set_item(row, i, value)
                break
        source.position = stop
    return 0


cdef int set_item(object row, Py_ssize_t i, object value) except -1:
    """Replace a field's default by a value; the reference is stolen."""
    cdef PyObject* old = <PyObject*> PyTuple_GET_ITEM(row, i)
    PyTuple_SET_ITEM(row, i, value)
    Py_DECREF_POINTER(old)
    return 0


# Writing ------------------------------------------------------------------------------------------

@cython.final
cdef class Sink:
    """The output: one growing piece of bytes, which is cut where a range of a file belongs."""

    cdef unsigned char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room
    cdef Py_ssize_t cut  # the position of the first byte that is in no part yet
    cdef list parts  # None while there is no range
    cdef Py_ssize_t ranges  # how many bytes all ranges have
    cdef Py_ssize_t at_once  # how many more elements before `Many` is raised
    cdef list errors

    def __cinit__(self):
        self.data = <unsigned char*> PyMem_Malloc(FIRST_ROOM)
        if self.data == NULL:
            raise MemoryError
        self.room = FIRST_ROOM
        self.at_once = NO_LIMIT

    def __dealloc__(self):
        PyMem_Free(self.data)

    cdef inline unsigned char* more(self, Py_ssize_t size) except NULL:
        """Return the address at which ``size`` bytes may be written."""
        if self.size + size > self.room:
            self.grow(size)
        self.size += size
        return self.data + self.size - size

    cdef int grow(self, Py_ssize_t size) except -1:
        cdef Py_ssize_t room = 2 * self.room
        if room < self.size + size:
            room = self.size + size
        cdef unsigned char* data = <unsigned char*> PyMem_Realloc(self.data, room)
        if data == NULL:
            raise MemoryError
        self.data = data
        self.room = room
        return 0

    cdef inline int put_int(self, int64_t value, int size) except -1:
        store_int(self.more(size), value, size)
        return 0

    cdef int put_varint(self, uint64_t value) except -1:
        while value >= 0x80:
            self.more(1)[0] = <unsigned char> (value & 0x7F | 0x80)
            value >>= 7
        self.more(1)[0] = <unsigned char> value
        return 0

    cdef int put_length(self, Py_ssize_t length, bint is_flexible, int size) except -1:
        if is_flexible:
            return self.put_varint(<uint64_t> (length + 1))
        return self.put_int(length, size)

    cdef int put_range(self, object value) except -1:
        """Cut the bytes here, and add a range of a file."""
        if self.parts is None:
            self.parts = []
        self.parts.append(PyBytes_FromStringAndSize(<char*> self.data + self.cut, self.size - self.cut))
        self.parts.append(value)
        self.ranges += len(value)
        self.cut = self.size
        return 0


cdef inline void store_int(unsigned char* data, int64_t value, int size) noexcept:
    """Write an integer at an address with room for it."""
    if size == 4:
        store32(data, <uint32_t> value)
    elif size == 8:
        store64(data, <uint64_t> value)
    elif size == 2:
        store16(data, <uint16_t> value)
    else:
        data[0] = <unsigned char> value


cdef Sink SPARE = None  # kept for the next message: creating a sink costs more than a small message


cdef Sink take_sink():
    """Return an empty sink; the caller returns it with `keep_sink`."""
    global SPARE
    cdef Sink sink = SPARE
    if sink is None:
        return Sink()
    SPARE = None
    sink.size = 0
    sink.cut = 0
    sink.ranges = 0
    sink.at_once = NO_LIMIT
    return sink


cdef int keep_sink(Sink sink) except -1:
    """Keep a sink for the next message, unless the sink is large."""
    global SPARE
    if sink.room <= MAX_KEPT:
        sink.parts = None
        sink.errors = None
        SPARE = sink
    return 0


def write(Table table, object row: Any, int head=NO_HEAD) -> bytes:
    """Return a structure's bytes, after an int16 if given; see `reference.messages.write`."""
    cdef Sink sink = take_sink()
    written = put_whole(sink, table, row, head)
    keep_sink(sink)
    return written


cdef struct Place:
    Py_ssize_t at  # in the bytes
    Py_ssize_t column
    Py_ssize_t field
    int kind


def write_alike(
    Table table, object row: Any, int head, Grid grid, tuple columns: tuple[int, ...],
    Py_ssize_t start, Py_ssize_t stop,
) -> list[bytes]:
    """Return structures that differ in a grid's numbers; see `reference.messages.write_alike`."""
    cdef Sink sink
    cdef Field* field
    cdef Place* places
    cdef Py_ssize_t i, column, known = 0
    cdef list written
    check_row(table, row)
    if start < 0 or start > stop or stop > grid.count or len(columns) != table.count:
        raise IndexError(f"rows {start} to {stop} of {grid.count}, {len(columns)} columns")
    places = <Place*> PyMem_Malloc(table.count * sizeof(Place))
    if places == NULL:
        raise MemoryError
    try:
        sink = take_sink()
        sink.put_int(head, 2)
        for i in range(table.count):
            field = &table.fields[i]
            column = columns[i]
            if column >= grid.width:
                raise IndexError(f"column {column} of {grid.width}")
            if not field.is_present or field.tag != NO_TAG:
                continue
            if column < 0:
                put_member(sink, table, i, field, <object> PyTuple_GET_ITEM(row, i))
                continue
            if field.is_array or field.kind > INT64 or (grid.columns is not None and grid.columns[column] is not None):
                raise TypeError(f"{table.cls.__name__}.{table.cls._fields[i]} is no number")
            places[known] = Place(sink.size, column, i, field.kind)
            known += 1
            sink.put_int(0, SIZES[field.kind])
        end_struct(table, sink, row)
        if sink.parts is not None:
            raise TypeError(f"{table.cls.__name__} has ranges of files; only a response can")
        written = put_alike(sink, table, grid, places, known, start, stop)
        keep_sink(sink)
        return written
    finally:
        PyMem_Free(places)


cdef list put_alike(Sink sink, Table table, Grid grid, Place* places, Py_ssize_t known, Py_ssize_t start, Py_ssize_t stop):
    """Return copies of a sink's bytes, each with the numbers of one row in their places."""
    cdef list written = PyList_New(stop - start)
    cdef Py_ssize_t place, i
    cdef Place* here
    cdef int64_t number
    cdef bytes octets
    cdef unsigned char* data
    for place in range(start, stop):
        octets = PyBytes_FromStringAndSize(<char*> sink.data, sink.size)
        data = <unsigned char*> PyBytes_AS_STRING(octets)  # not shared yet
        for i in range(known):
            here = &places[i]
            number = cell_of(grid, place, here.column)
            check_number(table, here.field, here.kind, number)
            store_int(data + here.at, number, SIZES[here.kind])
        Py_INCREF(octets)
        PyList_SET_ITEM(written, place - start, octets)
    return written


cdef bytes put_whole(Sink sink, Table table, object row, int head):
    """Write a structure into a sink, replacing the sink's content."""
    sink.size = 0
    if head != NO_HEAD:
        sink.put_int(head, 2)
    put_struct(table, sink, row)
    if sink.parts is not None:
        raise TypeError(f"{table.cls.__name__} has ranges of files; only a response can")
    return PyBytes_FromStringAndSize(<char*> sink.data, sink.size)


cdef Sink begin_response(int32_t correlation_id, bint has_tags, list errors):
    """Return a sink with the head of a response, and room for its size."""
    cdef Sink sink = take_sink()
    sink.errors = errors
    sink.put_int(0, 4)
    sink.put_int(correlation_id, 4)
    if has_tags:
        sink.put_int(0, 1)
    return sink


cpdef write_response(
    Table table, object row: Any, int32_t correlation_id, bint has_tags,
    list errors: list[int] | None, Py_ssize_t at_once=NO_LIMIT,
):  # -> bytes | Parts | None
    """Return a response with its size and head; see `reference.messages.write_response`."""
    cdef Sink sink = begin_response(correlation_id, has_tags, errors)
    cdef Py_ssize_t before = 0 if errors is None else len(errors)
    sink.at_once = at_once
    try:
        put_struct(table, sink, row)
    except Many:
        if errors is not None:
            del errors[before:]
        return None
    response = end_response(sink)
    keep_sink(sink)
    return response


def write_response_in_steps(
    Table table, object row: Any, int32_t correlation_id, bint has_tags,
    list errors: list[int] | None,
) -> Generator[None, None, bytes | Parts]:
    """Return the result of `write_response` after some steps; see `tests/reference/messages.py`."""
    cdef Writer writer = Writer()
    writer.sink = begin_response(correlation_id, has_tags, errors)
    return writer.whole(table, row)


@cython.final
cdef class Writer:
    """A response that is written some elements at a time."""

    cdef Sink sink
    cdef Py_ssize_t left  # elements of this step

    def whole(self, Table table, object row):
        """Write the body and return the response."""
        self.left = STEP
        yield from self.struct_(table, row)
        return end_response(self.sink)

    def struct_(self, Table table, object row):
        """Write a structure that may have many elements."""
        cdef Py_ssize_t i
        cdef Field* field
        check_row(table, row)
        for i in range(table.count):
            field = &table.fields[i]
            if field.is_present and field.tag == NO_TAG:
                value = <object> PyTuple_GET_ITEM(row, i)
                if field.is_array and value is not None:
                    yield from self.array(table, i, value)
                else:
                    self.sink.at_once = NO_LIMIT
                    put_field(self.sink, table, i, value, False)
                note_error(self.sink, field, value)
        self.sink.at_once = NO_LIMIT
        end_struct(table, self.sink, row)

    def array(self, Table table, Py_ssize_t place, object value):
        """Write an array; after some elements, let other work run."""
        cdef Py_ssize_t count, i
        items = PySequence_Fast(value, "an array is a list or a tuple")
        count = PySequence_Fast_GET_SIZE(items)
        self.sink.put_length(count, table.is_flexible, 4)
        for i in range(count):
            if self.left <= 0:
                yield
                self.left = STEP
            item = <object> PySequence_Fast_GET_ITEM(items, i)
            if not self.element(table, place, item):
                yield from self.struct_(<Table> <object> table.fields[place].child, item)

    cdef bint element(self, Table table, Py_ssize_t place, object item) except -1:
        """Write one element; write nothing and return false if it has too many elements."""
        cdef Sink sink = self.sink
        cdef Py_ssize_t size = sink.size, cut = sink.cut, ranges = sink.ranges
        cdef Py_ssize_t parts = -1 if sink.parts is None else len(sink.parts)
        cdef Py_ssize_t errors = -1 if sink.errors is None else len(sink.errors)
        sink.at_once = STEP
        try:
            put_element(sink, table, place, item)
        except Many:
            sink.size = size
            sink.cut = cut
            sink.ranges = ranges
            if parts < 0:
                sink.parts = None
            else:
                del sink.parts[parts:]
            if errors >= 0:
                del sink.errors[errors:]
            self.left -= STEP
            return False
        self.left -= 1 + STEP - sink.at_once + (sink.size - size) // STEP
        return True


cdef object end_response(Sink sink):
    """Return the response, now that its size is known."""
    cdef Py_ssize_t size = sink.size + sink.ranges - 4
    if size > 0x7FFFFFFF:
        raise OverflowError(f"a response of {size} bytes")
    if sink.parts is None:
        store32(sink.data, <uint32_t> size)
        return PyBytes_FromStringAndSize(<char*> sink.data, sink.size)
    parts = sink.parts
    if sink.cut < sink.size:
        parts.append(PyBytes_FromStringAndSize(<char*> sink.data + sink.cut, sink.size - sink.cut))
    first = parts[0]
    store32(<unsigned char*> PyBytes_AS_STRING(first), <uint32_t> size)  # not shared yet
    return parts


cdef inline int put_number(Sink sink, Table table, Py_ssize_t place, int kind, int64_t number) except -1:
    """Write an integer; refuse an integer that its kind cannot hold."""
    check_number(table, place, kind, number)
    return sink.put_int(number, SIZES[kind])


cdef inline int check_number(Table table, Py_ssize_t place, int kind, int64_t number) except -1:
    """Refuse an integer that its kind cannot hold."""
    if number < LOWEST[kind] or number > HIGHEST[kind]:
        raise OverflowError(f"{table.cls.__name__}.{table.cls._fields[place]} cannot be {number}")
    return 0


cdef inline int put_value(Sink sink, Table table, Py_ssize_t place, int kind, bint is_flexible, bint is_nullable, object value) except -1:
    """Write one value that is no structure."""
    if kind <= INT64:
        return put_number(sink, table, place, kind, value)
    return put_long(sink, table, place, kind, is_flexible, is_nullable, value)


cdef int put_long(Sink sink, Table table, Py_ssize_t place, int kind, bint is_flexible, bint is_nullable, object value) except -1:
    """Write a value that is neither an integer nor a structure."""
    cdef int64_t number
    cdef Py_ssize_t length
    cdef const char* text
    cdef Py_buffer view
    cdef double real
    if kind == FLOAT64:
        real = value
        memcpy(&number, &real, 8)
        return sink.put_int(number, 8)
    if value is None:
        if not is_nullable:
            raise TypeError(f"{table.cls.__name__}.{table.cls._fields[place]} cannot be null")
        return sink.put_length(-1, is_flexible, 2 if kind == STRING else 4)
    if kind == STRING:
        text = PyUnicode_AsUTF8AndSize(value, &length)
        if length > MAX_STRING_BYTES:
            raise OverflowError(f"{table.cls.__name__}.{table.cls._fields[place]} has {length} bytes")
        sink.put_length(length, is_flexible, 2)
        memcpy(sink.more(length), text, length)
        return 0
    if kind == UUID:
        if not PyBytes_CheckExact(value) or PyBytes_GET_SIZE(value) != 16:
            raise TypeError(f"{table.cls.__name__}.{table.cls._fields[place]} is no id of 16 bytes")
        memcpy(sink.more(16), PyBytes_AS_STRING(value), 16)
        return 0
    if PyBytes_CheckExact(value):
        length = PyBytes_GET_SIZE(value)
        sink.put_length(length, is_flexible, 4)
        memcpy(sink.more(length), PyBytes_AS_STRING(value), length)
        return 0
    if kind == RECORDS and not isinstance(value, (bytes, bytearray, memoryview)):
        sink.put_length(len(value), is_flexible, 4)
        return sink.put_range(value)
    PyObject_GetBuffer(value, &view, PyBUF_SIMPLE)
    try:
        sink.put_length(view.len, is_flexible, 4)
        memcpy(sink.more(view.len), view.buf, view.len)
    finally:
        PyBuffer_Release(&view)
    return 0


cdef inline int put_element(Sink sink, Table table, Py_ssize_t place, object item) except -1:
    """Write one element of an array."""
    cdef Field* field = &table.fields[place]
    if field.kind != STRUCT:
        return put_value(sink, table, place, field.kind, table.is_flexible, False, item)
    if PyBytes_CheckExact(item):  # the bytes were written before, in the same version
        memcpy(sink.more(PyBytes_GET_SIZE(item)), PyBytes_AS_STRING(item), PyBytes_GET_SIZE(item))
        return 0
    return put_struct(<Table> <object> field.child, sink, item)


cdef int put_field(Sink sink, Table table, Py_ssize_t place, object value, bint is_tagged) except -1:
    """Write one field of a structure."""
    cdef Field* field = &table.fields[place]
    cdef Py_ssize_t count, i
    if field.is_array:
        if value is None:
            if not field.is_nullable:
                raise TypeError(f"{table.cls.__name__}.{table.cls._fields[place]} cannot be null")
            return sink.put_length(-1, table.is_flexible, 4)
        if type(value) is Grid:
            return put_grid(sink, table, place, <Grid> value)
        items = PySequence_Fast(value, "an array is a list or a tuple")
        count = PySequence_Fast_GET_SIZE(items)
        if count > sink.at_once:
            raise Many
        sink.at_once -= count
        sink.put_length(count, table.is_flexible, 4)
        for i in range(count):
            put_element(sink, table, place, <object> PySequence_Fast_GET_ITEM(items, i))
        return 0
    if field.kind != STRUCT:
        return put_value(sink, table, place, field.kind, table.is_flexible, field.is_nullable, value)
    if field.is_nullable:
        sink.put_int((0 if is_tagged else -1) if value is None else 1, 1)
        if value is None:
            return 0
    return put_struct(<Table> <object> field.child, sink, value)


cdef int put_grid(Sink sink, Table table, Py_ssize_t place, Grid grid) except -1:
    """Write an array of structures whose values are in a grid."""
    cdef Table child
    cdef Field* field = &table.fields[place]
    cdef Py_ssize_t row, i
    cdef long long* numbers = grid.numbers
    if field.kind != STRUCT or (<Table> <object> field.child).count != grid.width:
        raise TypeError(f"{table.cls.__name__}.{table.cls._fields[place]} is no grid of {grid.width} columns")
    if grid.count > sink.at_once:
        raise Many
    sink.at_once -= grid.count
    sink.put_length(grid.count, table.is_flexible, 4)
    child = <Table> <object> field.child
    for row in range(grid.count):
        for i in range(child.count):
            field = &child.fields[i]
            if not field.is_present or field.tag != NO_TAG:
                continue
            if grid.columns is not None and grid.columns[i] is not None:
                put_member(sink, child, i, field, grid.cell(row, i))
            elif field.is_array or field.kind > INT64:
                raise TypeError(f"{child.cls.__name__}.{child.cls._fields[i]} is no number")
            else:
                put_number(sink, child, i, field.kind, numbers[i])
                if field.is_error and numbers[i] != 0 and sink.errors is not None:
                    sink.errors.append(numbers[i])
        numbers += grid.width
        if not child.is_flexible:
            continue
        if tells_tags(child, grid, row):
            put_tags(child, sink, grid.row(row))
        else:
            sink.put_int(0, 1)
    return 0


cdef bint tells_tags(Table table, Grid grid, Py_ssize_t row) except -1:
    """Return whether a row has a tagged field with another value than its default."""
    cdef Py_ssize_t i, place
    for i in range(table.tagged):
        place = table.tag_order[i]
        if is_told(&table.fields[place], grid.cell(row, place)):
            return True
    return False


cdef int put_struct(Table table, Sink sink, object row) except -1:
    """Write a structure: a tuple with a value for each field of the newest version."""
    cdef Py_ssize_t i
    cdef Field* field
    cdef PyObject* value
    check_row(table, row)
    for i in range(table.count):
        field = &table.fields[i]
        if field.is_present and field.tag == NO_TAG:
            value = <PyObject*> PyTuple_GET_ITEM(row, i)
            put_member(sink, table, i, field, <object> value)
    return end_struct(table, sink, row)


cdef inline int check_row(Table table, object row) except -1:
    """Refuse a value that is not a structure with these fields."""
    if not isinstance(row, tuple) or PyTuple_GET_SIZE(row) != table.count:
        raise TypeError(f"{table.cls.__name__} has {table.count} fields, not {row!r:.200}")
    return 0


cdef inline int put_member(Sink sink, Table table, Py_ssize_t i, Field* field, object value) except -1:
    """Write a field without a tag, and report it if it is an error code other than zero."""
    cdef int64_t number
    if field.is_array or field.kind == STRUCT:
        return put_field(sink, table, i, value, False)
    if field.kind > INT64:
        return put_long(sink, table, i, field.kind, table.is_flexible, field.is_nullable, value)
    number = value
    put_number(sink, table, i, field.kind, number)
    if field.is_error and number != 0 and sink.errors is not None:
        sink.errors.append(number)
    return 0


cdef inline int note_error(Sink sink, Field* field, object value) except -1:
    """Report an error code other than zero."""
    if field.is_error and sink.errors is not None and value != 0:
        sink.errors.append(int(value))
    return 0


cdef inline int end_struct(Table table, Sink sink, object row) except -1:
    """Write the tagged fields that end a structure of a flexible version."""
    if table.is_flexible:
        if table.tagged == 0:
            sink.put_int(0, 1)
        else:
            put_tags(table, sink, row)
    return 0


cdef int put_tags(Table table, Sink sink, object row) except -1:
    """Write the tagged fields that differ from their defaults, in the order of their tags."""
    cdef Py_ssize_t i, place
    cdef Field* field
    cdef Sink content
    cdef object value
    told = None
    for i in range(table.tagged):
        place = table.tag_order[i]
        field = &table.fields[place]
        value = <object> PyTuple_GET_ITEM(row, place)
        if is_told(field, value):
            content = Sink()
            content.errors = sink.errors
            put_field(content, table, place, value, True)
            if told is None:
                told = []
            told.append((field.tag, content))
    if told is None:
        return sink.put_int(0, 1)
    sink.put_varint(len(told))
    for tag, content in told:
        sink.put_varint(tag)
        sink.put_varint(content.size)
        memcpy(sink.more(content.size), content.data, content.size)
    return 0


cdef bint is_told(Field* field, object value) except -1:
    """Return whether a tagged field differs from its default."""
    if value is <object> field.default:
        return False
    if field.is_array and value is not None and <object> field.default is not None:
        return len(value) > 0
    return value != <object> field.default
