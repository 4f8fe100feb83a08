"""The primitive types of Kafka's messages in their two encodings, read in place and written.

Up to the first flexible version of an API lengths are int16 or int32 and -1 is null (`CLASSIC`);
from it on they are varints of length plus one, 0 is null, and every structure ends with tagged
fields, of which unknown ones are skipped (`COMPACT`, KIP-482). Every length is checked against the
end of the frame before anything is made of it.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final, Protocol, TypeAlias

from protocol.errors import ProtocolError
from protocol.java_text import AS_JAVA

Buffer: TypeAlias = bytes | bytearray | memoryview

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_VARINT_BYTES: Final = 5
_INT32_MAX: Final = (1 << 31) - 1
_SINGLE_BYTES: Final = [bytes((value,)) for value in range(0x80)]
_NO_SPANS: Final[Mapping[int, tuple[int, int]]] = {}


class Encoding(Protocol):
    """How a version of a message writes lengths.

    Readers return the value and the position behind it. A string, array or byte range that is
    null is None or -1 where that is allowed and a `ProtocolError` where it is not.
    """

    def count(self, buffer: Buffer, position: int, end: int, lowest: int = 0) -> tuple[int, int]:
        """Read the length of an array; a ``lowest`` of -1 allows null."""

    def string(self, buffer: Buffer, position: int, end: int) -> tuple[str, int]:
        """Read a string that cannot be null."""

    def nullable_string(self, buffer: Buffer, position: int, end: int) -> tuple[str | None, int]:
        """Read a string or null."""

    def size(self, buffer: Buffer, position: int, end: int) -> tuple[int, int]:
        """Read the size of a byte range, -1 for null, that follows the returned position."""

    def tags(
        self, buffer: Buffer, position: int, end: int
    ) -> tuple[Mapping[int, tuple[int, int]], int]:
        """Read the tagged fields of a structure as tag to (start, end) of the value."""

    def put_count(self, count: int) -> bytes:
        """Write the length of an array; -1 is null."""

    def put_string(self, text: str | None) -> bytes:
        """Write a string or null."""

    def put_size(self, size: int) -> bytes:
        """Write the size of a byte range that follows."""

    @property
    def no_tags(self) -> bytes:
        """What ends a structure that has no tagged field to write."""


def behind(size: int, position: int, end: int) -> int:
    """Return the position behind a field of fixed size.

    Raises:
        ProtocolError: the frame ends before it.
    """
    stop = position + size
    if stop > end:
        raise ProtocolError(f"a field of {size} bytes at {position} in a frame that ends at {end}")
    return stop


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 31 bits and return it with the position behind it.

    Raises:
        ProtocolError: it runs past ``end`` or does not fit.
    """
    if position + 2 < end:  # one or two bytes are what nearly all of them have
        value = buffer[position]
        if value < 0x80:
            return value, position + 1
        byte = buffer[position + 1]
        if byte < 0x80:
            return value - 0x80 + (byte << 7), position + 2
    stop = min(position + _VARINT_BYTES, end)
    value = shift = 0
    while position < stop:
        byte = buffer[position]
        position += 1
        if byte < 0x80:
            value |= byte << shift
            if value > _INT32_MAX:
                break
            return value, position
        value |= (byte & 0x7F) << shift
        shift += 7
    raise ProtocolError(f"no varint ends at position {position} of a frame that ends at {end}")


def put_varint(value: int) -> bytes:
    """Write an unsigned varint."""
    if value < 0x80:
        return _SINGLE_BYTES[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80)) + put_varint(value >> 14)


def skip_tags(buffer: Buffer, position: int, end: int) -> int:
    """Return the position behind the tagged fields of a structure, whatever they are."""
    if position < end and buffer[position] == 0:
        return position + 1
    return COMPACT.tags(buffer, position, end)[1]


def read_text(buffer: Buffer, position: int, stop: int, end: int) -> str:
    """Return the UTF-8 text from ``position`` to ``stop``; what is none is read as Kafka does.

    Raises:
        ProtocolError: it goes past ``end``.
    """
    if stop > end:
        raise ProtocolError(
            f"a string of {stop - position} bytes at {position} in a frame that ends at {end}"
        )
    return str(buffer[position:stop], "utf-8", AS_JAVA)


def read_bytes(encoding: Encoding, buffer: Buffer, position: int, end: int) -> tuple[bytes, int]:
    """Return a byte range that cannot be null, as a copy.

    Raises:
        ProtocolError: it goes past ``end`` or is null.
    """
    size, position = encoding.size(buffer, position, end)
    if size < 0:
        raise ProtocolError(f"null before {position}, where bytes are required")
    stop = position + size
    return bytes(buffer[position:stop]), stop


def _checked_count(count: int, position: int, end: int, lowest: int) -> tuple[int, int]:
    """Refuse what cannot be there: an entry of an array has at least one byte."""
    if lowest <= count <= end - position:
        return count, position
    raise ProtocolError(f"an array of {count} entries at {position} in a frame that ends at {end}")


def _checked_size(size: int, position: int, end: int) -> tuple[int, int]:
    """Refuse bytes that are not there."""
    if -1 <= size <= end - position:
        return size, position
    raise ProtocolError(f"a field of {size} bytes at {position} in a frame that ends at {end}")


def _required(text: str | None, position: int) -> str:
    """Refuse null."""
    if text is None:
        raise ProtocolError(f"null before {position}, where a string is required")
    return text


class _Classic:
    """Lengths as int16 (strings) and int32; no tagged fields."""

    no_tags: Final = b""

    def _number(self, form: Struct, buffer: Buffer, position: int, end: int) -> tuple[int, int]:
        stop = behind(form.size, position, end)
        value: int = form.unpack_from(buffer, position)[0]
        return value, stop

    def count(self, buffer: Buffer, position: int, end: int, lowest: int = 0) -> tuple[int, int]:
        return _checked_count(*self._number(_INT32, buffer, position, end), end, lowest)

    def string(self, buffer: Buffer, position: int, end: int) -> tuple[str, int]:
        text, position = self.nullable_string(buffer, position, end)
        return _required(text, position), position

    def nullable_string(self, buffer: Buffer, position: int, end: int) -> tuple[str | None, int]:
        length, position = _checked_size(*self._number(_INT16, buffer, position, end), end)
        if length < 0:
            return None, position
        return read_text(buffer, position, position + length, end), position + length

    def size(self, buffer: Buffer, position: int, end: int) -> tuple[int, int]:
        return _checked_size(*self._number(_INT32, buffer, position, end), end)

    def tags(
        self, buffer: Buffer, position: int, end: int
    ) -> tuple[Mapping[int, tuple[int, int]], int]:
        del buffer, end
        return _NO_SPANS, position

    def put_count(self, count: int) -> bytes:
        return _INT32.pack(count)

    def put_string(self, text: str | None) -> bytes:
        if text is None:
            return _INT16.pack(-1)
        encoded = text.encode()
        return _INT16.pack(len(encoded)) + encoded

    put_size = put_count


class _Compact:
    """Lengths plus one as varints; structures end with tagged fields."""

    no_tags: Final = b"\0"

    def count(self, buffer: Buffer, position: int, end: int, lowest: int = 0) -> tuple[int, int]:
        length, position = read_varint(buffer, position, end)
        return _checked_count(length - 1, position, end, lowest)

    def string(self, buffer: Buffer, position: int, end: int) -> tuple[str, int]:
        text, position = self.nullable_string(buffer, position, end)
        return _required(text, position), position

    def nullable_string(self, buffer: Buffer, position: int, end: int) -> tuple[str | None, int]:
        length, position = read_varint(buffer, position, end)
        if length == 0:
            return None, position
        stop = position + length - 1
        return read_text(buffer, position, stop, end), stop

    def size(self, buffer: Buffer, position: int, end: int) -> tuple[int, int]:
        length, position = read_varint(buffer, position, end)
        return _checked_size(length - 1, position, end)

    def tags(
        self, buffer: Buffer, position: int, end: int
    ) -> tuple[Mapping[int, tuple[int, int]], int]:
        count, position = read_varint(buffer, position, end)
        if count == 0:
            return _NO_SPANS, position
        spans: dict[int, tuple[int, int]] = {}
        for _ in range(count):
            tag, position = read_varint(buffer, position, end)
            size, position = read_varint(buffer, position, end)
            _checked_size(size, position, end)
            spans[tag] = position, position + size
            position += size
        return spans, position

    def put_count(self, count: int) -> bytes:
        return put_varint(count + 1)

    def put_string(self, text: str | None) -> bytes:
        if text is None:
            return b"\0"
        encoded = text.encode()
        return put_varint(len(encoded) + 1) + encoded

    put_size = put_count


CLASSIC: Final[Encoding] = _Classic()
COMPACT: Final[Encoding] = _Compact()
