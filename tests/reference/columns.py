"""Batches turned into columns, in plain Python: what `columns.pyx` does.

There are two steps. A survey checks the batches of a chunk and lists those of data. The caller may
shorten the list; then its records are written as the buffers of Arrow arrays.
"""

import struct
from typing import TYPE_CHECKING, Final

from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTE_BITS,
    ATTRIBUTES_POSITION,
    BAD_COUNT,
    BAD_RECORD,
    BYTES_LEFT,
    CODEC_MASK,
    FULL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    MIN_LENGTH,
    MIN_RECORD_BYTES,
    OFFSET_BACKWARDS,
    SHORT_LENGTH,
    WANTS_MORE,
    WRONG_CRC,
    WRONG_MAGIC,
)
from siltstone.protocol.core.rows import BatchRow, Filled, Selection
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import BrokenRecord, RecordFields, read_field, read_record
from tests.reference.format import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT64: Final = struct.Struct("=q")
_INT32: Final = struct.Struct("=i")


class Rows(list[BatchRow]):
    """Batches of data, and their sums."""

    @property
    def records(self) -> int:
        """The sum of their counts."""
        return sum(row.count for row in self)

    @property
    def size(self) -> int:
        """The sum of their sizes."""
        return sum(row.size for row in self)


class Survey:
    """Lists the batches of data of one chunk after the other."""

    __slots__ = ("_most", "flags", "last_offset", "needed", "position", "rows", "status")

    def __init__(self, most: int = 8192) -> None:
        """List so many batches at once."""
        self._most = most
        self.rows = Rows()
        self.last_offset = -1
        """The last offset of the batch before, kept from scan to scan."""
        self.status = WANTS_MORE
        """WANTS_MORE, FULL, or what is wrong with the batch at `position`."""
        self.position = 0
        self.needed = 0
        """Bytes that the next batch takes."""
        self.flags = 0
        """The attributes of all rows or-ed."""

    def scan(self, buffer: "Buffer", start: int, origin: int, is_verified: bool) -> None:
        """List the whole batches of data from ``start`` on; compiled without the GIL.

        It checks length, magic, that offsets rise, that the records can fit and, if
        ``is_verified``, the CRC. Control batches are passed over. ``origin`` is where in its file
        the buffer begins.

        Raises:
            ValueError: the start is not inside the buffer.
        """
        if start < 0:
            raise ValueError(f"byte {start} is not inside the buffer")
        self.rows = Rows()
        self.flags = 0
        self.position = start
        with memoryview(buffer).cast("B") as data:
            while header := self._find(data):
                if len(self.rows) == self._most:
                    self.status = FULL
                    return
                self.status = self._check(data, header, is_verified)
                if self.status != WANTS_MORE:
                    return
                self.last_offset = header.last_offset
                if not header.is_control and header.count:
                    self._add(header, origin)
                self.position += header.size

    def _find(self, data: memoryview) -> BatchHeader | None:
        """Return the header of the whole batch there; None: the status and `needed` say why."""
        self.status = WANTS_MORE
        self.needed = HEADER_SIZE
        if self.position + HEADER_SIZE > len(data):
            return None
        header = BatchHeader.read(data, self.position)
        if header.length < MIN_LENGTH:
            self.status = SHORT_LENGTH
        elif header.magic != MAGIC:
            self.status = WRONG_MAGIC
        elif self.position + header.size > len(data):
            self.needed = header.size
        else:
            return header
        return None

    def _check(self, data: memoryview, header: BatchHeader, is_verified: bool) -> int:
        if header.base_offset <= self.last_offset or header.last_offset_delta < 0:
            return OFFSET_BACKWARDS
        if header.last_offset > INT64_MAX:
            return OFFSET_BACKWARDS
        end = self.position + header.size
        if is_verified:
            with data[self.position + ATTRIBUTES_POSITION : end] as covered:
                if crc32c(covered) != header.crc:
                    return WRONG_CRC
        most = header.last_offset_delta + 1
        if not header.attributes & CODEC_MASK:
            most = min(most, (header.length - MIN_LENGTH) // MIN_RECORD_BYTES)
        return WANTS_MORE if 0 <= header.count <= most else BAD_COUNT

    def _add(self, header: BatchHeader, origin: int) -> None:
        row = BatchRow(
            self.position,
            header.size,
            origin + self.position,
            header.base_offset,
            header.last_offset,
            header.count,
            header.attributes & ATTRIBUTE_BITS,
            header.max_timestamp,
            header.producer_id,
        )
        self.rows.append(row)
        self.flags |= row.attributes


def fill_columns(
    buffer: "Buffer", rows: Rows, selection: Selection, layout: dict[str, int], arena: "Buffer"
) -> Filled:
    """Write the records of the batches into the arena; compiled without the GIL.

    The batches are uncompressed and were surveyed; ``layout`` says where each wanted buffer begins,
    and every one of them has room for all their records. The walk stops at a record that does not
    parse; what was written before it is whole.

    Raises:
        ValueError: a buffer does not begin inside the arena.
    """
    with memoryview(buffer).cast("B") as data, memoryview(arena).cast("B") as target:
        for name, start in layout.items():
            if not 0 <= start <= len(target):
                raise ValueError(f"the buffer {name} does not begin inside the arena")
        filling = _Filling(data, target, layout, selection)
        for index, row in enumerate(rows):
            try:
                filling.add(row)
            except BrokenRecord:
                filling.counts["bad_row"] = index
                break
        return Filled(**filling.counts)


class _Filling:
    """The columns while they are written."""

    def __init__(
        self, data: memoryview, arena: memoryview, layout: dict[str, int], selection: Selection
    ) -> None:
        self._data = data
        self._arena = arena
        self._layout = layout
        self._selection = selection
        self.counts = Filled()._asdict()
        for name in layout:
            if name.endswith("_ends"):
                self._put_int32(name, 0, 0)

    def add(self, row: BatchRow) -> None:
        """Write the wanted records of a batch.

        Raises:
            BrokenRecord: one does not parse, or cannot be in this batch.
        """
        wanted = self._selection
        first = self.counts["rows"]
        is_inside = row.base_offset >= wanted.start and row.last_offset < wanted.end
        is_even = row.count == row.last_offset - row.base_offset + 1
        if not wanted.is_walked and is_inside and (is_even or "offset" not in self._layout):
            for index in range(row.count):
                self._put_int64("offset", first + index, row.base_offset + index)
            self.counts["rows"] += row.count
        else:
            self._walk(row)
        for at in range(first, self.counts["rows"]):
            self._put_int32("timestamp_type", at, row.attributes & LOG_APPEND_TIME != 0)
            self._put_int64("batch_position", at, row.origin)
            self._put_int64("batch_offset", at, row.base_offset)
            self._put_int64("producer_id", at, row.producer_id)

    def _walk(self, row: BatchRow) -> None:
        wanted = self._selection
        header = BatchHeader.read(self._data, row.position)
        position = row.position + HEADER_SIZE
        end = row.position + row.size
        previous = row.base_offset - 1
        for _ in range(row.count):
            record = read_record(self._data, position, end)
            position = record.stop
            offset = row.base_offset + record.offset_delta
            timestamp = header.base_timestamp + record.timestamp_delta
            if row.attributes & LOG_APPEND_TIME:
                timestamp = header.max_timestamp
            if not previous < offset <= row.last_offset or not INT64_MIN <= timestamp <= INT64_MAX:
                raise BrokenRecord(BAD_RECORD)
            previous = offset
            is_timely = wanted.time_from <= timestamp <= wanted.time_last
            if wanted.start <= offset < wanted.end and is_timely:
                self._put(record, offset, timestamp)
        if position != end:
            raise BrokenRecord(BYTES_LEFT)

    def _put(self, record: RecordFields, offset: int, timestamp: int) -> None:
        at = self.counts["rows"]
        self._put_int64("offset", at, offset)
        self._put_int64("timestamp", at, _scaled(timestamp, self._selection.time_scale))
        if "key_ends" in self._layout:
            self._put_bytes("key", at, record.key_size, record.key)
        if "value_ends" in self._layout:
            self._put_bytes("value", at, record.value_size, record.value)
        self._put_bit("tombstone", at, record.value_size < 0)
        if "header_ends" in self._layout:
            self._put_headers(record)
            self._put_int32("header_ends", at + 1, self.counts["headers"])
        self.counts["rows"] = at + 1

    def _put_bytes(self, name: str, at: int, size: int, start: int) -> None:
        self._put_bit(f"{name}_valid", at, size >= 0)
        if size >= 0:
            self._copy(name, f"{name}_bytes", start, size)
        else:
            self.counts[f"{name}_nulls"] += 1
        self._put_int32(f"{name}_ends", at + 1, self.counts[f"{name}_bytes"])

    def _put_headers(self, record: RecordFields) -> None:
        position = record.headers
        for _ in range(record.header_count):
            at = self.counts["headers"]
            size, start = read_field(self._data, position, record.stop)
            self._copy("name", "name_bytes", start, size)
            self._put_int32("name_ends", at + 1, self.counts["name_bytes"])
            size, start = read_field(self._data, start + size, record.stop)
            self._put_bit("header_value_valid", at, size >= 0)
            if size >= 0:
                self._copy("header_value", "header_bytes", start, size)
            else:
                self.counts["header_nulls"] += 1
            self._put_int32("header_value_ends", at + 1, self.counts["header_bytes"])
            position = start + max(size, 0)
            self.counts["headers"] = at + 1

    def _copy(self, name: str, count: str, start: int, size: int) -> None:
        at = self._layout[name] + self.counts[count]
        self._arena[at : at + size] = self._data[start : start + size]
        self.counts[count] += size

    def _put_int64(self, name: str, index: int, number: int) -> None:
        if name in self._layout:
            _INT64.pack_into(self._arena, self._layout[name] + 8 * index, number)

    def _put_int32(self, name: str, index: int, number: int) -> None:
        if name in self._layout:
            _INT32.pack_into(self._arena, self._layout[name] + 4 * index, number)

    def _put_bit(self, name: str, index: int, bit: bool) -> None:
        """Store a bit of a bitmap; the first of a byte clears the others."""
        if name in self._layout:
            at = self._layout[name] + (index >> 3)
            self._arena[at] = (self._arena[at] if index & 7 else 0) | bit << (index & 7)


def _scaled(timestamp: int, scale: int) -> int:
    """Return a time in a finer unit, or the largest number if it does not fit."""
    if timestamp > INT64_MAX // scale:
        return INT64_MAX
    if timestamp < -(INT64_MAX // scale):
        return INT64_MIN
    return timestamp * scale
