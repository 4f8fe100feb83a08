"""From batch to batch through a ``.log``, by headers alone (Kafka: ``FileRecords``).

Each function reads a few KiB at a time and never past ``end``. A batch that does not end at or
before ``end`` is a torn tail and is not seen; recovery cuts it. Nothing here checks a CRC.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol.errors import CorruptMessage
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_POSITION, BatchHeader

LOOKUP_CHUNK: Final = 8192
"""What a lookup reads at once: the usual distance of two index entries and the batch after it."""
SCAN_CHUNK: Final = 64 * 1024

_STEP: Final = struct.Struct(">qi11xi")  # base offset, length, last offset delta


class Located(NamedTuple):
    """A batch in a file."""

    position: int
    header: BatchHeader


def find_batch(fd: int, position: int, end: int, offset: int) -> Located | None:
    """Return the first batch whose last offset is at or above ``offset``.

    ``position`` is the start of a batch.

    Raises:
        CorruptMessage: There is no batch where one has to begin.
    """
    while end - position >= HEADER_SIZE:
        chunk = os.pread(fd, min(LOOKUP_CHUNK, end - position), position)
        at, last = 0, len(chunk) - HEADER_SIZE
        if last < 0:
            return None
        while at <= last:
            base_offset, length, delta = _STEP.unpack_from(chunk, at)
            _check(chunk, at, length, position)
            after = position + at + length + LOG_OVERHEAD
            if after > end:
                return None
            if base_offset + delta >= offset:
                return Located(position + at, BatchHeader.read(chunk, at))
            at += length + LOG_OVERHEAD
        position += at
    return None


def last_boundary(fd: int, position: int, target: int) -> int:
    """Return the end of the last batch that ends at or before ``target``.

    ``position`` is the start of a batch, and the answer if none ends so early.

    Raises:
        CorruptMessage: There is no batch where one has to begin.
    """
    while target - position >= HEADER_SIZE:
        chunk = os.pread(fd, min(LOOKUP_CHUNK, target - position), position)
        at, last = 0, len(chunk) - HEADER_SIZE
        if last < 0:
            break
        while at <= last:
            _, length, _ = _STEP.unpack_from(chunk, at)
            _check(chunk, at, length, position)
            if position + at + length + LOG_OVERHEAD > target:
                return position + at
            at += length + LOG_OVERHEAD
        position += at
    return position


def iterate_batches(
    fd: int, position: int, end: int, chunk_size: int = SCAN_CHUNK
) -> Iterator[Located]:
    """Yield every whole batch from ``position``, the start of one, to ``end``.

    Raises:
        CorruptMessage: There is no batch where one has to begin.
    """
    while end - position >= HEADER_SIZE:
        chunk = os.pread(fd, min(chunk_size, end - position), position)
        at, last = 0, len(chunk) - HEADER_SIZE
        if last < 0:
            return
        while at <= last:
            header = BatchHeader.read(chunk, at)
            _check(chunk, at, header.length, position)
            if position + at + header.size > end:
                return
            yield Located(position + at, header)
            at += header.size
        position += at


def _check(chunk: bytes, at: int, length: int, position: int) -> None:
    if length < HEADER_SIZE - LOG_OVERHEAD or chunk[at + MAGIC_POSITION] != MAGIC:
        raise CorruptMessage(
            f"no batch of magic {MAGIC} at position {position + at}: "
            f"length {length}, magic {chunk[at + MAGIC_POSITION]}"
        )
