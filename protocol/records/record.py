"""Records of a batch, magic 2 (Kafka's DefaultRecord, ByteUtils), and zig-zag varints.

A record is: length, attributes (int8), timestamp delta, offset delta, key, value, headers; lengths
and deltas are zig-zag varints of 5 bytes at most, the timestamp delta of 10; -1 is a null. What
reads here is strict: whatever does not parse exactly raises InvalidRecord, never IndexError. This
is the readable reader for tools and rare paths; the hot path checks with `kernels`.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.errors import CorruptMessage, InvalidRecord
from protocol.records import compression
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
_SINGLE_BYTES: Final = [bytes((value,)) for value in range(0x80)]

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record as a reader sees it: absolute offset and time; header keys are UTF-8 bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


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
    data: "bytes | memoryview", position: int, end: int, most: int = VARINT_BYTES
) -> tuple[int, int]:
    """Return the number at `position` and the position after it; `most` bytes at most.

    Raises:
        InvalidRecord: it runs past `end` or `most` bytes, or has more than 32 (64) bits.
    """
    if position < end and (byte := data[position]) < 0x80:  # most numbers have one byte
        return (byte >> 1) ^ -(byte & 1), position + 1
    rest = shift = 0
    for at in range(position, min(end, position + most)):
        byte = data[at]
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if rest >> (32 if most == VARINT_BYTES else 64):
                break
            return (rest >> 1) ^ -(rest & 1), at + 1
        shift += 7
    raise InvalidRecord(f"a record has a broken number at byte {position} of its batch's records")


def iterate_records(
    batch: "Buffer", cap: int = compression.MAX_DECOMPRESSED_BYTES
) -> "Iterator[Record]":
    """Yield the records of one whole batch; a compressed one is opened up to `cap` bytes.

    It is opened a little at a time: no more than what is read of it is in memory. The CRC is not
    checked. The yielded keys and values are copies.

    Raises:
        CorruptMessage: the bytes are no batch of magic 2, or the codec finds junk.
        InvalidRecord: a record does not parse, records are missing or bytes are left over.
    """
    view = memoryview(batch)
    if len(view) < HEADER_SIZE:
        raise CorruptMessage(f"a batch of {len(view)} bytes is shorter than its header")
    header = BatchHeader.read(view)
    if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(view):
        raise CorruptMessage(
            f"the batch at offset {header.base_offset} has magic {header.magic} and says to be"
            f" {header.size} bytes long; {len(view)} bytes are there"
        )
    payload = view[HEADER_SIZE : header.length + LOG_OVERHEAD]
    if header.count < 0:
        raise InvalidRecord(f"the batch says that it has {header.count} records")
    left = header.count
    data = b""  # what is there from the next record on
    needed = there = 0
    waiting: list[bytes] = []  # parts of a record that is longer
    most = cap if header.codec else compression.UNLIMITED
    for part in compression.unfold(header.codec, payload, most):
        waiting.append(part)
        there += len(part)
        if left and there < needed:
            continue
        data = b"".join((data, *waiting)) if data or len(waiting) > 1 else part
        waiting.clear()
        position = 0
        while left and not (needed := _find_missing(data, position)):
            record, position = _read_record(data, position, header)
            left -= 1
            yield record
        data = data[position:]
        there = len(data)
    if left:
        _read_record(b"".join((data, *waiting)), 0, header)  # it is not whole, and says why
    if there:
        raise InvalidRecord(f"{there} bytes are left after the {header.count} records of the batch")


def _find_missing(data: bytes, position: int) -> int:
    """Return how many bytes from `position` on a record takes that is not wholly there, else 0.

    Raises:
        InvalidRecord: its size is broken, or more than any batch may unfold to.
    """
    there = len(data) - position
    if there < VARINT_BYTES and not any(byte < 0x80 for byte in data[position:]):
        return there + 1
    size, start = read_varint(data, position, len(data))
    if size > compression.MAX_DECOMPRESSED_BYTES and size > there:
        raise InvalidRecord(f"a record says to be {size} bytes long")
    return 0 if size <= len(data) - start else start - position + size


def _read_record(
    data: "bytes | memoryview", position: int, header: BatchHeader
) -> tuple[Record, int]:
    """Return the record at `position` and the position after it."""
    size, position = read_varint(data, position, len(data))
    end = position + size
    if size < 1 or end > len(data):
        raise InvalidRecord(
            f"a record says to be {size} bytes long; {len(data) - position} are there"
        )
    timestamp_delta, position = read_varint(data, position + 1, end, VARLONG_BYTES)
    offset_delta, position = read_varint(data, position, end)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    headers, position = _read_headers(data, position, end)
    if position != end:
        raise InvalidRecord(f"{end - position} bytes are left inside a record")
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + timestamp_delta
    return Record(header.base_offset + offset_delta, timestamp, key, value, headers), end


def _read_headers(data: "bytes | memoryview", position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position, end)
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"a record says that it has {count} headers")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise InvalidRecord("a record has a header without a key")
        value, position = _read_bytes(data, position, end)
        headers.append((key, value))
    return tuple(headers), position


def _read_bytes(data: "bytes | memoryview", position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position, end)
    if size == -1:
        return None, position
    if not 0 <= size <= end - position:
        raise InvalidRecord(f"a field of {size} bytes does not fit into its record")
    return bytes(data[position : position + size]), position + size
