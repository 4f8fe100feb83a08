"""Reads a ``.log`` from its start as after a crash: how far it is sound, and its indexes.

As in Kafka's ``LogSegment.recover``, length, magic and CRC of each batch are checked, and the first
wrong batch ends the log. Stricter than Kafka, a batch whose offsets do not follow those before it
is also wrong. `core.SegmentScan` does the walk (1 MiB per call, without the GIL). Python code gets
one row per index entry, and the batches of producers and of new epochs.
"""

import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from siltstone.protocol.core import SegmentScan
from siltstone.protocol.core.constants import FAULTS, HEADER_SIZE, LOG_OVERHEAD
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.segment.index import ActiveIndexes

CHUNK: Final = 1 << 20

_CRC_BYTES: Final = 4
_LEGACY_HEAD: Final = struct.Struct(">qiIb")  # offset, length, CRC, magic
_LEGACY_MINIMUM: Final = 14

Observer = Callable[[BatchHeader, memoryview], None]
"""Called with the header and bytes of a batch with a producer, of a marker, or of a new epoch."""


class LegacyFormatError(OSError):
    """The log is sound, but in a format that is not supported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The result of a scan; ``end`` is the position after the last sound batch."""

    indexes: ActiveIndexes
    end: int
    next_offset: int
    since_index: int
    first_timestamp: int
    max_timestamp: int
    offset_of_max_timestamp: int
    damage: str | None


def scan_log(
    fd: int,
    size: int,
    base_offset: int,
    interval: int,
    observe: Observer | None = None,
    pause: Callable[[int], object] = lambda _: None,
    may_end: Callable[[int], bool] = lambda _: True,
) -> Scan:
    """Read ``size`` bytes of an open ``.log``; ``interval`` is ``index.interval.bytes``.

    ``pause`` is called after each read with the number of its bytes, and ``may_end`` before the
    read of a batch of more than `CHUNK` bytes, with its end: if it cannot end there, it is damaged.

    Raises:
        LegacyFormatError: The file has sound messages of a Kafka before 0.11, which must not be
            cut.
    """
    indexes = ActiveIndexes(base_offset)
    state = SegmentScan(base_offset, interval)
    buffer = bytearray(min(CHUNK, size))
    while size - state.position >= HEADER_SIZE:
        position = state.position
        if len(buffer) < state.needed <= size - position:
            if not may_end(position + state.needed):
                break
            buffer = bytearray(state.needed)
        chunk = memoryview(buffer)[: size - position]
        chunk = chunk[: files.read_into(fd, chunk, position)]
        if not chunk:
            break  # the file is shorter than it was
        pause(len(chunk))
        entries, notable = state.scan(chunk)
        indexes.add_rows(entries)
        if observe is not None:
            for at in notable:
                batch = chunk[at - position :]
                header = BatchHeader.read(batch)
                observe(header, batch[: header.size])
        stuck = state.position == position and state.needed > len(chunk)
        if state.status < 0 or (stuck and state.needed > min(size, files.size_of(fd)) - position):
            break  # also if the file became shorter
    if state.position < size:
        _refuse_legacy(fd, state.position, size)
    return _conclude(indexes, state, size)


def _refuse_legacy(fd: int, position: int, size: int) -> None:
    """Raise for an old message, which has a valid CRC-32 of the bytes from the magic byte on."""
    head = files.read_at(fd, _LEGACY_HEAD.size, position)
    if len(head) < _LEGACY_HEAD.size:
        return
    _, length, crc, magic = _LEGACY_HEAD.unpack(head)
    if magic not in (0, 1) or not _LEGACY_MINIMUM <= length <= size - position - LOG_OVERHEAD:
        return
    message = files.read_at(fd, length - _CRC_BYTES, position + LOG_OVERHEAD + _CRC_BYTES)
    if zlib.crc32(message) == crc:
        raise LegacyFormatError(
            f"messages of format {magic} at position {position}, older than Kafka 0.11; "
            "mirror the topic with an Apache Kafka that reads them"
        )


def _conclude(indexes: ActiveIndexes, state: SegmentScan, size: int) -> Scan:
    end = state.position
    damage = None
    if state.status < 0:
        damage = f"the batch at position {end} is damaged: {FAULTS[state.status]}"
    elif end < size:
        damage = f"the batch at position {end} is incomplete"
    return Scan(
        indexes=indexes,
        end=end,
        next_offset=state.last_offset + 1,
        since_index=end - state.indexed,
        first_timestamp=state.first_timestamp,
        max_timestamp=state.max_timestamp,
        offset_of_max_timestamp=state.max_timestamp_offset,
        damage=damage,
    )
