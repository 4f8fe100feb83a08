"""Opens compressed batches for the core, and compresses them again with the same codec."""

from struct import Struct
from typing import Final

from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    HEADER_SIZE,
    LENGTH_POSITION,
    LOG_OVERHEAD,
)
from siltstone.protocol.records import compression
from siltstone.protocol.records.record import unfold_records

_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_ATTRIBUTES_LOW: Final = ATTRIBUTES_POSITION + 1


def first_batch(batches: memoryview) -> memoryview:
    """Return the batch at the start of a view."""
    size: int = _INT32.unpack_from(batches, LENGTH_POSITION)[0]
    return batches[: size + LOG_OVERHEAD]


def open_batch(batch: memoryview, max_record_bytes: int) -> bytearray:
    """Return exactly one batch with its records unfolded; attributes and CRC stay as they are.

    Raises:
        CorruptMessage: The codec cannot decompress the bytes.
        UnfoldsTooFar: The batch unfolds to more than the limit, or one of its records.
        InvalidRecord: The codec does not exist.
    """
    codec = batch[_ATTRIBUTES_LOW] & CODEC_MASK
    opened = bytearray(batch[:HEADER_SIZE])
    for part in unfold_records(codec, batch[HEADER_SIZE:], max_record_bytes):
        opened += part
    _INT32.pack_into(opened, LENGTH_POSITION, len(opened) - LOG_OVERHEAD)
    return opened


def close_batch(opened: bytearray) -> bytearray:
    """Return the batch with its records compressed again, at the codec's default level."""
    codec = opened[_ATTRIBUTES_LOW] & CODEC_MASK
    with memoryview(opened) as whole:
        records = compression.compress(codec, whole[HEADER_SIZE:])
    batch = bytearray(HEADER_SIZE + len(records))
    batch[:HEADER_SIZE] = opened[:HEADER_SIZE]
    batch[HEADER_SIZE:] = records
    _INT32.pack_into(batch, LENGTH_POSITION, len(batch) - LOG_OVERHEAD)
    with memoryview(batch) as whole:
        _UINT32.pack_into(batch, CRC_POSITION, crc32c(whole[ATTRIBUTES_POSITION:]))
    return batch
