"""Reading a ``.log`` from its start as after a crash: how far it is sound, and its indexes.

Follows ``LogSegment.recover``: size, magic and CRC of each batch; the first one that is wrong ends
the log. Stricter than Kafka in one point: a batch whose offsets do not follow those before it is
wrong as well.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, has_valid_crc
from storage.index import MAX_RELATIVE_OFFSET, ActiveIndexes

CHUNK: Final = 1 << 20

Observer = Callable[[BatchHeader, memoryview], None]
"""Takes the header and the bytes of a batch that has a producer, is a marker or begins an epoch."""


@dataclass(slots=True)
class Scan:
    """What a scan has found so far; ``end`` is the position after the last sound batch."""

    indexes: ActiveIndexes
    next_offset: int
    end: int = 0
    since_index: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    offset_of_max_timestamp: int = -1
    leader_epoch: int = -1
    damage: str | None = None


def scan_log(
    fd: int, size: int, base_offset: int, interval: int, observe: Observer | None = None
) -> Scan:
    """Read ``size`` bytes of an open ``.log``; ``interval`` is ``index.interval.bytes``."""
    scan = Scan(ActiveIndexes(base_offset), base_offset, offset_of_max_timestamp=base_offset)
    while scan.damage is None and size - scan.end >= HEADER_SIZE:
        chunk = os.pread(fd, min(CHUNK, size - scan.end), scan.end)
        if len(chunk) < HEADER_SIZE:
            break
        before = scan.end
        _scan_chunk(scan, memoryview(chunk), interval, observe)
        if scan.end == before and scan.damage is None:
            needed = BatchHeader.read(chunk).size
            if needed > size - scan.end:
                break
            chunk = os.pread(fd, needed, scan.end)
            _scan_chunk(scan, memoryview(chunk), interval, observe)
            if scan.end == before:
                break
    if scan.damage is None and scan.end < size:
        scan.damage = f"the last batch, at position {scan.end}, is incomplete"
    return scan


def _scan_chunk(scan: Scan, chunk: memoryview, interval: int, observe: Observer | None) -> None:
    """Take the whole batches of a chunk that begins at ``scan.end``."""
    at = 0
    while len(chunk) - at >= HEADER_SIZE:
        header = BatchHeader.read(chunk, at)
        if header.length < HEADER_SIZE - LOG_OVERHEAD or header.magic != MAGIC:
            scan.damage = f"no batch at position {scan.end}"
            return
        if at + header.size > len(chunk):
            return
        batch = chunk[at : at + header.size]
        scan.damage = _find_damage(scan, header, batch)
        if scan.damage:
            return
        _take(scan, header, interval)
        if observe is not None and _matters(scan, header):
            scan.leader_epoch = max(scan.leader_epoch, header.leader_epoch)
            observe(header, batch)
        at += header.size


def _find_damage(scan: Scan, header: BatchHeader, batch: memoryview) -> str | None:
    if not has_valid_crc(batch, header.crc):
        return f"wrong checksum of the batch at position {scan.end}"
    if header.last_offset_delta < 0 or header.base_offset < scan.next_offset:
        return f"offset {header.base_offset} at position {scan.end} does not follow"
    if header.last_offset - scan.indexes.base_offset > MAX_RELATIVE_OFFSET:
        return f"offset {header.last_offset} at position {scan.end} is too far from the base offset"
    return None


def _take(scan: Scan, header: BatchHeader, interval: int) -> None:
    """Note a sound batch by the rules of `LogSegment.append`."""
    if scan.end == 0:
        scan.first_timestamp = header.max_timestamp
    last_offset = header.last_offset
    if header.max_timestamp > scan.max_timestamp:
        scan.max_timestamp = header.max_timestamp
        scan.offset_of_max_timestamp = last_offset
    if scan.since_index > interval:
        scan.indexes.add(last_offset, scan.end)
        scan.indexes.add_time(scan.max_timestamp, scan.offset_of_max_timestamp)
        scan.since_index = 0
    scan.since_index += header.size
    scan.end += header.size
    scan.next_offset = last_offset + 1


def _matters(scan: Scan, header: BatchHeader) -> bool:
    return header.producer_id >= 0 or header.is_control or header.leader_epoch > scan.leader_epoch
