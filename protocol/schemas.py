"""kio's message classes, imported when first used, with readers that skip unknown tagged fields.

kio imports slowly (a millisecond or two for each message and version, a second for all) and its
native readers refuse a tagged field that the schema does not know, which the protocol demands to
ignore. So a body that fails that way is read once more by a reader put together from kio's own
per-field readers, about ten times slower and needed by hardly any client.
"""

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from struct import error as StructError  # noqa: N812  # a class, whatever its name looks like
from typing import Any, Final, TypeAlias

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)
from kio.serial._parse import get_field_reader
from kio.serial.errors import SerialError
from kio.serial.readers import (
    compact_array_reader,
    legacy_array_reader,
    read_int8,
    read_unsigned_varint,
)

from protocol.errors import ProtocolError

Entity: TypeAlias = Any
"""A kio entity; which class it is depends on API, version and direction."""

EntityClass: TypeAlias = Any
"""The class of an entity: a frozen dataclass, with its version and whether it is flexible."""

Reader: TypeAlias = Callable[..., tuple[Any, int]]
Writer: TypeAlias = Callable[[Any, Entity], None]

_MALFORMED: Final = (SerialError, ValueError, OverflowError, TypeError, IndexError, StructError)


@cache
def request_class(api_key: int, version: int) -> EntityClass:
    """Return the class of a request, importing its module the first time."""
    return load_request_schema(api_key, version)


@cache
def response_class(api_key: int, version: int) -> EntityClass:
    """Return the class of a response, importing its module the first time."""
    return load_response_schema(api_key, version)


@cache
def response_writer(api_key: int, version: int) -> Writer:
    """Return the function that writes a response's body; it reads attributes by name."""
    return entity_writer(response_class(api_key, version))


def read_entity(entity_class: EntityClass, body: memoryview) -> Entity:
    """Read an entity from the start of a read-only view; bytes behind it are ignored.

    Raises:
        ProtocolError: the bytes are not such an entity.
    """
    try:
        try:
            return _native_reader(entity_class)(body, 0)[0]
        except KeyError:  # a tagged field that kio does not know
            return tolerant_reader(entity_class)(body, 0)[0]
    except _MALFORMED as error:
        name = entity_class.__name__
        raise ProtocolError(
            f"{len(body)} bytes are no {name} v{entity_class.__version__}: "
            f"{type(error).__name__} {error}".rstrip()
        ) from error


@cache
def _native_reader(entity_class: EntityClass) -> Reader:
    return entity_reader(entity_class)


@cache
def tolerant_reader(entity_class: EntityClass) -> Reader:
    """Return a reader that gives what kio's own does and skips unknown tagged fields."""
    plain: list[tuple[str, Reader]] = []
    tagged: dict[int, tuple[str, Reader]] = {}
    defaults: dict[str, Any] = {}
    for field in fields(entity_class):
        tag = get_field_tag(field)
        reader = _field_reader(entity_class, field, tagged=tag is not None)
        if tag is None:
            plain.append((field.name, reader))
        else:
            tagged[tag] = field.name, reader
            defaults[field.name] = get_tagged_field_default(field)

    def read(body: memoryview, position: int) -> tuple[Any, int]:
        start = position
        values = dict(defaults)
        for name, reader in plain:
            values[name], size = reader(body, position)
            position += size
        if entity_class.__flexible__:
            position = _read_tags(body, position, tagged, values)
        return entity_class(**values), position - start

    return read


def _field_reader(entity_class: EntityClass, field: Any, *, tagged: bool) -> Reader:
    """Return the reader of one field: kio's own unless structures lie in it."""
    match classify_field(field):
        case EntityField(nested):
            reader = tolerant_reader(nested)
            return _nullable(reader) if is_optional(field) and not tagged else reader
        case EntityTupleField(nested):
            array = compact_array_reader if entity_class.__flexible__ else legacy_array_reader
            return array(tolerant_reader(nested))
        case _:
            is_header = False
            return get_field_reader(entity_class, field, is_header, tagged)


def _nullable(reader: Reader) -> Reader:
    """Return a reader of a structure behind a byte that is -1 for null (KIP-893)."""

    def read(body: memoryview, position: int) -> tuple[Any, int]:
        marker, size = read_int8(body, position)
        if marker == -1:
            return None, size
        value, rest = reader(body, position + size)
        return value, size + rest

    return read


def _read_tags(
    body: memoryview, position: int, known: dict[int, tuple[str, Reader]], values: dict[str, Any]
) -> int:
    """Put the known tagged fields into ``values`` and return the position behind all of them."""
    count, size = read_unsigned_varint(body, position)
    position += size
    for _ in range(count):
        tag, size = read_unsigned_varint(body, position)
        position += size
        length, size = read_unsigned_varint(body, position)
        position += size
        if position + length > len(body):
            raise ValueError(f"tagged field {tag} of {length} bytes goes past the end")
        if tag in known:
            name, reader = known[tag]
            values[name], _ = reader(body[: position + length], position)
        position += length
    return position
