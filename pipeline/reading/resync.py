"""Finds the next batch after damaged bytes."""

from typing import Final

from siltstone.pipeline.stores import StoredFile
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
)

_SEARCHED_BYTES: Final = 4 << 20


def find_batch_after(opened: StoredFile, position: int, size: int, end: int) -> int:
    """Return where the next batch begins after a bad one, or ``end``.

    If a batch begins after the ``size`` that the bad one states, it is that batch. Otherwise every
    magic byte is tried.
    """
    behind = position + size
    if size >= HEADER_SIZE and (behind == end or is_batch(opened, behind, end)):
        return behind
    position += 1
    while position + HEADER_SIZE <= end:
        data = opened.read(position, min(_SEARCHED_BYTES, end - position))
        at = 0
        while (at := data.find(b"\x02", at)) >= 0:
            if at >= MAGIC_POSITION and is_batch(opened, position + at - MAGIC_POSITION, end):
                return position + at - MAGIC_POSITION
            at += 1
        position += max(1, len(data) - HEADER_SIZE)
    return end


def is_batch(opened: StoredFile, position: int, end: int) -> bool:
    """Tell whether the bytes at a position are a whole batch with the right CRC."""
    head = opened.read(position, LOG_OVERHEAD)
    if len(head) < LOG_OVERHEAD:
        return False
    size = int.from_bytes(head[8:], "big", signed=True) + LOG_OVERHEAD
    if not HEADER_SIZE <= size <= end - position:
        return False
    batch = opened.read(position, size)
    crc = int.from_bytes(batch[CRC_POSITION:ATTRIBUTES_POSITION], "big")
    is_whole = len(batch) == size and batch[MAGIC_POSITION] == MAGIC
    return is_whole and crc32c(batch[ATTRIBUTES_POSITION:]) == crc
