"""From batch to batch through a ``.log``, by headers alone (Kafka: ``FileRecords``).

Each function reads a few KiB at a time and never past ``end``. A batch that does not end at or
before ``end`` is a torn tail and is not seen; recovery cuts it. Nothing here checks a CRC.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from protocol.errors import CorruptMessage
from protocol.records import kernels
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader

LOOKUP_CHUNK: Final = 8192
"""What a lookup reads at once: the usual distance of two index entries and the batch after it."""
SCAN_CHUNK: Final = 64 * 1024

_HEAD: Final = struct.Struct(">qi4xb")  # base offset, length, magic
_SPAN: Final = struct.Struct(">q15xi")  # base offset, last offset delta


class Located(NamedTuple):
    """A batch in a file."""

    position: int
    header: BatchHeader


class Cut(NamedTuple):
    """The end of a range of whole batches, and an offset behind it.

    ``next_offset`` is one past the last offset in the range, or more: at most the base offset of
    the batch that follows, which compaction may have moved away.
    """

    end: int
    next_offset: int


def measure_batch(fd: int, position: int) -> tuple[int, int, int]:
    """Return size, base offset and next offset of the batch at ``position``, the start of one.

    Raises:
        CorruptMessage: There is no batch.
    """
    chunk = os.pread(fd, HEADER_SIZE, position)
    size = _size_at(chunk, 0, position)
    base_offset, last_offset_delta = _SPAN.unpack_from(chunk)
    return size, base_offset, base_offset + last_offset_delta + 1


def find_batch(fd: int, position: int, end: int, offset: int) -> Located | None:
    """Return the first batch whose last offset is at or above ``offset``.

    ``position`` is the start of a batch.

    Raises:
        CorruptMessage: There is no batch where one has to begin.
    """
    while end - position >= HEADER_SIZE:
        chunk = os.pread(fd, min(LOOKUP_CHUNK, end - position), position)
        if len(chunk) < HEADER_SIZE:
            return None
        found = kernels.find_batch(chunk, 0, len(chunk), offset)
        at = found if found >= 0 else ~found
        if found >= 0 or at == 0:
            size = _size_at(chunk, at, position)
            if position + at + size > end:
                return None
            return Located(position + at, BatchHeader.read(chunk, at))
        position += at
    return None


def cut(fd: int, position: int, target: int, limit: int) -> Cut:
    """Return the end of the last batch that ends at or before ``target``.

    ``position`` is the start of a batch, and the answer if none ends so early. ``limit``, above
    ``target``, is the end of one.

    Raises:
        CorruptMessage: There is no batch where one has to begin.
    """
    while True:
        chunk = os.pread(fd, min(LOOKUP_CHUNK, limit - position), position)
        at = kernels.find_end(chunk, 0, target - position)
        if len(chunk) - at < HEADER_SIZE:
            position += at
            at = 0
            chunk = os.pread(fd, HEADER_SIZE, position)
        size = _size_at(chunk, at, position)
        if position + at + size > target:
            return Cut(position + at, _HEAD.unpack_from(chunk, at)[0])
        position += at + size


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
            size = _size_at(chunk, at, position)
            if position + at + size > end:
                return
            yield Located(position + at, BatchHeader.read(chunk, at))
            at += size
        position += at


def _size_at(chunk: bytes, at: int, position: int) -> int:
    """Return the size of the batch at ``at``; ``position`` is that of the chunk."""
    if len(chunk) - at < HEADER_SIZE:
        raise CorruptMessage(f"the log ends inside the batch at position {position + at}")
    _, length, magic = _HEAD.unpack_from(chunk, at)
    if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC:
        raise CorruptMessage(
            f"no batch of magic {MAGIC} at position {position + at}: length {length}, magic {magic}"
        )
    return int(length) + LOG_OVERHEAD
