"""Every message of the protocol as tables: one module for each API, one line for each field.

A structure is a NamedTuple. Each of its fields is annotated with its form on the wire::

    leader_epoch: Annotated[int, "int32 4+"] = -1
    topics: Annotated[Sequence[Topic] | None, "[]struct null 2+"] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], "[]struct 16+ tag 0"] = ()

These are the type (with ``[]`` before it for an array), the versions that have the field, the
versions in which it may be null, and the number of a tagged field (KIP-482). Without versions, all
versions have the field. A field that a version does not have gets its default when it is read, and
is left out when it is written, so that a handler sees the same structure in every version.

In Python an id is 16 bytes and an error code is an int. An array is read as a list, and may be
written from a list or tuple. Records are read as a view of the frame, and may be written from bytes
or a range of a file. Bytes of a request are read as a view, too, from 128 KiB on: a handler copies
what it keeps, and does so after it knows that it keeps it. To be written, an element of an array of
structures may also be the bytes from `write_part`. An array of structures that have only numbers,
or numbers and one text, may be read as a `Grid`, a sequence without an object for each element. Any
array of structures may be written from a `Grid`.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias, get_args, get_origin

from siltstone.protocol.core import Table, read, write, write_response
from siltstone.protocol.core.fields import KINDS, Field
from siltstone.protocol.parts import Buffer, FileSlice, Parts

Records: TypeAlias = bytes | bytearray | memoryview | FileSlice
Octets: TypeAlias = bytes | memoryview

NO_ID: Final = bytes(16)
"""The id that means no topic."""

AT_ONCE: Final = 4_000
"""A message of at most so many elements is read or written at once: in a millisecond at most."""

MAX_ELEMENTS: Final = 25_000
"""How many elements all arrays and tagged fields of one request may have together.

Kafka's clients ask for at most what one broker has: of 10,000 partitions in as many topics these
are 20,000. As many are read in some milliseconds, and they and their answers take about 10 MB.
More is an attack: such a request is refused before any of its elements is made.
"""

_API_VERSIONS: Final = 18


class Message:
    """A request or a response of an API: its versions, and its table for each."""

    __slots__ = ("_parts", "_tables", "first", "first_flexible", "key", "last", "struct")

    def __init__(self, key: int, first: int, last: int, first_flexible: int, struct: type) -> None:
        """``first_flexible`` is -1 when no version has compact lengths and tagged fields."""
        self.key = key
        self.first = first
        self.last = last
        self.first_flexible = first_flexible
        self.struct = struct
        self._tables: dict[int, Table] = {}
        self._parts: dict[tuple[type, int], Table] = {}

    def is_flexible(self, version: int) -> bool:
        """Tell whether a version has compact lengths and tagged fields."""
        return 0 <= self.first_flexible <= version

    def has_tagged_head(self, version: int) -> bool:
        """Tell whether a response's head has tagged fields; the head of ApiVersions never has."""
        return self.key != _API_VERSIONS and self.is_flexible(version)

    def table(self, version: int) -> Table:
        """Return the table of a version, which is made at the first call.

        Raises:
            ValueError: The message has no such version.
        """
        made = self._tables.get(version)
        if made is None:
            if not self.first <= version <= self.last:
                raise ValueError(f"{self.struct.__name__} has no version {version}")
            made = make_table(self.struct, version, is_flexible=self.is_flexible(version))
            self._tables[version] = made
        return made

    def read(
        self, version: int, buffer: Buffer, position: int, end: int, room: int = MAX_ELEMENTS
    ) -> tuple[Any, int]:
        """Read a body from ``position``; return the body and the position after it.

        Of the buffer, only views of records are kept. Bytes after the body are not read.

        Raises:
            ProtocolError: The bytes are no such body, or its arrays have more than ``room``
                elements.
        """
        return read(self.table(version), buffer, position, end, room)

    def write(self, version: int, row: Any) -> bytes:
        """Return the bytes of a body."""
        return write(self.table(version), row)

    def write_part(self, version: int, row: Any) -> bytes:
        """Return the bytes of a structure in this message, which may be an element of its array.

        ``row`` is an object of the structure's class. Its error codes are not reported when the
        whole message is written.
        """
        form = type(row), version
        table = self._parts.get(form)
        if table is None:
            table = make_table(form[0], version, is_flexible=self.is_flexible(version))
            self._parts[form] = table
        return write(table, row)

    def respond(
        self, version: int, correlation_id: int, row: Any, errors: list[int] | None = None
    ) -> bytes | Parts:
        """Return a response with its size and head; append its error codes to ``errors``."""
        has_tags = self.has_tagged_head(version)
        response = write_response(self.table(version), row, correlation_id, has_tags, errors)
        assert response is not None  # noqa: S101  # which is if it may not have all elements
        return response


Description: TypeAlias = "tuple[type, list[Field]]"
"""A structure of a version: its class and its fields, whose children are descriptions."""


def make_table(struct: Any, version: int, *, is_flexible: bool) -> Table:
    """Return the table of a structure, made from its annotations.

    Raises:
        ValueError: An annotation is not of the form that this module describes.
    """
    return _table_of(describe(struct, version), is_flexible=is_flexible)


def _table_of(description: Description, *, is_flexible: bool) -> Table:
    struct, fields = description
    made = tuple(
        field
        if field.child is None
        else field._replace(child=_table_of(field.child, is_flexible=is_flexible))
        for field in fields
    )
    return Table(struct, made, is_flexible)


def describe(struct: Any, version: int) -> Description:
    """Return the description of a version from the annotations of a structure.

    Raises:
        ValueError: An annotation is not of the form that this module describes.
    """
    return struct, [
        _describe_field(name, annotation, struct._field_defaults[name], version)
        for name, annotation in struct.__annotations__.items()
    ]


def _describe_field(name: str, annotation: Any, default: Any, version: int) -> Field:
    kind, versions, null, tag = parse_spec(annotation.__metadata__[0])
    element = kind.removeprefix("[]")
    is_struct = element == "struct"
    return Field(
        kind=KINDS.index(element),
        is_array=kind.startswith("[]"),
        is_nullable=null is not None and _has(null, version),
        is_present=_has(versions, version),
        is_error=name.endswith("error_code") and element == "int16",
        tag=tag,
        default=default,
        child=describe(_struct_of(annotation.__origin__), version) if is_struct else None,
    )


def parse_spec(spec: str) -> tuple[str, str, str | None, int]:
    """Return type, versions, versions of null (None: never null) and tag (-1: none)."""
    words = spec.split()
    kind, words = words[0], words[1:]
    versions, null, tag = "", None, -1
    if words and words[0][0].isdigit():
        versions, words = words[0], words[1:]
    if words and words[0] == "null":
        null, words = "", words[1:]
        if words and words[0][0].isdigit():
            null, words = words[0], words[1:]
    if words and words[0] == "tag":
        tag, words = int(words[1]), words[2:]
    if words or kind.removeprefix("[]") not in KINDS:
        raise ValueError(f"{spec!r} describes no field")
    return kind, versions, null, tag


def _has(versions: str, version: int) -> bool:
    """Tell whether a version is in a range such as "4+" or "0-3"; an empty text means all."""
    first, dash, last = versions.partition("-")
    if dash:
        return int(first) <= version <= int(last)
    return not versions or version >= int(versions.rstrip("+"))


def _struct_of(python: Any) -> Any:
    """Return the structure in an annotation such as ``Sequence[Topic] | None``."""
    if get_origin(python) is None:
        return python
    return next(_struct_of(each) for each in get_args(python) if each is not type(None))
