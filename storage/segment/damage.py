"""Checks by a few reads whether the indexes of a segment can be right.

Kafka does not check them since KAFKA-7283. `LogSegment.recover` repairs the damage found here: it
rebuilds all indexes from the ``.log``, including a missing time index.
"""

from typing import Final

from siltstone.protocol.core.constants import HEADER_SIZE, MAGIC
from siltstone.storage import files
from siltstone.storage.producers import transaction_index
from siltstone.storage.segment.index import OFFSET_ENTRY, TIME_ENTRY, OffsetIndex, TimeIndex
from siltstone.storage.segment.readable import ReadableSegment

LOG_REMEDY: Final = (
    "take the segment from a backup; without one the other batches are still served, and "
    "consumers that check checksums have to be set past the damaged one"
)
"""The remedy for a damaged ``.log``."""


def find_damage(segment: ReadableSegment) -> str | None:
    """Return a fault of an index, None if these checks find none."""
    for kind, entry_size in ((files.INDEX, OFFSET_ENTRY.size), (files.TIME_INDEX, TIME_ENTRY.size)):
        length = segment.files.find_size(kind)
        if length is None:
            return f"{kind} is missing"
        if length % entry_size:
            return f"{kind}: its length {length} is no multiple of {entry_size}"
    for kind, find in (
        (files.INDEX, _find_offset_damage),
        (files.TIME_INDEX, _find_time_damage),
        (files.TRANSACTION_INDEX, _find_transaction_damage),
    ):
        damage = find(segment)
        if damage:
            return f"{kind}: {damage}"
    return None


def offset_index_damage(index: OffsetIndex, log_size: int) -> str | None:
    """Return the fault of an offset index, by its last entry alone; None without a fault.

    The last entry must lie after the first batch and inside the log. A tail of zeros, which Kafka
    leaves after a crash, fails this check.
    """
    last = index.last()
    if last is None:
        return None
    if last.offset <= index.base_offset or last.position <= 0:
        return f"its last entry is {last.offset} at {last.position}"
    if last.position >= log_size:
        return f"its last entry is at {last.position}, outside the log of {log_size} bytes"
    return None


def time_index_damage(index: TimeIndex) -> str | None:
    """Return the fault of a time index, by its first and last entries; None without a fault."""
    last = index.last()
    if last is None:
        return None
    if last.offset < index.base_offset:
        return f"its last entry is for offset {last.offset}, below the segment"
    first = index[0]
    backwards = last.timestamp <= first.timestamp or last.offset < first.offset
    if len(index) > 1 and backwards:
        return f"its last entry {tuple(last)} does not follow its first {tuple(first)}"
    return None


def _find_offset_damage(segment: ReadableSegment) -> str | None:
    """Compare the last entry with its batch; Kafka's entry may stand for several (KAFKA-806)."""
    index = segment.offset_index()
    damage = offset_index_damage(index, segment.size)
    last = index.last()
    if damage or last is None:
        return damage
    if segment.size - last.position >= HEADER_SIZE:
        header = segment.header_at(last.position)
        if header.magic == MAGIC and segment.base_offset <= header.last_offset <= last.offset:
            return None
    return f"no batch of offset {last.offset} begins at {last.position}"


def _find_time_damage(segment: ReadableSegment) -> str | None:
    times = segment.time_index()
    if not len(times) and segment.first_batch_timestamp >= 0:
        return "it is empty but the first batch has a timestamp"
    return time_index_damage(times)


def _find_transaction_damage(segment: ReadableSegment) -> str | None:
    if segment.files.find_size(files.TRANSACTION_INDEX) is None:
        return None
    return transaction_index.find_damage(
        segment.files.path(files.TRANSACTION_INDEX), segment.base_offset
    )
