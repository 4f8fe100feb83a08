"""Reading a ``.log`` from its start as after a crash: how far it is sound, and its indexes.

Follows ``LogSegment.recover``: length, magic and CRC of each batch; the first one that is wrong
ends the log. Stricter than Kafka in one point: a batch whose offsets do not follow those before it
is wrong as well. The walk is `kernels.scan_batches` (1 MiB per call, without the GIL); Python sees
one row per index entry and the batches that matter.
"""

import os
import struct
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from protocol.core import constants as verdicts
from protocol.records import kernels
from protocol.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader
from storage.index import ActiveIndexes

CHUNK: Final = 1 << 20
_MOST_ENTRIES: Final = 1024
_MOST_NOTABLE: Final = 4096

_CRC_BYTES: Final = 4
_LEGACY_HEAD: Final = struct.Struct(">qiIb")  # offset, length, CRC, magic
_LEGACY_MINIMUM: Final = 14

Observer = Callable[[BatchHeader, memoryview], None]
"""Takes the header and the bytes of a batch that has a producer, is a marker or begins an epoch."""


class LegacyFormatError(OSError):
    """The log is sound but in a format that we cannot read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found; ``end`` is the position after the last sound batch."""

    indexes: ActiveIndexes
    end: int
    next_offset: int
    since_index: int
    first_timestamp: int
    max_timestamp: int
    offset_of_max_timestamp: int
    damage: str | None


def scan_log(
    fd: int, size: int, base_offset: int, interval: int, observe: Observer | None = None
) -> Scan:
    """Read ``size`` bytes of an open ``.log``; ``interval`` is ``index.interval.bytes``.

    Raises:
        LegacyFormatError: It holds sound messages of a Kafka before 0.11, which must not be cut.
    """
    indexes = ActiveIndexes(base_offset)
    state = _initial_state(base_offset, interval)
    entries = array("q", bytes(8 * verdicts.ENTRY_NUMBERS * _MOST_ENTRIES))
    notable = array("q", bytes(8 * _MOST_NOTABLE))
    buffer = bytearray(min(CHUNK, size))
    position = filled = 0
    while size - position >= HEADER_SIZE:
        if state[verdicts.NEEDED] > len(buffer) and state[verdicts.NEEDED] <= size - position:
            buffer = bytearray(state[verdicts.NEEDED])
        filled = os.preadv(fd, [buffer], position)
        if not filled:
            break  # the file is shorter than it was
        chunk = memoryview(buffer)[: min(filled, size - position)]
        kernels.scan_batches(chunk, state, entries, notable)
        _add_entries(indexes, state, entries)
        if observe is not None:
            for at in notable[: state[verdicts.NOTABLE]]:
                batch = chunk[at - position :]
                header = BatchHeader.read(batch)
                observe(header, batch[: header.size])
        stuck = state[verdicts.POSITION] == position and state[verdicts.NEEDED] > len(chunk)
        position = state[verdicts.POSITION]
        if state[verdicts.STATUS] < 0 or (stuck and state[verdicts.NEEDED] > size - position):
            break
    if position < size:
        _refuse_legacy(fd, position, size)
    return _conclude(indexes, state, size)


def _refuse_legacy(fd: int, position: int, size: int) -> None:
    """Tell an old message from damage by its own CRC, a plain CRC-32 from the magic byte on."""
    head = os.pread(fd, _LEGACY_HEAD.size, position)
    if len(head) < _LEGACY_HEAD.size:
        return
    _, length, crc, magic = _LEGACY_HEAD.unpack(head)
    if magic not in (0, 1) or not _LEGACY_MINIMUM <= length <= size - position - LOG_OVERHEAD:
        return
    message = os.pread(fd, length - _CRC_BYTES, position + LOG_OVERHEAD + _CRC_BYTES)
    if zlib.crc32(message) == crc:
        raise LegacyFormatError(
            f"messages of format {magic} at position {position}, older than Kafka 0.11; "
            "mirror the topic with an Apache Kafka that reads them"
        )


def _initial_state(base_offset: int, interval: int) -> "array[int]":
    state = array("q", bytes(8 * verdicts.SLOTS))
    state[verdicts.BASE_OFFSET] = base_offset
    state[verdicts.INTERVAL] = interval
    state[verdicts.LAST_OFFSET] = base_offset - 1
    state[verdicts.MAX_TIMESTAMP] = -1
    state[verdicts.MAX_TIMESTAMP_OFFSET] = base_offset
    state[verdicts.LEADER_EPOCH] = -1
    state[verdicts.FIRST_TIMESTAMP] = -1
    return state


def _add_entries(indexes: ActiveIndexes, state: "array[int]", entries: "array[int]") -> None:
    width = verdicts.ENTRY_NUMBERS
    for row in range(0, state[verdicts.ENTRIES] * width, width):
        last_offset, position, timestamp, offset = entries[row : row + width]
        indexes.add(last_offset, position)
        indexes.add_time(timestamp, offset)


def _conclude(indexes: ActiveIndexes, state: "array[int]", size: int) -> Scan:
    end, status = state[verdicts.POSITION], state[verdicts.STATUS]
    damage = None
    if status < 0:
        damage = f"the batch at position {end} is damaged: {verdicts.SCAN_FAULTS[status]}"
    elif end < size:
        damage = f"the batch at position {end} is incomplete"
    return Scan(
        indexes=indexes,
        end=end,
        next_offset=state[verdicts.LAST_OFFSET] + 1,
        since_index=end - state[verdicts.INDEXED],
        first_timestamp=state[verdicts.FIRST_TIMESTAMP],
        max_timestamp=state[verdicts.MAX_TIMESTAMP],
        offset_of_max_timestamp=state[verdicts.MAX_TIMESTAMP_OFFSET],
        damage=damage,
    )
