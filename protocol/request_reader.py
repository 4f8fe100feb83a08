"""Readers put together from kio's schemas: a body of an old version as an entity of the newest.

kio has a class for each version, whose field names are stable, so a field is lifted by name: one
that the old version lacks takes the default of the newest class, or what the caller says it was.
Unknown tagged fields are skipped at any depth, lengths are checked before anything is made of
them, and what cannot be null is not (kio's own readers do none of the three).
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import timedelta
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_schema_field_type,
    is_optional,
)

from protocol.errors import ProtocolError
from protocol.primitives import CLASSIC, COMPACT, Buffer, Encoding, behind, read_bytes
from protocol.schemas import EntityClass

Reader: TypeAlias = Callable[[Buffer, int, int], tuple[Any, int]]
"""Reads from a position up to an end; returns the value and the position behind it."""

Reshape: TypeAlias = Callable[[dict[str, Any]], None]
"""Turns the fields that an old version had into those of the newest, in place."""


class Lifted(NamedTuple):
    """A field that old versions said in other words: found from all that they did say."""

    find: Callable[[dict[str, Any]], Any]


_UUID_SIZE: Final = 16
_NO_ID = bytes(_UUID_SIZE)


def request_reader(
    source: EntityClass,
    target: EntityClass,
    absent: Mapping[tuple[str, str], Any],
    reshape: Reshape | None = None,
) -> Reader:
    """Return the reader of a ``source`` that makes a ``target``.

    ``absent`` says what (class, field) of the target was before it had the field, where the
    schema has no default that is right; ``reshape`` sees all fields of the source before the target
    is made.
    The reader raises `ProtocolError` for bytes that are no such body.
    """
    encoding = COMPACT if source.__flexible__ else CLASSIC
    targets = {field.name: field for field in fields(target)}
    values_if_absent = {
        name: absent.get((target.__name__, name), field.default)
        for name, field in targets.items()
        if (target.__name__, name) in absent or field.default is not MISSING
    }
    plain: list[tuple[str, Reader]] = []
    tagged: dict[int, tuple[str, Reader]] = {}
    for field in fields(source):
        goal = targets.get(field.name, field)
        tag = get_field_tag(field)
        reader = _field_reader(encoding, field, goal, absent, tagged=tag is not None)
        if tag is None:
            plain.append((field.name, reader))
            values_if_absent.pop(field.name, None)
        else:
            tagged[tag] = field.name, reader
            values_if_absent[field.name] = get_tagged_field_default(goal)
    gone = [field.name for field in fields(source) if field.name not in targets]
    lifted = {
        name: value.find for name, value in values_if_absent.items() if isinstance(value, Lifted)
    }

    def read(body: Buffer, position: int, end: int) -> tuple[Any, int]:
        values = dict(values_if_absent)
        for name, reader in plain:
            values[name], position = reader(body, position, end)
        spans, position = encoding.tags(body, position, end)
        for tag, (start, stop) in spans.items():
            if tag in tagged:
                name, reader = tagged[tag]
                values[name], _ = reader(body, start, stop)
        for name, find in lifted.items():
            values[name] = find(values)
        if reshape is not None:
            reshape(values)
        for name in gone:
            del values[name]
        return target(**values), position

    return read


def _field_reader(
    encoding: Encoding,
    source: Any,
    target: Any,
    absent: Mapping[tuple[str, str], Any],
    *,
    tagged: bool,
) -> Reader:
    """Return the reader of one field."""
    nullable = is_optional(source)
    kind = classify_field(source)
    match kind:
        case EntityField(nested) | EntityTupleField(nested):
            item = request_reader(nested, classify_field(target).type_, absent)
        case _:
            item = _primitive_reader(encoding, source, nullable=nullable and not kind.is_array)
    if kind.is_array:
        return partial(_read_array, encoding.count, item, -1 if nullable else 0)
    if isinstance(kind, EntityField) and nullable and not tagged:
        return partial(_read_nullable, item)
    return item


def _read_array(
    read_count: Callable[[Buffer, int, int, int], tuple[int, int]],
    read_item: Reader,
    lowest: int,
    body: Buffer,
    position: int,
    end: int,
) -> tuple[tuple[Any, ...] | None, int]:
    """Read a count and as many items; -1 is null where ``lowest`` allows it."""
    count, position = read_count(body, position, end, lowest)
    if count < 0:
        return None, position
    items = []
    for _ in range(count):
        item, position = read_item(body, position, end)
        items.append(item)
    return tuple(items), position


def _read_nullable(
    read_item: Reader, body: Buffer, position: int, end: int
) -> tuple[Any | None, int]:
    """Read a structure behind a byte that is negative for null (KIP-893)."""
    present, position = _INT8(body, position, end)
    return (None, position) if present < 0 else read_item(body, position, end)


def _fixed(form: str, convert: Callable[[Any], Any] | None = None) -> Reader:
    """Return the reader of a field whose size never varies."""
    layout = Struct(">" + form)
    size, unpack = layout.size, layout.unpack_from

    def read(body: Buffer, position: int, end: int) -> tuple[Any, int]:
        stop = behind(size, position, end)
        return unpack(body, position)[0], stop

    def read_and_convert(body: Buffer, position: int, end: int) -> tuple[Any, int]:
        stop = behind(size, position, end)
        return convert(unpack(body, position)[0]), stop  # type: ignore[misc]

    return read if convert is None else read_and_convert


def _duration(value: int) -> timedelta:
    """Return milliseconds as kio has them."""
    try:
        return timedelta(milliseconds=value)
    except OverflowError:
        raise ProtocolError(f"{value} ms is no duration: that is millions of years") from None


_INT8 = _fixed("b")
_FIXED: Final[Mapping[str, Reader]] = {
    "bool": _fixed("B", bool),
    "int8": _INT8,
    "int16": _fixed("h"),
    "uint16": _fixed("H"),
    "int32": _fixed("i"),
    "int64": _fixed("q"),
    "float64": _fixed("d"),
    "uuid": _fixed("16s", lambda value: None if value == _NO_ID else UUID(bytes=value)),
    "timedelta_i32": _fixed("i", _duration),
    "timedelta_i64": _fixed("q", _duration),
}


def _primitive_reader(encoding: Encoding, field: Any, *, nullable: bool) -> Reader:
    """Return the reader of a field, or of the items of an array, that is no structure."""
    kind = get_schema_field_type(field)
    if kind == "string":
        return encoding.nullable_string if nullable else encoding.string
    if kind in {"bytes", "records"}:
        return partial(_read_nullable_bytes if nullable else read_bytes, encoding)
    return _FIXED[kind]


def _read_nullable_bytes(
    encoding: Encoding, body: Buffer, position: int, end: int
) -> tuple[bytes | None, int]:
    """Read bytes as a copy, since the buffer is used again while handlers still wait."""
    size, position = encoding.size(body, position, end)
    if size < 0:
        return None, position
    return bytes(body[position : position + size]), position + size
