"""Frames, batches, records, segments and journals in plain Python: what `_records.pyx` does.

The bytes come from the wire or from a disk: no length, count or number in them is believed before
it was compared with the end of the buffer. Answers are the numbers of `constants`.
"""

# plain numbers in

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.core.constants import (
    ABORT_ENTRY,
    AT_END,
    ATTRIBUTES_POSITION,
    BAD_LENGTH,
    BAD_TIMESTAMP,
    BYTES_LEFT,
    CODEC_MASK,
    COMPRESSED,
    CONTROL,
    CRC_POSITION,
    DAMAGED,
    FINE,
    FULL,
    HEADER_SIZE,
    KEPT_BATCHES,
    LOG_OVERHEAD,
    MAGIC,
    MIN_LENGTH,
    NEEDS_REWRITE,
    NO_BATCH,
    NO_LEADER_EPOCH,
    NO_PRODUCER_ID,
    NO_RECORDS,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    NULL_KEY,
    OFFSET_BACKWARDS,
    OFFSET_OVERFLOW,
    PLAIN_ENTRY,
    RECORDS_MISSING,
    SHORT_LENGTH,
    SIZE_PREFIX,
    TIMESTAMP_OUTSIDE,
    TRANSACTIONAL,
    TRANSACTIONAL_ENTRY,
    UNEVEN_OFFSETS,
    UNREADABLE,
    WANTS_MORE,
    WRONG_CRC,
    WRONG_MAGIC,
)
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import describe_bad_size
from siltstone.protocol.records.batch import HEADER, BatchHeader
from siltstone.protocol.records.build import put_varint
from siltstone.protocol.records.record import BrokenRecord, RecordFields, read_record
from tests.reference.format import INT64_MAX, INT64_MIN, crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

_INT32_MAX: Final = (1 << 31) - 1
_SEEN_PRODUCERS: Final = 256


def crc32c_by_tables(buffer: "Buffer") -> int:
    """Return the CRC-32C as the compiled core does where the CPU has no instruction for it."""
    return crc32c(buffer)


def next_frame(buffer: "Buffer", position: int, filled: int, limit: int) -> int:
    """Return where the frame at ``position`` ends; it is complete if that is not past ``filled``.

    A frame is never copied: its header starts at ``position + SIZE_PREFIX``. While fewer than four
    bytes have come the answer is the end of the prefix. Either way the answer minus ``position`` is
    how much room the buffer needs, so nothing is reserved before the size has been judged.

    Raises:
        ProtocolError: the size is negative, zero or above ``limit``.
    """
    if filled - position < SIZE_PREFIX:
        return position + SIZE_PREFIX
    prefix = bytes(memoryview(buffer)[position : position + SIZE_PREFIX])
    is_inside = position >= 0 and filled <= len(memoryview(buffer))
    size = int.from_bytes(prefix, "big", signed=True) if is_inside else 0
    if 0 < size <= limit:
        return position + SIZE_PREFIX + size
    raise ProtocolError(describe_bad_size(size, prefix, limit))


# Judging batches ----------------------------------------------------------------------------------


def check_batch(buffer: "Buffer", low: int, high: int, keys_required: bool) -> tuple[int, int, int]:
    """Check the CRC of a buffer that is exactly one batch and, if uncompressed, its records.

    `low` and `high` are the limits of timestamps, inclusive; -1 is always allowed. Compiled, the
    GIL is let go for batches of `UNLOCKED_BYTES` and more.

    Returns:
        The verdict, the index of the record it speaks of, and the largest timestamp, never below
        -1; of a compressed batch 0, 0 and the header's max timestamp.
    """
    with memoryview(buffer).cast("B") as data:
        if len(data) < HEADER_SIZE:
            return BAD_LENGTH, 0, NO_TIMESTAMP
        header = BatchHeader.read(data)
        if header.size != len(data):
            return BAD_LENGTH, 0, NO_TIMESTAMP
        if not _has_valid_crc(data, header):
            return WRONG_CRC, 0, NO_TIMESTAMP
        if header.codec:
            return (FINE if header.count > 0 else NO_RECORDS), 0, header.max_timestamp
        return _walk(
            data, HEADER_SIZE, len(data), header.count, header.base_timestamp, low, high,
            keys_required,
        )  # fmt: skip


class Plain(NamedTuple):
    """The numbers of a common batch."""

    count: int = 0  # type: ignore[assignment]  # as the header says it
    last_offset_delta: int = 0
    attributes: int = 0
    max_timestamp: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    base_sequence: int = 0


def take_plain(
    buffer: "Buffer", low: int, high: int, keys_required: bool, flags: int, codecs: int
) -> Plain:
    """Check a buffer that is exactly one batch, and return its numbers if it is a common one.

    In a common batch every rule about the bytes holds and nothing has to be corrected. `low` and
    `high` are those of `check_batch`. `flags` are the attributes that may be set beside the codec,
    `codecs` has a bit for each codec that is stored as it came. A compressed batch is judged by its
    header, and not at all where a key is required.

    Returns:
        Its numbers. All are zero if the batch is not a common one; the caller then judges it rule
        by rule.
    """
    with memoryview(buffer).cast("B") as data:
        size = len(data)
        if size <= HEADER_SIZE:
            return _NOT_PLAIN
        header = BatchHeader.read(data)
    if not _is_plain(header, size, flags, codecs) or (
        header.codec
        and (keys_required or not low <= header.base_timestamp <= header.max_timestamp <= high)
    ):
        return _NOT_PLAIN
    verdict, _, largest = check_batch(buffer, low, high, keys_required)
    if verdict != FINE or largest != header.max_timestamp:
        return _NOT_PLAIN
    return Plain(
        header.count,
        header.last_offset_delta,
        header.attributes,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


_NOT_PLAIN = Plain()


def _is_plain(header: BatchHeader, size: int, flags: int, codecs: int) -> bool:
    """Judge a header: base offset 0, an allowed codec and flags, a count that fits."""
    return not (
        header.base_offset != 0
        or header.size != size
        or header.magic != MAGIC
        or header.attributes & ~(flags | CODEC_MASK)
        or not codecs >> header.codec & 1
        or header.count != header.last_offset_delta + 1
        or (header.producer_id >= 0 and header.base_sequence < 0)
    )


def walk_records(
    buffer: "Buffer",
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
) -> tuple[int, int, int]:
    """Check `count` records that fill `start` to `end`, also decompressed ones; see `check_batch`.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    with memoryview(buffer).cast("B") as data:
        _check_range(data, start, end)
        return _walk(data, start, end, count, base_timestamp, low, high, keys_required)


def list_bad_records(
    buffer: "Buffer",
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
    most: int,
) -> list[tuple[int, int, int]]:
    """Return (index, NULL_KEY or TIMESTAMP_OUTSIDE, timestamp) of what `walk_records` flagged.

    The records must have passed the walk; at most `most` are listed. The timestamp of a record
    without a key is not looked at, as in Kafka.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    bad: list[tuple[int, int, int]] = []
    with memoryview(buffer).cast("B") as data:
        _check_range(data, start, end)
        for index in range(count):
            if len(bad) == most:
                break
            record = read_record(data, start, end)
            start = record.stop
            timestamp = base_timestamp + record.timestamp_delta
            if keys_required and record.key_size < 0:
                bad.append((index, NULL_KEY, timestamp))
            elif timestamp != NO_TIMESTAMP and not low <= timestamp <= high:
                bad.append((index, TIMESTAMP_OUTSIDE, timestamp))
    return bad


def _check_range(data: memoryview, start: int, end: int) -> None:
    if not 0 <= start <= end <= len(data):
        raise ValueError(f"bytes {start} to {end} are not inside the buffer")


def _has_valid_crc(batch: memoryview, header: BatchHeader) -> bool:
    with batch[ATTRIBUTES_POSITION : header.size] as covered:
        return crc32c(covered) == header.crc


def _walk(
    data: memoryview,
    position: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
) -> tuple[int, int, int]:
    if count < 1:
        return NO_RECORDS, 0, NO_TIMESTAMP
    flags = FINE
    smallest, largest = INT64_MAX, INT64_MIN
    for index in range(count):
        if position >= end:
            return RECORDS_MISSING, index, NO_TIMESTAMP
        try:
            record = read_record(data, position, end)
        except BrokenRecord as error:
            return error.fault, index, NO_TIMESTAMP
        position = record.stop
        timestamp = base_timestamp + record.timestamp_delta
        flags |= _flag(record, index)
        if record.key_size < 0 and keys_required:
            flags |= NULL_KEY
        if timestamp != NO_TIMESTAMP and not low <= timestamp <= high:
            flags |= TIMESTAMP_OUTSIDE
        smallest = min(smallest, timestamp)
        largest = max(largest, timestamp)
    if position != end:
        return BYTES_LEFT, count, NO_TIMESTAMP
    if smallest < INT64_MIN or largest > INT64_MAX:
        return BAD_TIMESTAMP, 0, NO_TIMESTAMP
    return flags, 0, max(largest, NO_TIMESTAMP)


def _flag(record: RecordFields, index: int) -> int:
    """Return the bits of a verdict that follow from a record's place in the batch."""
    flags = FINE if record.offset_delta == index else UNEVEN_OFFSETS
    if record.attributes or (index == 0 and record.timestamp_delta):
        flags |= NEEDS_REWRITE
    return flags


# Writing batches ----------------------------------------------------------------------------------


def rewrite_records(buffer: "Buffer", start: int, end: int, count: int, output: "Buffer") -> int:
    """Write records that passed the walk with attributes 0 and offset deltas 0, 1, 2, ….

    Timestamp deltas become relative to the first record's timestamp.

    Returns:
        The bytes that the records take; if `output` is shorter, its content has no meaning. -1 if
        timestamps lie more than 64 bits apart.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    written = bytearray()
    with memoryview(buffer).cast("B") as data:
        _check_range(data, start, end)
        first = 0
        for index in range(count):
            try:
                record = read_record(data, start, end)
            except BrokenRecord as error:
                return error.fault
            if index == 0:
                first = record.timestamp_delta
            delta = record.timestamp_delta - first
            if not INT64_MIN <= delta <= INT64_MAX:
                return -1
            tail = data[record.tail : record.stop]
            body = b"".join((b"\0", put_varint(delta), put_varint(index), tail))
            written += put_varint(len(body))
            written += body
            start = record.stop
    with memoryview(output).cast("B") as target:
        if len(written) <= len(target):
            target[: len(written)] = written
    return len(written)


def pack_rows(
    rows: "Sequence[tuple[bytes, bytes | None]]",
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
) -> bytearray:
    """Return one plain batch of keys and values, transactional if there is a producer."""
    batch = bytearray(HEADER_SIZE)
    for index, (key, value) in enumerate(rows):
        body = b"".join((b"\0\0", put_varint(index), _put_field(key), _put_field(value), b"\0"))
        batch += put_varint(len(body))
        batch += body
    HEADER.pack_into(
        batch,
        0,
        0,
        len(batch) - LOG_OVERHEAD,
        NO_LEADER_EPOCH,
        MAGIC,
        0,
        TRANSACTIONAL if producer_id >= 0 else 0,
        len(rows) - 1,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        len(rows),
    )
    with memoryview(batch) as whole, whole[ATTRIBUTES_POSITION:] as covered:
        whole[CRC_POSITION:ATTRIBUTES_POSITION] = crc32c(covered).to_bytes(4, "big")
    return batch


def _put_field(field: bytes | None) -> bytes:
    return put_varint(-1) if field is None else put_varint(len(field)) + field


# Segments -----------------------------------------------------------------------------------------


def find_batch(buffer: "Buffer", start: int, end: int, offset: int) -> int:
    """Return the position of the first batch whose last offset is at or above `offset`.

    Only headers are read. If there is no such batch, the answer is ~p, where p is the position of
    the next header, maybe beyond `end`. p is `start` if the first batch is cut short or none.
    """
    with memoryview(buffer).cast("B") as data:
        end = min(end, len(data))
        position = max(start, 0)
        while position + HEADER_SIZE <= end:
            header = BatchHeader.read(data, position)
            if header.length < MIN_LENGTH:
                break
            if header.last_offset >= offset:
                return position
            position += header.size
    return ~position


def find_end(buffer: "Buffer", start: int, end: int) -> int:
    """Return where the last whole batch between `start` and `end` ends; `start` without one."""
    with memoryview(buffer).cast("B") as data:
        end = min(end, len(data))
        position = max(start, 0)
        while position + HEADER_SIZE <= end:
            header = BatchHeader.read(data, position)
            if header.length < MIN_LENGTH or position + header.size > end:
                break
            position += header.size
    return position


class SegmentScan:
    """Walks a segment from its start, chunk by chunk, and keeps what it has seen.

    It checks length, magic, CRC and that offsets rise within the segment (`LogSegment.recover`).
    """

    __slots__ = (
        "_entry_room",
        "_interval",
        "_notable_room",
        "base_offset",
        "batches",
        "first_timestamp",
        "indexed",
        "last_offset",
        "leader_epoch",
        "max_timestamp",
        "max_timestamp_offset",
        "needed",
        "position",
        "status",
    )

    def __init__(
        self, base_offset: int, interval: int, entry_room: int = 1024, notable_room: int = 4096
    ) -> None:
        """Begin a segment; ``interval`` is `index.interval.bytes`.

        The rooms say how many results one call may have.
        """
        self._interval = interval
        self._entry_room = entry_room
        self._notable_room = notable_room
        self.base_offset = self.max_timestamp_offset = base_offset
        self.last_offset = base_offset - 1
        self.first_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.leader_epoch = NO_LEADER_EPOCH
        self.batches = 0
        self.indexed = 0
        """The position of the last batch with an entry in the index."""
        self.position = 0
        """Where the sound batches end so far, and the next chunk begins."""
        self.needed = 0
        """Bytes that the next batch takes."""
        self.status = WANTS_MORE

    def scan(self, chunk: "Buffer") -> tuple[list[tuple[int, int, int, int]], list[int]]:
        """Walk the whole batches of a chunk that begins at `position`; compiled without the GIL.

        The walk stops before the first batch that is bad or not wholly in the chunk, or when a room
        is full: the next chunk begins there.

        Returns:
            The entries of the sparse indexes, by Kafka's rule: last offset, position, max timestamp
            so far and its offset. And the file positions of batches that Python must look at, in
            order: those with a new leader epoch, transactional and control ones, and of every
            producer the last `KEPT_BATCHES` in the chunk, which is all that its state keeps.
        """
        origin = self.position
        entries: list[tuple[int, int, int, int]] = []
        notable: list[tuple[int, int]] = []  # position, and the producer unless it is always kept
        with memoryview(chunk).cast("B") as data:
            while header := self._find(data, self.position - origin):
                if len(entries) == self._entry_room or len(notable) == self._notable_room:
                    self.status = FULL
                    break
                with data[self.position - origin :] as batch:
                    is_valid = _has_valid_crc(batch, header)
                self.status = self._check_offsets(header) if is_valid else WRONG_CRC
                if self.status != WANTS_MORE:
                    break
                self._note(header, entries, notable)
                self.position += header.size
        return entries, _thin(notable)

    def _find(self, data: memoryview, at: int) -> BatchHeader | None:
        """Return the header of the whole batch there; None: the status and `needed` say why."""
        self.status = WANTS_MORE
        self.needed = HEADER_SIZE
        if at + HEADER_SIZE > len(data):
            return None
        header = BatchHeader.read(data, at)
        if header.length < MIN_LENGTH:
            self.status = SHORT_LENGTH
        elif header.magic != MAGIC:
            self.status = WRONG_MAGIC
        elif at + header.size > len(data):
            self.needed = header.size
        else:
            return header
        return None

    def _check_offsets(self, header: BatchHeader) -> int:
        farthest = max(header.base_offset, header.last_offset)
        if header.base_offset < self.base_offset or farthest >= INT64_MAX:
            return OFFSET_OVERFLOW
        if farthest - self.base_offset > _INT32_MAX:
            return OFFSET_OVERFLOW
        if header.last_offset_delta < 0 or header.last_offset <= self.last_offset:
            return OFFSET_BACKWARDS
        return WANTS_MORE

    def _note(
        self,
        header: BatchHeader,
        entries: list[tuple[int, int, int, int]],
        notable: list[tuple[int, int]],
    ) -> None:
        self.last_offset = header.last_offset
        if not self.batches:
            self.first_timestamp = header.max_timestamp
        self.batches += 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = self.last_offset
        if self.position - self.indexed > self._interval:
            self.indexed = self.position
            entries.append(
                (self.last_offset, self.position, self.max_timestamp, self.max_timestamp_offset)
            )
        if header.leader_epoch > self.leader_epoch or header.attributes & (TRANSACTIONAL | CONTROL):
            notable.append((self.position, NO_PRODUCER_ID))
            self.leader_epoch = max(self.leader_epoch, header.leader_epoch)
        elif header.producer_id >= 0:
            notable.append((self.position, header.producer_id))


def _thin(notable: list[tuple[int, int]]) -> list[int]:
    """Drop batches that later ones of their producer make needless.

    They are counted backwards, in a table by producer id. Two ids with the same place overwrite
    each other, and more batches are kept, which does no harm.
    """
    seen: dict[int, tuple[int, int]] = {}
    kept = []
    for position, producer_id in reversed(notable):
        if producer_id != NO_PRODUCER_ID:
            place = producer_id % _SEEN_PRODUCERS
            last, batches = seen.get(place, (NO_PRODUCER_ID, 0))
            batches = batches + 1 if last == producer_id else 1
            seen[place] = producer_id, batches
            if batches > KEPT_BATCHES:
                continue
        kept.append(position)
    return kept[::-1]


# Journals -----------------------------------------------------------------------------------------


def read_journal(
    buffer: "Buffer", position: int, most: int, has_offsets: bool
) -> tuple[list[tuple[Any, ...]], int, int]:
    """Return the entries of whole batches from `position` on, where it ended, and why.

    It ends after the batch in which `most` entries were reached, or before a batch that is cut
    short (AT_END), COMPRESSED, DAMAGED or none at all (NO_BATCH), or after a batch with a record
    that does not parse (UNREADABLE). Entries are those of `journal.Entry`. With `has_offsets` the
    key of a committed offset, if it and its value can be read, is the tuple of group, topic and
    partition instead of bytes.
    """
    entries: list[tuple[Any, ...]] = []
    status = AT_END
    with memoryview(buffer).cast("B") as data:
        while len(entries) < most and position + HEADER_SIZE <= len(data):
            header = BatchHeader.read(data, position)
            if header.length < MIN_LENGTH or header.magic != MAGIC:
                status = NO_BATCH
                break
            if position + header.size > len(data):
                break
            with data[position : position + header.size] as batch:
                if not _has_valid_crc(batch, header):
                    status = DAMAGED
                elif header.codec:
                    status = COMPRESSED
                else:
                    status = _read_entries(batch, header, has_offsets, entries)
            if status != AT_END:
                break
            position += header.size
    return entries, position, status


def _read_entries(
    batch: memoryview, header: BatchHeader, has_offsets: bool, entries: list[tuple[Any, ...]]
) -> int:
    """Append the entries of a batch, and return whether all of it could be read."""
    position = HEADER_SIZE
    for _ in range(header.count):
        try:
            record = read_record(batch, position, len(batch))
        except BrokenRecord:
            return UNREADABLE
        position = record.stop
        offset = header.base_offset + record.offset_delta
        if record.offset_delta < 0 or offset > INT64_MAX:
            return NO_BATCH
        raw = bytes(batch[record.key : record.key + max(record.key_size, 0)])
        value = None
        key: bytes | tuple[str, str, int] = b""
        if header.is_control:
            # The key of a marker: its version and its type, 0 for an abort, 1 for a commit.
            marker = int.from_bytes(raw[2:4], "big")
            if len(raw) < 4 or marker > 1:
                continue
            kind = ABORT_ENTRY + marker
        else:
            kind = TRANSACTIONAL_ENTRY if header.is_transactional else PLAIN_ENTRY
            if record.value_size >= 0:
                value = bytes(batch[record.value : record.value + record.value_size])
            key = (_take_names(raw, value) if has_offsets else None) or raw
        entries.append((offset, kind, key, value, header.producer_id, header.producer_epoch))
    return AT_END


def _take_names(key: bytes, value: bytes | None) -> tuple[str, str, int] | None:
    """Return group, topic and partition of a committed offset.

    None if it is another record, or it or its value cannot be read. The key is a version of 0 or
    1, group, topic and partition. The value is a version, an offset, from version 3 on a leader
    epoch, metadata, a time, and in version 1 another.
    """
    names = len(key) - 10
    if names < 0 or not 0 <= _int16(key, 0) <= 1:
        return None
    group_size = _int16(key, 2)
    if not 0 <= group_size <= names or _int16(key, 4 + group_size) != names - group_size:
        return None
    if value is not None:
        version = _int16(value, 0)
        if len(value) < 20 or not 0 <= version <= 3:
            return None
        head = 16 if version == 3 else 12
        tail = 16 if version == 1 else 8
        metadata = len(value) - head - tail
        if metadata < 0 or _int16(value, head - 2) != metadata:
            return None
    try:
        group, topic = str(key[4 : 4 + group_size], "utf-8"), str(key[6 + group_size : -4], "utf-8")
    except UnicodeDecodeError:
        return None
    return group, topic, int.from_bytes(key[-4:], "big", signed=True)


def _int16(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 2], "big", signed=True)
