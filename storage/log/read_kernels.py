"""Reads of a log, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.storage.log._read_kernels import (
        COMPILED,
        LOOKUP_CHUNK,
        LogReader,
        count_up_to,
        find_cut,
        find_position,
        position_before,
    )
else:
    _reads = choose("siltstone.storage.log._read_kernels")
    COMPILED = _reads.COMPILED
    LOOKUP_CHUNK = _reads.LOOKUP_CHUNK
    LogReader = _reads.LogReader
    count_up_to = _reads.count_up_to
    find_cut = _reads.find_cut
    find_position = _reads.find_position
    position_before = _reads.position_before

__all__ = [
    "COMPILED",
    "LOOKUP_CHUNK",
    "LogReader",
    "count_up_to",
    "find_cut",
    "find_position",
    "position_before",
]
