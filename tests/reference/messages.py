"""Messages read and written by tables, in plain Python: the specification of `_messages.pyx`.

A structure is a tuple with a value for each field that any version has. Up to the first flexible
version lengths are int16 (strings) or int32 and -1 is null; from it on they are varints of length
plus one, 0 is null, and every structure ends with tagged fields, of which unknown ones are skipped
(KIP-482). A structure that may be null begins with a byte: -1 is null, in a tagged field 0. Every
length is compared with the end of the frame before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from struct import error as StructError  # noqa: N812  # what struct raises
from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.java import AS_JAVA

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from siltstone.protocol.core.fields import Field
    from siltstone.protocol.parts import Buffer, Parts

# The numbers of `protocol.core.fields.KINDS`.
_FIXED: Final = tuple(map(Struct, (">?", ">b", ">h", ">H", ">i", ">I", ">q", ">d", "16s")))
_BOOL, _UUID, _STRING, _BYTES, _RECORDS, _OCTETS, _STRUCT = 0, 8, 9, 10, 11, 12, 13
_HEAD: Final = Struct(">hhi")
_INT16: Final = _FIXED[2]
_INT32: Final = _FIXED[4]
_NO_TAG: Final = -1
_MAX_HEAD_TAGS: Final = 1000
_MAX_STRING_BYTES: Final = (1 << 15) - 1  # in both encodings, as in Kafka
_VIEWED_BYTES: Final = 128 * 1024
_INT32_MAX: Final = (1 << 31) - 1
_FIVE_OCTETS: Final = (1 << 35) - 1
_NO_LIMIT: Final = (1 << 63) - 1
_STEP: Final = 1000  # elements


class _TooManyError(Exception):
    """More elements than are read or written at once."""


class Table:
    """One structure in one version: its class, a NamedTuple, and its fields in order.

    ``min_size`` is how many bytes it takes at least.
    """

    __slots__ = ("_by_tag", "cls", "fields", "is_flexible", "min_size")

    def __init__(self, cls: Any, fields: Sequence[Field], is_flexible: bool) -> None:
        if not issubclass(cls, tuple):
            raise TypeError(f"{cls.__name__} is no NamedTuple")
        for field in fields:
            if (field.kind == _STRUCT) != isinstance(field.child, Table):
                raise TypeError(f"a structure, and nothing else, has a table: {field}")
        self.cls = cls
        self.fields = fields
        self.is_flexible = is_flexible
        self.min_size = is_flexible + sum(
            _min_size(field, is_flexible) for field in fields if _is_plain(field)
        )
        tagged = [(each.tag, place) for place, each in enumerate(fields) if _is_tagged(each)]
        self._by_tag = dict(sorted(tagged))

    def tagged(self, tag: int) -> int:
        """Return the place of the field with a tag, or -1."""
        return self._by_tag.get(tag, -1)

    @property
    def tags(self) -> dict[int, int]:
        """The places of the tagged fields of this version, by their tags."""
        return self._by_tag


def _is_plain(field: Field) -> bool:
    return field.is_present and field.tag == _NO_TAG


def _is_tagged(field: Field) -> bool:
    return field.is_present and field.tag != _NO_TAG


def _element_of(field: Field) -> Field:
    return field._replace(is_array=False, is_nullable=False)


def _min_size(field: Field, is_flexible: bool) -> int:
    if field.is_array or field.kind in {_BYTES, _RECORDS, _OCTETS}:
        return 1 if is_flexible else 4
    if field.kind == _STRING:
        return 1 if is_flexible else 2
    if field.child is not None:
        return 1 if field.is_nullable else field.child.min_size
    return _FIXED[field.kind].size


class Grid(Sequence[Any]):
    """Rows of numbers, with other values in some columns: an array without an object for each row.

    It is a sequence of tuples. What a table reads may come as one, if its structures have nothing
    but numbers, and at most one text, and no tagged fields; its rows are then of their class.
    What is written may be one. The columns are the fields of a structure, those of other versions
    too; one that is no number has to have its own values.
    """

    __slots__ = ("_rows", "width")

    __hash__ = None  # type: ignore[assignment]  # like a list

    def __init__(self, count: int, width: int) -> None:
        """All numbers are 0."""
        if count < 0 or width < 1:
            raise ValueError(f"{count} rows of {width} columns")
        self.width = width
        self._rows = [[0] * width for _ in range(count)]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [tuple(row) for row in self._rows[index]]
        return tuple(self._rows[index])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(tuple, self._rows)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (Grid, list)):
            return list(self) == list(other)
        return NotImplemented

    def __repr__(self) -> str:
        return repr(list(self))

    def put(self, place: int, column: int, number: int) -> None:
        """Set a number.

        Raises:
            IndexError: There is no such row or column.
        """
        if not (0 <= place < len(self) and 0 <= column < self.width):
            raise IndexError(f"row {place}, column {column}")
        self._rows[place][column] = number

    def put_column(self, column: int, values: list[Any]) -> None:
        """Set a column of other values, one for each row; what comes after them is not looked at.

        Whether the grid keeps the list is not said.

        Raises:
            IndexError: There is no such column, or too few values.
        """
        if not 0 <= column < self.width or len(values) < len(self):
            raise IndexError(f"{len(values)} values for column {column}")
        for row, value in zip(self._rows, values, strict=False):
            row[column] = value


def grid_of(rows: Sequence[Any], width: int) -> Grid:
    """Return rows as a grid that has at least their first columns."""
    if isinstance(rows, Grid):
        return rows
    grid = Grid(len(rows), width)
    for column in range(width):
        grid.put_column(column, [row[column] for row in rows])
    return grid


# Reading ------------------------------------------------------------------------------------------


def read(
    table: Table, buffer: Buffer, position: int, end: int, room: int, at_once: int = _NO_LIMIT
) -> tuple[Any, int]:
    """Read a structure from ``buffer[position:end]``; return it and the position behind it.

    All arrays and tagged fields together have at most ``room`` elements. Strings and bytes are
    copies, with U+FFFD where a string is no UTF-8, as in Java; records are views of the buffer. If
    they have more than ``at_once``, nothing is read: None and -1 are returned.

    Raises:
        ProtocolError: The bytes are no such structure: the field, the reason and the place.
    """
    if not 0 <= position <= end <= memoryview(buffer).nbytes:
        raise IndexError(f"{position} to {end} of a buffer of {len(buffer)} bytes")
    source = _Source(buffer, position, end, room, at_once)
    try:
        return source.read_struct(table), source.position
    except _TooManyError:
        return None, -1


def fill_versioned(
    grid: Grid,
    first: int,
    tables: list[Table],
    cells: list[bytes | None],
    missing: tuple[Any, ...],
) -> None:
    """Put the first columns of structures that stand behind an int16, their version, into a grid.

    They go into the columns from ``first`` on, a row for each cell; instead of a cell that is None
    goes ``missing``. Where that has no number the column gets other values. What comes after these
    columns is not read.

    Raises:
        IndexError: There is no table for a version; or the grid has other rows, or no such columns.
        TypeError: A column is no number, and should be.
        ProtocolError: As `read`.
    """
    count = len(missing)
    if not 0 <= first <= grid.width - count or len(cells) != len(grid):
        raise IndexError(f"{len(cells)} rows of {count} columns from {first} on")
    rows: list[Sequence[Any]] = []
    for cell in cells:
        if cell is None:
            rows.append(missing)
            continue
        version = int.from_bytes(cell[:2], "big", signed=True) if len(cell) > 1 else -1
        if not 0 <= version < len(tables):
            raise IndexError(f"no table for version {version}")
        source = _Source(cell, 2, len(cell), len(cell))
        rows.append(source.read_columns(tables[version], count))
    for column, value in enumerate(missing):
        values = [row[column] for row in rows]
        if not isinstance(value, int):
            grid.put_column(first + column, values)
            continue
        for place, number in enumerate(values):
            if not isinstance(number, int):
                raise TypeError(f"{number!r:.200} is no number")
            grid.put(place, first + column, number)


def read_in_steps(
    table: Table, buffer: Buffer, position: int, end: int, room: int
) -> Generator[None, None, tuple[Any, int]]:
    """Yield now and then, and return what `read` does.

    A step is about 1,000 elements. The buffer must stay as it is until the last of them.

    Raises:
        ProtocolError: As `read`.
    """
    source = _Source(buffer, position, end, room)
    row = yield from source.steps(table)
    return row, source.position


def read_head(
    buffer: Buffer, start: int, end: int, served: Sequence[tuple[int, int, int] | None]
) -> tuple[int, int, int, str | None, int]:
    """Read the head of the request ``buffer[start:end]``, which is behind its size.

    ``served`` has, by the API's key, its lowest and highest version and its first flexible one, or
    None. From the flexible ones on the head ends with tagged fields, which are skipped. The
    client's id has an int16 length in every version.

    Returns:
        Key, version, correlation id, the client's id, and where the body begins. Of what is not
        served the last two are None and -1.

    Raises:
        ProtocolError: The frame ends before its head does.
    """
    if not 0 <= start <= end <= memoryview(buffer).nbytes:
        raise IndexError(f"{start} to {end} of a buffer of {len(buffer)} bytes")
    if end - start < _HEAD.size:
        raise ProtocolError(f"a frame of {end - start} bytes holds no request header")
    key, version, correlation_id = _HEAD.unpack_from(buffer, start)
    versions = served[key] if 0 <= key < len(served) else None
    if versions is None or not versions[0] <= version <= versions[1]:
        return key, version, correlation_id, None, -1
    source = _Source(buffer, start + _HEAD.size, end, _MAX_HEAD_TAGS)
    length = source.take(_INT16)
    client_id = None
    if length >= 0:
        source.need(length)
        client_id = source.take_text(length)
    if version >= versions[2]:
        source.head_field = "tagged fields"
        source.skip_tags()
    return key, version, correlation_id, client_id, source.position


class _Source:
    """A frame while it is read. ``place`` says which structure and field are being read."""

    def __init__(
        self, buffer: Buffer, position: int, end: int, room: int, at_once: int = _NO_LIMIT
    ) -> None:
        self.buffer = buffer
        self.position = position
        self.end = end
        self.room = room
        self.at_once = at_once
        self.done = 0  # elements that were read in steps
        self.place: tuple[Table, int] | None = None
        self.head_field = "client_id"  # of a head, which has no table

    def fail(self, reason: str) -> ProtocolError:
        """Return an error that names the field, the reason and the place."""
        if self.place is None:
            return ProtocolError(
                f"header.{self.head_field}: {reason} at {self.position} in a frame that ends at "
                f"{self.end}"
            )
        table, number = self.place
        names = table.cls._fields
        name = names[number] if number < len(names) else "tagged fields"
        return ProtocolError(
            f"{table.cls.__name__}.{name}: {reason} at {self.position} in a frame that ends at "
            f"{self.end}"
        )

    def need(self, size: int) -> None:
        """Refuse what goes past the end."""
        if size > self.end - self.position:
            raise self.fail(f"a field of {size} bytes")

    def take(self, form: Struct) -> Any:
        """Read a value of fixed size."""
        self.need(form.size)
        (value,) = form.unpack_from(self.buffer, self.position)
        self.position += form.size
        return value

    def take_varint(self, most: int = _INT32_MAX) -> int:
        """Read an unsigned varint of at most five octets; one above ``most`` is refused."""
        value = shift = 0
        for position in range(self.position, min(self.position + 5, self.end)):
            octet = memoryview(self.buffer)[position]
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                if value > most:
                    break
                self.position = position + 1
                return value
            shift += 7
        raise self.fail("no varint ends")

    def take_length(self, table: Table, form: Struct) -> int:
        """Read a length in the encoding of the version; -1 is null, as Kafka has any below 0.

        Of a varint Kafka keeps 32 bits, the first of them as a sign.
        """
        if table.is_flexible:
            compact = (self.take_varint(_FIVE_OCTETS) & 0xFFFFFFFF) - 1
            return compact if compact <= _INT32_MAX else -1
        length: int = self.take(form)
        return max(length, -1)

    def take_value(self, table: Table, kind: int, *, is_nullable: bool) -> Any:
        """Read one value that is no structure."""
        if kind < _STRING:
            if kind == _BOOL:
                return self.take(_FIXED[1]) != 0
            return self.take(_FIXED[kind])
        length = self.take_length(table, _INT16 if kind == _STRING else _INT32)
        if length < 0:
            if not is_nullable:
                raise self.fail("null, where a value is required,")
            return None
        if kind == _STRING and length > _MAX_STRING_BYTES:
            raise self.fail(f"a string of {length} bytes, which is more than {_MAX_STRING_BYTES},")
        self.need(length)
        if kind == _STRING:
            return self.take_text(length)
        view = memoryview(self.buffer)[self.position : self.position + length]
        self.position += length
        is_short = kind == _OCTETS and length < _VIEWED_BYTES
        return bytes(view) if kind == _BYTES or is_short else view

    def take_text(self, length: int) -> str:
        """Read text as Java does; refuse one that is too long once U+FFFD stands in it."""
        stop = self.position + length
        text = str(memoryview(self.buffer)[self.position : stop], "utf-8", AS_JAVA)
        size = len(text.encode())
        if size > _MAX_STRING_BYTES:
            raise self.fail(f"a text of {size} bytes, more than {_MAX_STRING_BYTES},")
        self.position = stop
        return text

    def take_room(self, count: int) -> None:
        """Refuse more elements than the request may have."""
        if count > self.room:
            raise self.fail(
                f"more elements than one request may have: {count}, with {self.room} left,"
            )
        if count > self.at_once:
            raise _TooManyError
        self.room -= count
        self.at_once -= count

    def take_tag_count(self) -> int:
        """Read how many tagged fields follow; they are elements like those of an array."""
        count = self.take_varint()
        if count > (self.end - self.position) // 2:
            raise self.fail(f"{count} tagged fields")
        self.take_room(count)
        return count

    def take_count(self, table: Table, field: Field) -> int:
        """Read how many elements an array has; the bytes that are left and the room bound it."""
        count = self.take_length(table, _INT32)
        if count < 0:
            if not field.is_nullable:
                raise self.fail("null, where an array is required,")
            return -1
        least = max(_min_size(_element_of(field), table.is_flexible), 1)
        if count > (self.end - self.position) // least:
            raise self.fail(f"an array of {count} elements")
        self.take_room(count)
        return count

    def take_array(self, table: Table, field: Field) -> list[Any] | None:
        """Read an array."""
        count = self.take_count(table, field)
        if count < 0:
            return None
        element = _element_of(field)
        return [self.take_field(table, element) for _ in range(count)]

    def steps(self, table: Table) -> Generator[None, None, Any]:
        """Read a structure, and yield within its arrays."""
        values: list[Any] = []
        for number, field in enumerate(table.fields):
            self.place = table, number
            if not _is_plain(field):
                values.append(field.default)
            elif field.is_array:
                values.append((yield from self.array_steps(table, field)))
            else:
                values.append(self.take_field(table, field))
        if table.is_flexible:
            self.read_tags(table, values)
        return table.cls(*values)

    def array_steps(self, table: Table, field: Field) -> Generator[None, None, list[Any] | None]:
        """Read an array, and yield after some of its elements."""
        count = self.take_count(table, field)
        if count < 0:
            return None
        element = _element_of(field)
        items = []
        for _ in range(count):
            self.done += 1
            if self.done % _STEP == 0:
                yield
            if field.child is None:
                items.append(self.take_field(table, element))
            else:
                items.append((yield from self.steps(field.child)))
        return items

    def take_field(self, table: Table, field: Field, *, is_tagged: bool = False) -> Any:
        """Read one field of a structure."""
        if field.is_array:
            return self.take_array(table, field)
        if field.child is None:
            return self.take_value(table, field.kind, is_nullable=field.is_nullable)
        if field.is_nullable:
            mark = self.take_varint() - 1 if is_tagged else self.take(_FIXED[1])
            if mark < 0:
                return None
        return self.read_struct(field.child)

    def read_struct(self, table: Table) -> Any:
        """Read a structure as an instance of its class."""
        values = self.read_columns(table, len(table.fields))
        if table.is_flexible:
            self.read_tags(table, values)
        return table.cls(*values)

    def read_columns(self, table: Table, count: int) -> list[Any]:
        """Read the first fields of a structure; those with a tag have their defaults."""
        values = []
        for number, field in enumerate(table.fields[:count]):
            if _is_plain(field):
                self.place = table, number
                values.append(self.take_field(table, field))
            else:
                values.append(field.default)
        return values

    def read_tags(self, table: Table, values: list[Any]) -> None:
        """Read the tagged fields of a structure; what is unknown is skipped."""
        self.place = here = table, len(values)
        count = self.take_tag_count()
        for _ in range(count):
            self.place = here
            place = table.tagged(self.take_varint())
            size = self.take_varint()
            self.need(size)
            stop = self.position + size
            if place >= 0:
                end, self.end = self.end, stop
                self.place = table, place
                values[place] = self.take_field(table, table.fields[place], is_tagged=True)
                self.end = end
            self.position = stop

    def skip_tags(self) -> None:
        """Skip the tagged fields of a head."""
        count = self.take_tag_count()
        for _ in range(count):
            self.take_varint()
            size = self.take_varint()
            self.need(size)
            self.position += size


# Writing ------------------------------------------------------------------------------------------


def write(table: Table, row: Any, head: int | None = None) -> bytes:
    """Return the bytes of a structure, behind an int16 if a ``head`` is given.

    Raises:
        TypeError: A value has the wrong type, is null where none may be, or is a range of a file.
        OverflowError: A number does not fit its field.
    """
    sink = _Sink()
    if head is not None:
        sink.data += _INT16.pack(head)
    sink.put_struct(table, row)
    if sink.parts:
        raise TypeError(f"{table.cls.__name__} has ranges of files; only a response can")
    return bytes(sink.data)


def write_alike(
    table: Table,
    row: Any,
    head: int,
    grid: Grid,
    columns: tuple[int, ...],
    start: int,
    stop: int,
) -> list[bytes]:
    """Return structures, each behind an int16, that are like one but for numbers of a grid's rows.

    ``columns`` says for each field in which column of the grid it stands, and -1 where it is that
    of ``row``, as of all fields with a tag. Such are the keys of a journal's records, and their
    values.

    Raises:
        IndexError: There are no such rows, or no such columns.
        TypeError, OverflowError: As `write`; also for a column that has other values than numbers.
    """
    if not 0 <= start <= stop <= len(grid) or len(columns) != len(table.fields):
        raise IndexError(f"rows {start} to {stop} of {len(grid)}, {len(columns)} columns")
    written = []
    for numbers in grid[start:stop]:
        values = [
            value if column < 0 else numbers[column]
            for value, column in zip(_check(table, row), columns, strict=True)
        ]
        written.append(write(table, tuple(values), head))
    return written


def write_response(
    table: Table,
    row: Any,
    correlation_id: int,
    has_tags: bool,
    errors: list[int] | None,
    at_once: int = _NO_LIMIT,
) -> bytes | Parts | None:
    """Return a response: its size, its head, its body; in parts if it has ranges of files.

    ``has_tags`` says that the head ends with (no) tagged fields. Error codes that are not zero are
    appended to ``errors``, if given. If its arrays have more than ``at_once`` elements, nothing is
    written: None is returned.

    Raises:
        TypeError, OverflowError: As `write`.
    """
    sink = _Sink(at_once)
    sink.data += _INT32.pack(correlation_id) + bytes(has_tags)
    try:
        sink.put_struct(table, row)
    except _TooManyError:
        return None
    return sink.end(errors)


def write_response_in_steps(
    table: Table, row: Any, correlation_id: int, has_tags: bool, errors: list[int] | None
) -> Generator[None, None, bytes | Parts]:
    """Yield now and then, and return what `write_response` does; a step is about 1,000 elements.

    Raises:
        TypeError, OverflowError: As `write`.
    """
    sink = _Sink()
    sink.data += _INT32.pack(correlation_id) + bytes(has_tags)
    yield from sink.steps(table, row)
    return sink.end(errors)


class _Sink:
    """The written bytes: finished parts, and the bytes behind the last range of a file."""

    def __init__(self, at_once: int = _NO_LIMIT) -> None:
        self.data = bytearray()
        self.at_once = at_once
        self.done = 0  # elements that were written in steps
        self.parts: list[Any] = []
        self.errors: list[int] = []

    def end(self, errors: list[int] | None) -> bytes | Parts:
        """Return the response, now that its size is known."""
        if errors is not None:
            errors += self.errors
        first, *rest = [*self.parts, bytes(self.data)] if self.data else self.parts
        whole: bytes = _INT32.pack(len(first) + sum(map(len, rest))) + first
        return [whole, *rest] if rest else whole

    def put_varint(self, value: int) -> None:
        """Write an unsigned varint."""
        while value >= 0x80:
            self.data.append(value & 0x7F | 0x80)
            value >>= 7
        self.data.append(value)

    def put_length(self, table: Table, length: int, form: Struct) -> None:
        """Write a length in the encoding of the version; -1 is null."""
        if table.is_flexible:
            self.put_varint(length + 1)
        else:
            self.data += form.pack(length)

    def put_value(self, table: Table, place: int, kind: int, value: Any) -> None:
        """Write one value that is no structure."""
        name = f"{table.cls.__name__}.{table.cls._fields[place]}"
        if kind < _STRING:
            try:
                packed = _FIXED[kind].pack(value)
            except StructError as error:
                raise OverflowError(f"{name} cannot be {value!r}") from error
            if kind == _UUID and len(value) != len(packed):
                raise TypeError(f"{name} is no id of {len(packed)} bytes")
            self.data += packed
            return
        form = _INT16 if kind == _STRING else _INT32
        if value is None:
            field = table.fields[place]
            if field.is_array or not field.is_nullable:
                raise TypeError(f"{name} cannot be null")
            self.put_length(table, -1, form)
        elif kind == _STRING:
            encoded = value.encode()
            if len(encoded) > _MAX_STRING_BYTES:
                raise OverflowError(f"{name} has {len(encoded)} bytes")
            self.put_length(table, len(encoded), form)
            self.data += encoded
        else:
            self.put_length(table, len(value), form)
            if kind == _RECORDS and not isinstance(value, (bytes, bytearray, memoryview)):
                self.parts += [bytes(self.data), value]
                self.data.clear()
            else:
                self.data += value

    def put_field(self, table: Table, place: int, value: Any, *, is_tagged: bool = False) -> None:
        """Write one field of a structure."""
        field = table.fields[place]
        if field.is_array:
            self.put_array(table, place, value)
        elif field.child is None:
            self.put_value(table, place, field.kind, value)
        else:
            if field.is_nullable:
                null = b"\0" if is_tagged else b"\xff"
                self.data += null if value is None else b"\1"
                if value is None:
                    return
            self.put_struct(field.child, value)

    def put_array(self, table: Table, place: int, value: Any) -> None:
        """Write an array; an element that is bytes was written before, in the same version."""
        field = table.fields[place]
        if value is None and not field.is_nullable:
            raise TypeError(f"{table.cls.__name__}.{table.cls._fields[place]} cannot be null")
        self.at_once -= len(value or ())
        if self.at_once < 0:
            raise _TooManyError
        self.put_length(table, -1 if value is None else len(value), _INT32)
        for item in value or ():
            self.put_element(table, place, item)

    def put_element(self, table: Table, place: int, item: Any) -> None:
        """Write one element of an array."""
        field = table.fields[place]
        if field.child is None:
            self.put_value(table, place, field.kind, item)
        elif isinstance(item, bytes):
            self.data += item
        else:
            self.put_struct(field.child, item)

    def put_struct(self, table: Table, row: Any) -> None:
        """Write a structure: a tuple with a value for each field of any version."""
        for place, (field, value) in enumerate(zip(table.fields, _check(table, row), strict=True)):
            if _is_plain(field):
                self.put_field(table, place, value)
                if field.is_error and value != 0:
                    self.errors.append(int(value))
        if table.is_flexible:
            self.put_tags(table, row)

    def steps(self, table: Table, row: Any) -> Generator[None, None, None]:
        """Write a structure, and yield within its arrays."""
        for place, (field, value) in enumerate(zip(table.fields, _check(table, row), strict=True)):
            if not _is_plain(field):
                continue
            if field.is_array and value is not None:
                self.put_length(table, len(value), _INT32)
                for item in value:
                    self.done += 1
                    if self.done % _STEP == 0:
                        yield
                    if field.child is None or isinstance(item, bytes):
                        self.put_element(table, place, item)
                    else:
                        yield from self.steps(field.child, item)
            else:
                self.put_field(table, place, value, is_tagged=False)
            if field.is_error and value != 0:
                self.errors.append(int(value))
        if table.is_flexible:
            self.put_tags(table, row)

    def put_tags(self, table: Table, row: Any) -> None:
        """Write the tagged fields that are not at their defaults, by their tags."""
        told = [
            (tag, place) for tag, place in table.tags.items() if _is_told(table, place, row[place])
        ]
        self.put_varint(len(told))
        for tag, place in told:
            content = _Sink()
            content.put_field(table, place, row[place], is_tagged=True)
            self.put_varint(tag)
            self.put_varint(len(content.data))
            self.data += content.data
            self.errors += content.errors


def _check(table: Table, row: Any) -> Any:
    """Return the row if it is a structure with these fields, else refuse it."""
    if not isinstance(row, tuple) or len(row) != len(table.fields):
        raise TypeError(f"{table.cls.__name__} has {len(table.fields)} fields, not {row!r:.200}")
    return row


def _is_told(table: Table, place: int, value: Any) -> bool:
    """Return whether a tagged field differs from its default."""
    field = table.fields[place]
    if field.is_array and value is not None and field.default is not None:
        return len(value) > 0
    return bool(value != field.default)
