from typing import Any

from siltstone.protocol.parts import FileSlice
from siltstone.storage.log.end import LogEnd
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.log.log import Log

class LogRead:
    slice: FileSlice
    next_offset: int
    segment: Any  # the LogSegment that the file is of

class LogReader:
    end: LogEnd
    def __init__(self, end: LogEnd) -> None: ...
    def forget(self) -> None: ...
    def read(
        self, log: Log, offset: int, max_bytes: int, upto: int, at_least_one: bool
    ) -> LogRead | None: ...
    def available_bytes(self, log: Log, offset: int, upto: int) -> int: ...

class LogParts:
    end: LogEnd
    reader: LogReader
    epochs: LeaderEpochs
    bytes_out: int
