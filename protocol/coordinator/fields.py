"""Fields of the internal topics' records: a reader that keeps its place, and writers of arrays."""

from collections.abc import Callable, Iterable, Mapping
from struct import Struct
from typing import Final, TypeVar
from uuid import UUID

from protocol.errors import ProtocolError
from protocol.primitives import COMPACT, Buffer, Encoding, behind, put_varint

T = TypeVar("T")

MOST_TEXT_BYTES: Final = 0x7FFF
"""What an int16 length can say, and the most that Kafka reads in either encoding."""

MOST_EPOCH: Final = 1 << 30
"""No group comes that far by itself, and whoever starts there has as many left."""

_UUID_BYTES: Final = 16
_INT32 = Struct(">i")


class FieldReader:
    """Reads one field after the other from ``position`` to ``end``.

    Every read raises ProtocolError where the bytes end too early.
    """

    __slots__ = ("_buffer", "_encoding", "_end", "_position")

    def __init__(
        self, buffer: Buffer, encoding: Encoding, position: int = 0, end: int | None = None
    ) -> None:
        self._buffer = buffer
        self._encoding = encoding
        self._position = position
        self._end = len(buffer) if end is None else end

    def number(self, form: Struct) -> int:
        """Read one number."""
        stop = behind(form.size, self._position, self._end)
        value: int = form.unpack_from(self._buffer, self._position)[0]
        self._position = stop
        return value

    def epoch(self) -> int:
        """Read the epoch of a group or a member, which can be raised for a long time to come."""
        value = self.number(_INT32)
        if value > MOST_EPOCH:
            raise ProtocolError(f"an epoch of {value} before {self._position}")
        return value

    def numbers(self, form: Struct) -> list[int]:
        """Read an array of numbers; null is none."""
        count = self._count()
        behind(count * form.size, self._position, self._end)
        return [self.number(form) for _ in range(count)]

    def string(self) -> str:
        """Read a string that cannot be null."""
        text, self._position = self._encoding.string(self._buffer, self._position, self._end)
        return check_text(text)

    def nullable_string(self) -> str | None:
        """Read a string or null."""
        text, self._position = self._encoding.nullable_string(
            self._buffer, self._position, self._end
        )
        return None if text is None else check_text(text)

    def data(self) -> bytes:
        """Read bytes that cannot be null, as a copy."""
        value = self.nullable_data()
        if value is None:
            raise ProtocolError(f"null before {self._position}, where bytes are required")
        return value

    def nullable_data(self) -> bytes | None:
        """Read bytes or null, as a copy."""
        size, start = self._encoding.size(self._buffer, self._position, self._end)
        self._position = start + max(size, 0)
        return None if size < 0 else bytes(self._buffer[start : self._position])

    def uuid(self) -> UUID:
        """Read the 16 bytes of an id."""
        start = self._position
        self._position = behind(_UUID_BYTES, start, self._end)
        return UUID(bytes=bytes(self._buffer[start : self._position]))

    def array(self, read: Callable[["FieldReader"], T]) -> list[T]:
        """Read an array whose entries ``read`` takes; null is none."""
        return [read(self) for _ in range(self._count())]

    def tags(self) -> dict[int, "FieldReader"]:
        """Read the tagged fields that end a structure: a reader of each, by tag."""
        spans, self._position = self._encoding.tags(self._buffer, self._position, self._end)
        return {
            tag: FieldReader(self._buffer, self._encoding, start, stop)
            for tag, (start, stop) in spans.items()
        }

    def tagged_number(self, tag: int, form: Struct) -> int:
        """Read tagged fields of which one is a number; 0 where it is not there."""
        tagged = self.tags().get(tag)
        return 0 if tagged is None else tagged.number(form)

    def _count(self) -> int:
        count, self._position = self._encoding.count(self._buffer, self._position, self._end, -1)
        return max(count, 0)


def check_text(text: str) -> str:
    """Return a text that can be written again; what was not UTF-8 may have become longer.

    Raises:
        ProtocolError: No record can hold it.
    """
    if len(text) * 4 > MOST_TEXT_BYTES:
        size = len(text.encode())
        if size > MOST_TEXT_BYTES:
            raise ProtocolError(f"a text of {size} bytes is longer than {MOST_TEXT_BYTES}")
    return text


def put_array(entries: Iterable[bytes]) -> bytes:
    """Write a compact array of entries that are written already."""
    written = list(entries)
    return COMPACT.put_count(len(written)) + b"".join(written)


def put_bytes(value: bytes) -> bytes:
    """Write bytes with a compact length."""
    return COMPACT.put_size(len(value)) + value


def put_tags(fields: Mapping[int, bytes]) -> bytes:
    """Write the tagged fields that end a structure, by ascending tag."""
    if not fields:
        return COMPACT.no_tags
    return put_varint(len(fields)) + b"".join(
        put_varint(tag) + put_varint(len(value)) + value for tag, value in sorted(fields.items())
    )
