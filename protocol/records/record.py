"""Records of a batch, magic 2 (Kafka's DefaultRecord, ByteUtils).

A record is: length, attributes (int8), timestamp delta, offset delta, key, value, headers; lengths
and deltas are zig-zag varints of 5 bytes at most, the timestamp delta of 10; -1 is a null. Reading
is strict: a record that does not parse exactly raises InvalidRecord, never IndexError. This reader
is for tools and rare paths; the core checks the batches of clients.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.protocol.core import constants
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records import compression
from siltstone.protocol.records.batch import BatchHeader

if TYPE_CHECKING:
    from typing_extensions import Buffer

Headers = tuple[tuple[bytes, bytes | None], ...]

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10


class Record(NamedTuple):
    """One record with its absolute offset and time; header keys are UTF-8 bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_records(
    batch: "Buffer",
    cap: int = compression.MAX_DECOMPRESSED_BYTES,
    max_record_bytes: int = compression.UNLIMITED,
) -> "Iterator[Record]":
    """Yield the records of one whole batch; a compressed one is opened up to `cap` bytes.

    A compressed batch is opened a little at a time, so that only the part being read is in memory.
    The CRC is not checked. The yielded keys and values are copies.

    Raises:
        CorruptMessage: the bytes are no batch of magic 2, or the codec finds junk.
        InvalidRecord: a record does not parse, records are missing or bytes are left over, or
            (`UnfoldsTooFar`) a record of a compressed batch is larger than ``max_record_bytes``.
    """
    reader = RecordReader(batch)
    for part in reader.unfold(cap, max_record_bytes):
        yield from reader.read(part)
    reader.end()


def unfold_records(
    codec: int,
    data: "Buffer",
    max_record_bytes: int,
    cap: int = compression.MAX_DECOMPRESSED_BYTES,
) -> "Iterator[bytes]":
    """Yield the records of a batch unfolded in parts, up to the first record that is too large.

    The size of a record is what it says before its fields, as in Kafka. Records that are not
    compressed have no such limit.

    Raises:
        CorruptMessage: the codec finds junk.
        InvalidRecord: there are more than `cap` bytes, or (`UnfoldsTooFar`) a record is larger.
    """
    parts = compression.unfold(codec, data, cap)
    if codec == compression.NONE or max_record_bytes >= cap:
        return parts
    return stop_at_too_large(parts, max_record_bytes)


def stop_at_too_large(parts: "Iterator[bytes]", max_record_bytes: int) -> "Iterator[bytes]":
    """Yield parts after a look at the sizes of the records that begin in them.

    A malformed size ends the looks: the reader of the records says what is wrong.

    Raises:
        UnfoldsTooFar: a record is larger.
    """
    ahead = 0  # bytes until the next record begins
    head = b""  # the beginning of a size that the part before cut
    for part in parts:
        data = head + part
        while ahead < len(data):
            if not any(byte < 0x80 for byte in data[ahead : ahead + VARINT_BYTES]):
                if len(data) - ahead >= VARINT_BYTES:
                    ahead = compression.UNLIMITED
                break
            size, start = read_varint(data, ahead, len(data))
            if size > max_record_bytes:
                if ahead > len(head):
                    yield part[: ahead - len(head)]
                raise compression.UnfoldsTooFar(
                    f"a record of the batch has {size} bytes; max.decompressed.message.bytes is "
                    f"{max_record_bytes}"
                )
            ahead = start + size if size >= 0 else compression.UNLIMITED
        head = data[ahead:]
        ahead = max(ahead - len(data), 0)
        yield part


class RecordReader:
    """Reads the records of one whole batch from its unfolded parts, in their order.

    Raises:
        CorruptMessage: the bytes are no batch of magic 2.
        InvalidRecord: the batch's number of records is negative.
    """

    def __init__(self, batch: "Buffer") -> None:
        view = memoryview(batch)
        if len(view) < constants.HEADER_SIZE:
            raise CorruptMessage(f"a batch of {len(view)} bytes is shorter than its header")
        self.header = header = BatchHeader.read(view)
        if header.magic != constants.MAGIC or not constants.HEADER_SIZE <= header.size <= len(view):
            raise CorruptMessage(
                f"the batch at offset {header.base_offset} has magic {header.magic} and says to be"
                f" {header.size} bytes long; {len(view)} bytes have come"
            )
        if header.count < 0:
            raise InvalidRecord(f"the batch says that it has {header.count} records")
        self._payload = view[constants.HEADER_SIZE : header.length + constants.LOG_OVERHEAD]
        self._left = header.count
        self._data = b""  # the bytes from the next record on
        self._needed = self._there = 0
        self._waiting: list[bytes] = []  # parts of a record that is longer than one part

    def unfold(
        self,
        cap: int = compression.MAX_DECOMPRESSED_BYTES,
        max_record_bytes: int = compression.UNLIMITED,
    ) -> "Iterator[bytes]":
        """Yield the parts; the codec may block.

        Raises:
            CorruptMessage: the codec finds junk.
            InvalidRecord: there are more than `cap` bytes, or a record has more than its limit.
        """
        max_bytes = cap if self.header.codec else compression.UNLIMITED
        return unfold_records(self.header.codec, self._payload, max_record_bytes, max_bytes)

    def read(self, part: bytes) -> "Iterator[Record]":
        """Yield the records that end in the next part.

        Raises:
            InvalidRecord: a record does not parse.
        """
        self._waiting.append(part)
        self._there += len(part)
        if self._left and self._there < self._needed:
            return
        data = part
        if self._data or len(self._waiting) > 1:
            data = b"".join((self._data, *self._waiting))
        self._waiting.clear()
        position = 0
        while self._left:
            self._needed = _find_missing(data, position)
            if self._needed:
                break
            record, position = _read_record(data, position, self.header)
            self._left -= 1
            yield record
        self._data = data[position:]
        self._there = len(self._data)

    def end(self) -> None:
        """Make sure that all was read.

        Raises:
            InvalidRecord: records are missing, or bytes are left over.
        """
        if self._left:
            # The record is not complete; this raises the reason.
            _read_record(b"".join((self._data, *self._waiting)), 0, self.header)
        if self._there:
            raise InvalidRecord(
                f"{self._there} bytes are left after the {self.header.count} records of the batch"
            )


def _find_missing(data: bytes, position: int) -> int:
    """Return how many bytes an incomplete record at `position` needs; 0 if it is complete."""
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
    fields = read_record(data, position, len(data))
    headers = []
    at = fields.headers
    for _ in range(fields.header_count):
        size, start = read_field(data, at, fields.stop)
        value_size, at = read_field(data, start + size, fields.stop)
        headers.append((bytes(data[start : start + size]), _take(data, at, value_size)))
        at += max(value_size, 0)
    if header.is_log_append_time:
        timestamp = header.max_timestamp
    else:
        timestamp = header.base_timestamp + fields.timestamp_delta
    record = Record(
        header.base_offset + fields.offset_delta,
        timestamp,
        _take(data, fields.key, fields.key_size),
        _take(data, fields.value, fields.value_size),
        tuple(headers),
    )
    return record, fields.stop


def _take(data: "bytes | memoryview", start: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(data[start : start + size])


class BrokenRecord(InvalidRecord):
    """A record does not parse; ``fault`` is the number of the reason."""

    def __init__(self, fault: int) -> None:
        super().__init__(f"a record is broken: {constants.FAULTS[fault]}")
        self.fault = fault


class RecordFront(NamedTuple):
    """The positions and sizes of a record's parts before its headers; a size of -1 is a null."""

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
    """The positions and sizes of all parts of a record; those of `RecordFront` come first."""

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


def read_varint(
    data: bytes | memoryview, position: int, end: int, max_bytes: int = VARINT_BYTES
) -> tuple[int, int]:
    """Return the number at `position` and the position after it.

    Raises:
        BrokenRecord: the number runs past `end` or `max_bytes`, or has more than 32 (64) bits.
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
    raise BrokenRecord(constants.BAD_NUMBER)


def read_field(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the size of a key or value (-1 for null) and the position of its bytes."""
    size, position = read_varint(data, position, end)
    if size < -1 or size > end - position:
        raise BrokenRecord(constants.BAD_FIELD)
    return size, position


def read_front(data: bytes | memoryview, position: int, end: int) -> RecordFront:
    """Read the record at ``position`` up to its value: size, attributes, deltas, key and value.

    Raises:
        BrokenRecord: this part of the record does not parse, or does not end before ``end``.
    """
    size, start = read_varint(data, position, end)
    if size < 1 or size > end - start:
        raise BrokenRecord(constants.BAD_LENGTH)
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
        BrokenRecord: the record does not parse exactly, or does not end before ``end``.
    """
    front = read_front(data, position, end)
    stop = front.stop
    count, headers = read_varint(data, front.value + max(front.value_size, 0), stop)
    if count < 0 or count > stop - headers:
        raise BrokenRecord(constants.BAD_HEADERS)
    at = headers
    for _ in range(count):
        size, at = read_field(data, at, stop)
        if size < 0:
            raise BrokenRecord(constants.BAD_HEADERS)
        size, at = read_field(data, at + size, stop)
        at += max(size, 0)
    if at != stop:
        raise BrokenRecord(constants.BAD_BODY)
    return RecordFields(*front, count, headers)
