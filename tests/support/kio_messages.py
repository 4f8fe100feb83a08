"""Messages built and encoded by kio, to check our own codecs."""

import io
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from tests.support.kio_schemas import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_field_writer,
    get_schema_field_type,
    is_optional,
    request_class,
)


def put_varint(value: int) -> bytes:
    """Return an unsigned varint."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


UNKNOWN_TAGS = put_varint(90) + put_varint(3) + b"abc" + put_varint(300) + put_varint(0)
"""Two tagged fields that no schema knows: 90 with three bytes and 300 with none."""

_EXAMPLES: dict[str, Callable[[int], Any]] = {
    "bool": lambda seed: seed % 2 == 1,
    "int8": lambda seed: seed % 100 - 1,
    "int16": lambda seed: seed * 7 % 30_000 - 1,
    "uint16": lambda seed: seed * 7 % 60_000,
    "int32": lambda seed: seed * 65_537 % (1 << 31) - 1,
    "int64": lambda seed: seed * 4_294_967_311 - 1,
    "float64": lambda seed: seed / 8,
    "string": lambda seed: f"text-ä-{seed}",
    "bytes": lambda seed: bytes([seed % 256]) * (seed % 300),
    "records": lambda seed: bytes([seed % 256]) * (100 + seed % 300),
    "uuid": lambda seed: UUID(int=seed + (1 << 100)),
    "error_code": lambda seed: ErrorCode(seed % 90),
    "timedelta_i32": lambda seed: timedelta(milliseconds=seed * 1_000 - 1),
    "timedelta_i64": lambda seed: timedelta(milliseconds=seed * 1_000 - 1),
    "datetime_i64": lambda seed: datetime.fromtimestamp(seed * 1_000, UTC),
}


def example(entity_class: Any, seed: int = 1, entries: int = 2) -> Any:
    """Return an entity with a different value in every field, ``entries`` in every array."""
    values = {}
    for number, field in enumerate(fields(entity_class)):
        values[field.name] = _value(field, seed * 31 + number, entries)
    return entity_class(**values)


def _value(field: Any, seed: int, entries: int) -> Any:
    match classify_field(field):
        case EntityField(nested):
            return example(nested, seed, entries)
        case EntityTupleField(nested):
            return tuple(example(nested, seed + entry, entries) for entry in range(entries))
        case kind:
            make = _EXAMPLES[get_schema_field_type(field)]
            if kind.is_array:
                return tuple(make(seed + entry) for entry in range(entries))
            return make(seed)


def request(key: int, version: int, **values: Any) -> Any:
    """Return a request; omitted fields are as in `smallest`.

    Structures may be dictionaries, arrays lists, times milliseconds, and ids bytes.
    """
    return smallest(request_class(key, version), values)


def smallest(entity_class: Any, values: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Return an entity of some values and the schema's defaults; else null, zero, or empty."""
    made = {}
    for field in fields(entity_class):
        if field.name in values:
            made[field.name] = _convert(field, values[field.name])
        elif field.default is not MISSING:
            made[field.name] = field.default
        elif is_optional(field):
            made[field.name] = None
        elif isinstance(kind := classify_field(field), EntityField):
            made[field.name] = smallest(kind.type_)
        elif kind.is_array:
            made[field.name] = ()
        else:
            made[field.name] = ZEROS.get(get_schema_field_type(field), 0)
    unknown = values.keys() - made.keys()
    assert not unknown, f"{entity_class} has no {unknown}"
    return entity_class(**made)


def _convert(field: Any, value: Any) -> Any:
    """Return a value as an entity has it."""
    if value is None:
        return None
    match classify_field(field), value:
        case EntityField(nested), Mapping():
            return smallest(nested, value)
        case EntityTupleField(nested), _:
            return tuple(
                smallest(nested, each) if isinstance(each, Mapping) else each for each in value
            )
        case kind, _ if kind.is_array:
            return tuple(value)
        case EntityField(), _:
            return value
    match get_schema_field_type(field), value:
        case "timedelta_i32" | "timedelta_i64", int():
            value = timedelta(milliseconds=value)
        case "uuid", bytes():
            value = UUID(bytes=value)
    return value


ZEROS: dict[str, Any] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime.fromtimestamp(0, UTC),
}


def encode(entity: Any) -> bytes:
    """Return the body as kio writes it."""
    body = io.BytesIO()
    entity_writer(type(entity))(body, entity)
    return body.getvalue()


def encode_with_unknown_tags(entity: Any) -> bytes:
    """Return a flexible body with two tagged fields that no schema knows in every structure."""
    body = io.BytesIO()
    _write(body, entity)
    return body.getvalue()


def _write(body: io.BytesIO, entity: Any) -> None:
    tags = []
    for field in fields(entity):
        value = getattr(entity, field.name)
        tag = get_field_tag(field)
        if tag is None:
            _write_value(body, entity, field, value, tagged=False)
        elif value != field.default:
            content = io.BytesIO()
            _write_value(content, entity, field, value, tagged=True)
            size = put_varint(len(content.getvalue()))
            tags.append((tag, put_varint(tag) + size + content.getvalue()))
    body.write(put_varint(len(tags) + 2))
    body.writelines(written for _, written in sorted(tags))
    body.write(UNKNOWN_TAGS)


def _write_value(body: io.BytesIO, entity: Any, field: Any, value: Any, *, tagged: bool) -> None:
    match classify_field(field):
        case EntityField():
            if is_optional(field) and not tagged:
                body.write(b"\xff" if value is None else b"\x01")
            if value is not None:
                _write(body, value)
        case EntityTupleField():
            body.write(put_varint(0 if value is None else len(value) + 1))
            for item in value or ():
                _write(body, item)
        case _:
            write = get_field_writer(
                field, flexible=entity.__flexible__, is_request_header=False, is_tag=tagged
            )
            write(body, value)
