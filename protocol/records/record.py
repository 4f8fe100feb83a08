"""Records of a batch, magic 2 (Kafka's DefaultRecord, ByteUtils).

A record is: length, attributes (int8), timestamp delta, offset delta, key, value, headers; lengths
and deltas are zig-zag varints of 5 bytes at most, the timestamp delta of 10; -1 is a null. Reading
is strict: what does not parse exactly raises InvalidRecord, never IndexError. This reader is for
tools and rare paths; the core checks what clients send.
"""

from typing import TYPE_CHECKING, NamedTuple

from siltstone.protocol.core.plain_format import VARINT_BYTES, read_field, read_record, read_varint
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records import compression
from siltstone.protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

Headers = tuple[tuple[bytes, bytes | None], ...]


class Record(NamedTuple):
    """One record as a reader sees it: absolute offset and time; header keys are UTF-8 bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def iterate_records(
    batch: "Buffer", cap: int = compression.MAX_DECOMPRESSED_BYTES
) -> "Iterator[Record]":
    """Yield the records of one whole batch; a compressed one is opened up to `cap` bytes.

    It is opened a little at a time, so that only what is being read is in memory. The CRC is not
    checked. The yielded keys and values are copies.

    Raises:
        CorruptMessage: the bytes are no batch of magic 2, or the codec finds junk.
        InvalidRecord: a record does not parse, records are missing or bytes are left over.
    """
    reader = RecordReader(batch)
    for part in reader.unfold(cap):
        yield from reader.read(part)
    reader.end()


class RecordReader:
    """Reads the records of one whole batch from its unfolded parts, in their order.

    Raises:
        CorruptMessage: the bytes are no batch of magic 2.
        InvalidRecord: its number of records is negative.
    """

    def __init__(self, batch: "Buffer") -> None:
        view = memoryview(batch)
        if len(view) < HEADER_SIZE:
            raise CorruptMessage(f"a batch of {len(view)} bytes is shorter than its header")
        self.header = header = BatchHeader.read(view)
        if header.magic != MAGIC or not HEADER_SIZE <= header.size <= len(view):
            raise CorruptMessage(
                f"the batch at offset {header.base_offset} has magic {header.magic} and says to be"
                f" {header.size} bytes long; {len(view)} bytes have come"
            )
        if header.count < 0:
            raise InvalidRecord(f"the batch says that it has {header.count} records")
        self._payload = view[HEADER_SIZE : header.length + LOG_OVERHEAD]
        self._left = header.count
        self._data = b""  # the bytes from the next record on
        self._needed = self._there = 0
        self._waiting: list[bytes] = []  # parts of a record that is longer

    def unfold(self, cap: int = compression.MAX_DECOMPRESSED_BYTES) -> "Iterator[bytes]":
        """Yield the parts; the codec may block.

        Raises:
            CorruptMessage: it finds junk.
            InvalidRecord: there are more than `cap` bytes.
        """
        max_bytes = cap if self.header.codec else compression.UNLIMITED
        return iter(compression.unfold(self.header.codec, self._payload, max_bytes))

    def read(self, part: bytes) -> "Iterator[Record]":
        """Yield the records that end in the next part.

        Raises:
            InvalidRecord: one does not parse.
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
    """Return how many bytes from `position` on a record takes that is not whole yet, else 0.

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
