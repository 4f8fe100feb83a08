"""Batches and records as they lie in bytes, in plain Python: the specification of `_format.pxd`.

Reading is strict: a record parses exactly, or BrokenRecord says why not.
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from siltstone.protocol.core.constants import (
    BAD_BODY,
    BAD_FIELD,
    BAD_HEADERS,
    BAD_LENGTH,
    BAD_NUMBER,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    FAULTS,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TRANSACTIONAL,
)
from siltstone.protocol.errors import InvalidRecord

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -(1 << 63)
VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10

_POLYNOMIAL: Final = 0x11EDC6F41
_SEQUENCES: Final = 1 << 31
_SINGLE_BYTES: Final = [bytes((value,)) for value in range(0x80)]

_read = HEADER.unpack_from


class BatchHeader(NamedTuple):
    """The fields of a batch header in their order on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; nobody counts a header's fields

    @classmethod
    def read(cls, buffer: "Buffer", position: int = 0) -> "BatchHeader":
        """Read the header at `position`; nothing is checked.

        Raises:
            struct.error: fewer than 61 bytes are there.
        """
        return cls._make(_read(buffer, position))

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset that the batch stands for, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last sequence, wrapping from 2^31-1 to 0; -1 without a base sequence."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def codec(self) -> int:
        """The compression codec, 0 to 4; 5 to 7 are illegal."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, the time of the append."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time after which tombstones may go (KIP-534)."""
        return self.attributes & DELETE_HORIZON != 0


class BrokenRecord(InvalidRecord):
    """A record does not parse; ``fault`` is the number of the reason."""

    def __init__(self, fault: int) -> None:
        super().__init__(f"a record is broken: {FAULTS[fault]}")
        self.fault = fault


class RecordFront(NamedTuple):
    """Where the parts of a record before its headers are; a size of -1 is a null."""

    stop: int
    """Where the record ends."""
    attributes: int
    timestamp_delta: int
    offset_delta: int
    tail: int
    """The size of the key. The bytes from here on are the same wherever the record stands."""
    key_size: int
    key: int
    value_size: int
    value: int


class RecordFields(NamedTuple):
    """Where all parts of a record are; what `RecordFront` has comes first."""

    stop: int
    attributes: int
    timestamp_delta: int
    offset_delta: int
    tail: int
    key_size: int
    key: int
    value_size: int
    value: int
    header_count: int
    headers: int
    """Where the first begins."""


def put_varint(number: int) -> bytes:
    """Write a zig-zag varint, or varlong: their bytes are the same."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    if rest < 0x80:
        return _SINGLE_BYTES[rest]
    if rest < 0x4000:
        return bytes((rest & 0x7F | 0x80, rest >> 7))
    output = bytearray()
    while rest > 0x7F:
        output.append(rest & 0x7F | 0x80)
        rest >>= 7
    output.append(rest)
    return bytes(output)


def read_varint(
    data: bytes | memoryview, position: int, end: int, max_bytes: int = VARINT_BYTES
) -> tuple[int, int]:
    """Return the number at `position` and the position after it.

    Raises:
        BrokenRecord: it runs past `end` or `max_bytes`, or has more than 32 (64) bits.
    """
    if position < end and (byte := data[position]) < 0x80:  # most numbers have one byte
        return (byte >> 1) ^ -(byte & 1), position + 1
    rest = shift = 0
    for at in range(position, min(end, position + max_bytes)):
        byte = data[at]
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if rest >> (32 if max_bytes == VARINT_BYTES else 64):
                break
            return (rest >> 1) ^ -(rest & 1), at + 1
        shift += 7
    raise BrokenRecord(BAD_NUMBER)


def read_field(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the size of a key or value, -1 for null, and where its bytes begin."""
    size, position = read_varint(data, position, end)
    if size < -1 or size > end - position:
        raise BrokenRecord(BAD_FIELD)
    return size, position


def read_front(data: bytes | memoryview, position: int, end: int) -> RecordFront:
    """Read the record at ``position`` up to its value: size, attributes, deltas, key and value.

    Raises:
        BrokenRecord: so much of it does not parse, or it does not end before ``end``.
    """
    size, start = read_varint(data, position, end)
    if size < 1 or size > end - start:
        raise BrokenRecord(BAD_LENGTH)
    stop = start + size
    timestamp_delta, at = read_varint(data, start + 1, stop, VARLONG_BYTES)
    offset_delta, tail = read_varint(data, at, stop)
    key_size, key = read_field(data, tail, stop)
    value_size, value = read_field(data, key + max(key_size, 0), stop)
    return RecordFront(
        stop, data[start], timestamp_delta, offset_delta, tail, key_size, key, value_size, value
    )


def read_record(data: bytes | memoryview, position: int, end: int) -> RecordFields:
    """Read the record at ``position``, its headers too.

    Raises:
        BrokenRecord: it does not parse exactly, or not before ``end``.
    """
    front = read_front(data, position, end)
    stop = front.stop
    count, headers = read_varint(data, front.value + max(front.value_size, 0), stop)
    if count < 0 or count > stop - headers:
        raise BrokenRecord(BAD_HEADERS)
    at = headers
    for _ in range(count):
        size, at = read_field(data, at, stop)
        if size < 0:
            raise BrokenRecord(BAD_HEADERS)
        size, at = read_field(data, at + size, stop)
        at += max(size, 0)
    if at != stop:
        raise BrokenRecord(BAD_BODY)
    return RecordFields(*front, count, headers)


# Checksums ----------------------------------------------------------------------------------------


class Crc(Protocol):
    """A checksum that can go on from an earlier value; 0 starts."""

    def __call__(self, data: "Buffer", value: int = 0, /) -> int:
        """Return the checksum of `data`, going on from `value`."""


def choose_package() -> Crc:
    """Return the fastest CRC-32C that is installed.

    The crc32c package uses the processor's instruction and works without the GIL on large buffers.
    crcmod computes the same number many times slower, with the GIL.
    """
    try:
        from crc32c import crc32c  # noqa: PLC0415 - may be missing
    except ImportError:
        return portable_crc32c()
    return crc32c


def portable_crc32c() -> Crc:
    """Return crcmod's CRC-32C, for machines that the crc32c package does not know."""
    import crcmod  # noqa: PLC0415 - 10 ms that only such a machine pays

    function: Crc = crcmod.mkCrcFun(_POLYNOMIAL, initCrc=0, rev=True, xorOut=0xFFFFFFFF)
    return function
