"""Requests with as many elements as fit, in each array that a schema has, and with huge tags.

Arrays are found in kio's schemas, so an API that is added is asked too. All other fields have
values with which a handler reaches the elements: a topic that exists, zero, or a value of `_HINTS`.
"""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from kio.index import load_request_schema
from kio.schema.errors import ErrorCode

from tests.support.kio_messages import ZEROS, put_varint
from tests.support.kio_schemas import (
    EntityField,
    EntityTupleField,
    classify_field,
    get_field_tag,
    get_field_writer,
    get_schema_field_type,
    is_optional,
)

TOPIC = "t"
CORRELATION_ID = 7
_ALL = 1 << 31
_LONGEST_STRING = (1 << 15) - 1
_TAG = 1_000  # and the next ones: no schema knows them
# Values for fields in which zero or false would end the request too early, or affect the next one.
_HINTS: dict[str, Any] = {
    "resource_type": 2,
    "replica_id": -1,
    "acks": -1,
    "session_epoch": -1,
    "generation_id": -1,
    "validate_only": True,
    "protocol_type": "consumer",
    "producer_id": -1,
    "cluster_id": None,
    "group_instance_id": None,
    "rack_id": None,
    "transactional_id": None,
}

# The types that can make elements distinct, with the lowest and the highest digit of each byte.
_MARKED: dict[str, Callable[[bytes], Any]] = {
    "string": lambda mark: (mark * 8).decode(),
    "int32": lambda mark: 0 if mark == b"0" else -1,
    "int64": lambda mark: 0 if mark == b"0" else -1,
    "uuid": lambda mark: UUID(bytes=mark * 16),
}

Path = tuple[str, ...]


@dataclass(frozen=True)
class LargeRequest:
    """A request to build: its API and version, its large field, and how elements differ."""

    api_key: int
    version: int
    path: Path
    kind: str

    @property
    def head_size(self) -> int:
        """How many bytes stand before the body."""
        return 15 if load_request_schema(self.api_key, self.version).__flexible__ else 14

    @property
    def place(self) -> str:
        """The path as one word."""
        return ".".join(self.path) or "-"

    def frame(self, size: int, topic_id: UUID, most: int = _ALL) -> bytes:
        """Return the whole frame, of at most ``size`` bytes and nearly as many.

        With ``most`` all its arrays and tags together have no more elements than that, and a text
        is as long as a string may be.
        """
        schema: Any = load_request_schema(self.api_key, self.version)
        flexible = schema.__flexible__
        head = struct.pack(">hhih", self.api_key, self.version, CORRELATION_ID, -1)
        head += b"\0" if flexible else b""
        writer = _Writer(flexible, topic_id)
        room = size - len(head) - len(writer.structure(schema)) - 200
        if self.path:
            body = writer.structure(
                schema, self.path, lambda field: self._fill(writer, field, room, most)
            )
        else:
            body = writer.structure(schema, more=self._tags(room, most))
        return struct.pack(">i", len(head) + len(body)) + head + body

    def _fill(self, writer: "_Writer", field: Any, room: int, most: int) -> bytes:
        if self.kind == "text":
            return writer.text(field, room if most == _ALL else min(room, _LONGEST_STRING))
        left = most - len(self.path) + 1  # an element of each array around it
        return writer.elements(field, room, left, are_distinct=self.kind == "distinct")

    def _tags(self, room: int, most: int) -> tuple[int, bytes]:
        if self.kind == "one tag":
            return 1, put_varint(_TAG) + put_varint(room) + bytes(room)
        written = bytearray()
        count = 0
        while len(written) < room and count < most:
            written += put_varint(_TAG + count) + b"\0"
            count += 1
        return count, bytes(written)


def large_requests(api_key: int, version: int) -> Iterator[LargeRequest]:
    """Yield all large requests of an API in a version."""
    schema: Any = load_request_schema(api_key, version)
    for path, is_array in _places(schema):
        for kind in ("distinct", "repeated") if is_array else ("text",):
            yield LargeRequest(api_key, version, path, kind)
    if schema.__flexible__:
        for kind in ("tags", "one tag"):
            yield LargeRequest(api_key, version, (), kind)


def _places(schema: Any, before: Path = ()) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of arrays and texts, and whether each is an array."""
    for field in fields(schema):
        path = (*before, field.name)
        match classify_field(field):
            case EntityField(nested):
                yield from _places(nested, path)
            case EntityTupleField(nested):
                yield path, True
                yield from _places(nested, path)
            case kind:
                if kind.is_array:
                    yield path, True
                elif get_schema_field_type(field) in {"string", "bytes", "records"}:
                    yield path, False


class _Writer:
    """Writes the structures of one request."""

    def __init__(self, flexible: bool, topic_id: UUID) -> None:
        self._flexible = flexible
        self._topic_id = topic_id
        self._mark = b""  # the bytes of the next field that makes elements distinct

    def structure(
        self,
        schema: Any,
        path: Path = (),
        fill: Callable[[Any], bytes] | None = None,
        *,
        more: tuple[int, bytes] = (0, b""),
    ) -> bytes:
        """Return a structure; ``fill`` makes the field at the end of ``path``; add tags."""
        plain: list[bytes] = []
        tags: list[tuple[int, bytes]] = []
        for field in fields(schema):
            tag = get_field_tag(field)
            if fill is not None and path and field.name == path[0]:
                content = self._lead(field, path[1:], fill)
            elif tag is None:
                content = self._usual(field)
            else:
                continue
            if tag is None:
                plain.append(content)
            else:
                tags.append((tag, put_varint(tag) + put_varint(len(content)) + content))
        if not self._flexible:
            return b"".join(plain)
        count = put_varint(len(tags) + more[0])
        return b"".join([*plain, count, *(each for _, each in sorted(tags)), more[1]])

    def elements(self, field: Any, room: int, most: int, *, are_distinct: bool) -> bytes:
        """Return an array, with its count, of at most ``room`` bytes and ``most`` elements."""
        low = self._element(field, b"0" if are_distinct else b"")
        count = min(most, max(1, (room - 8) // len(low)))
        written = bytearray(low * count)
        if are_distinct:
            high = self._element(field, b"f")
            places = [place for place, byte in enumerate(low) if byte != high[place]]
            is_text = any(low[place] for place in places)
            digits = b"0123456789abcdef" if is_text else bytes(range(256))
            for power, place in enumerate(reversed(places)):
                if len(digits) ** power >= count:
                    break
                written[place :: len(low)] = _column(digits, count, power)
        return self._count(count) + bytes(written)

    def text(self, field: Any, room: int) -> bytes:
        """Return a text or bytes as long as they may be."""
        kind = get_schema_field_type(field)
        if self._flexible:
            return put_varint(room + 1) + b"x" * room
        if kind == "string":
            room = min(room, _LONGEST_STRING)
            return struct.pack(">h", room) + b"x" * room
        return struct.pack(">i", room) + b"x" * room

    def _element(self, field: Any, mark: bytes) -> bytes:
        self._mark = mark
        match classify_field(field):
            case EntityTupleField(nested):
                written = self.structure(nested)
            case _:
                written = self._primitive(field, self._value(field, is_element=True))
        self._mark = b""
        return written

    def _lead(self, field: Any, path: Path, fill: Callable[[Any], bytes]) -> bytes:
        """Return a field that has more of the path in it, or is its end."""
        match classify_field(field):
            case EntityTupleField(nested) if path:
                return self._count(1) + self.structure(nested, path, fill)
            case EntityField(nested) if path:
                present = b"\1" if is_optional(field) and get_field_tag(field) is None else b""
                return present + self.structure(nested, path, fill)
        return fill(field)

    def _usual(self, field: Any) -> bytes:
        match classify_field(field):
            case EntityField(nested):
                return b"\xff" if is_optional(field) else self.structure(nested)
            case EntityTupleField():
                return self._count(0)
            case kind if kind.is_array:
                return self._count(0)
        body = io.BytesIO()
        self._field_writer(field)(body, self._value(field))
        return body.getvalue()

    def _value(self, field: Any, *, is_element: bool = False) -> Any:
        kind = get_schema_field_type(field)
        if self._mark and kind in _MARKED:
            mark, self._mark = self._mark, b""
            return _MARKED[kind](mark)
        hint = _HINTS.get(field.name, "")
        if hint != "" and (hint is not None or is_optional(field)):
            return hint
        if kind == "string":
            return TOPIC
        if kind == "uuid":
            return self._topic_id
        if is_optional(field) and not is_element:
            return None
        return ErrorCode.none if kind == "error_code" else ZEROS.get(kind, 0)

    def _primitive(self, field: Any, value: Any) -> bytes:
        """Return one element of an array of primitives."""
        match value:
            case str():
                text = value.encode()
                size = put_varint(len(text) + 1) if self._flexible else struct.pack(">h", len(text))
                return size + text
            case UUID():
                return value.bytes
        sizes = {"int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}
        return struct.pack(sizes[get_schema_field_type(field)], value)

    def _field_writer(self, field: Any) -> Any:
        return get_field_writer(
            field, flexible=self._flexible, is_request_header=False, is_tag=False
        )

    def _count(self, count: int) -> bytes:
        return put_varint(count + 1) if self._flexible else struct.pack(">i", count)


def _column(digits: bytes, count: int, power: int) -> bytes:
    """Return one digit of all numbers from 0 to ``count``."""
    repeats = len(digits) ** power
    period = b"".join(bytes([digit]) * repeats for digit in digits[: -(-count // repeats)])
    return (period * -(-count // len(period)))[:count]
