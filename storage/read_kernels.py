"""Reads of a log, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from storage._read_kernels import COMPILED, LogReader
else:
    _reads = choose("storage._read_kernels")
    COMPILED = _reads.COMPILED
    LogReader = _reads.LogReader

__all__ = ["COMPILED", "LogReader"]
