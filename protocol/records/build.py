"""Writes batches of magic 2: rebuilt and recompressed batches, markers, and batches for tests."""

import struct
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, TypedDict

from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    CONTROL,
    CRC_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
)
from siltstone.protocol.records import compression
from siltstone.protocol.records.batch import HEADER
from siltstone.protocol.records.record import Record

if TYPE_CHECKING:
    from typing_extensions import Buffer, Unpack

ABORT = 0
COMMIT = 1

_SINGLE_BYTES = [bytes((value,)) for value in range(0x80)]
_CRC = struct.Struct(">I")
_NULL = b"\1"
# The record of a marker: length, no attributes, no deltas; a key of 4 bytes with version 0 and the
# kind; a value of 6 bytes with version 0 and the epoch; no headers.
_MARKER = struct.Struct(">5sxxhBxxix")
_MARKER_HEAD = b"\x20\0\0\0\x08"
_MARKER_VALUE_SIZE = 0x0C


class BatchFields(TypedDict, total=False):
    """Header fields that a builder may set; the others are -1, none or computed."""

    leader_epoch: int
    flags: int
    """Attribute bits besides the codec: LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON."""
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int


def build_batch(
    records: "Iterable[Record]",
    *,
    base_offset: int = 0,
    codec: int = compression.NONE,
    level: int | None = None,
    **fields: "Unpack[BatchFields]",
) -> bytearray:
    """Return one whole batch of `records`, whose offsets are absolute.

    Unless given, the last offset delta is computed from the last record, the base timestamp from
    the first, and the max timestamp from all. Without records, this is the empty batch that the
    cleaner leaves.
    """
    rows = list(records)
    if rows:
        fields.setdefault("last_offset_delta", rows[-1].offset - base_offset)
        fields.setdefault("base_timestamp", rows[0].timestamp)
        fields.setdefault("max_timestamp", max(row.timestamp for row in rows))
    base_timestamp = fields.get("base_timestamp", NO_TIMESTAMP)
    payload = bytearray()
    for row in rows:
        _write_record(payload, row, base_offset, base_timestamp)
    packed = compression.compress(codec, payload, level) if rows else b""
    return frame_batch(
        packed, len(rows), base_offset=base_offset, codec=codec if rows else 0, **fields
    )


def frame_batch(
    payload: "Buffer",
    count: int,
    *,
    base_offset: int = 0,
    codec: int = compression.NONE,
    **fields: "Unpack[BatchFields]",
) -> bytearray:
    """Return a batch around a payload that is already packed by `codec`."""
    view = memoryview(payload)
    batch = bytearray(HEADER_SIZE + len(view))
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        fields.get("leader_epoch", NO_LEADER_EPOCH),
        MAGIC,
        0,
        codec | fields.get("flags", 0),
        fields.get("last_offset_delta", count - 1),
        fields.get("base_timestamp", NO_TIMESTAMP),
        fields.get("max_timestamp", NO_TIMESTAMP),
        fields.get("producer_id", NO_PRODUCER_ID),
        fields.get("producer_epoch", NO_PRODUCER_EPOCH),
        fields.get("base_sequence", NO_SEQUENCE),
        count,
    )
    batch[HEADER_SIZE:] = view
    with memoryview(batch) as whole:
        _CRC.pack_into(batch, CRC_POSITION, crc32c(whole[ATTRIBUTES_POSITION:]))
    return batch


def build_marker(
    offset: int, timestamp: int, kind: int, coordinator_epoch: int, **fields: "Unpack[BatchFields]"
) -> bytearray:
    """Return the control batch that ends a transaction; `kind` is ABORT or COMMIT (KIP-98)."""
    payload = _MARKER.pack(_MARKER_HEAD, kind, _MARKER_VALUE_SIZE, coordinator_epoch)
    fields["flags"] = TRANSACTIONAL | CONTROL
    fields.setdefault("base_timestamp", timestamp)
    fields.setdefault("max_timestamp", timestamp)
    return frame_batch(payload, 1, base_offset=offset, **fields)


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


def _write_record(output: bytearray, record: Record, base_offset: int, base_timestamp: int) -> None:
    offset, timestamp, key, value, headers = record
    pieces = [
        b"\0",
        put_varint(timestamp - base_timestamp),
        put_varint(offset - base_offset),
        *_put_bytes(key),
        *_put_bytes(value),
        put_varint(len(headers)),
    ]
    for field in chain.from_iterable(headers):
        pieces += _put_bytes(field)
    body = b"".join(pieces)
    output += put_varint(len(body))
    output += body


def _put_bytes(field: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if field is None else (put_varint(len(field)), field)
