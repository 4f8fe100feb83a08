"""Walks from batch to batch through a ``.log``, by headers alone (Kafka: ``FileRecords``).

A batch that ends after ``end`` is a torn tail and is left out; recovery cuts it.
Nothing here checks a CRC. Lookups are in `storage.segment.lookup`.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from siltstone.protocol.core.constants import HEADER_SIZE, LOG_OVERHEAD, MAGIC
from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files

SCAN_CHUNK: Final = 64 * 1024

_HEAD: Final = struct.Struct(">qi4xb")  # base offset, length, magic


class Located(NamedTuple):
    """A batch in a file."""

    position: int
    header: BatchHeader


class Cut(NamedTuple):
    """The end of a range of whole batches, and an offset after the range.

    ``next_offset`` is above the last offset in the range and at most the base offset of the next
    batch; compaction may have left a gap.
    """

    end: int
    next_offset: int


def iterate_batches(fd: int, position: int, end: int) -> Iterator[Located]:
    """Yield every whole batch from ``position``, the start of one, to ``end``.

    Raises:
        CorruptMessage: No batch begins where one must begin.
    """
    while end - position >= HEADER_SIZE:
        chunk = files.read_at(fd, min(SCAN_CHUNK, end - position), position)
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
    """Return the size of the batch at ``at`` in a chunk; ``position`` is that of the chunk."""
    if len(chunk) - at < HEADER_SIZE:
        raise CorruptMessage(f"the log ends inside the batch at position {position + at}")
    _, length, magic = _HEAD.unpack_from(chunk, at)
    if length < HEADER_SIZE - LOG_OVERHEAD or magic != MAGIC:
        raise CorruptMessage(
            f"no batch of magic {MAGIC} at position {position + at}: length {length}, magic {magic}"
        )
    return int(length) + LOG_OVERHEAD
