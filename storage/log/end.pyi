from collections.abc import Callable
from typing import Final

from siltstone.config.topic import TopicConfig
from siltstone.storage.appending.batch import PlainRules, ValidatedBatch
from siltstone.storage.clock import Clock
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log, Watcher
from siltstone.storage.log.recovery import LoadedPartition
from siltstone.storage.log.view import LogView
from siltstone.storage.log_lock import LogLock
from siltstone.storage.producers.checks import Origin
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.segment import LogSegment

class Appends:
    look: Callable[[], None] | None
    look_at: int
    taken: int
    write_back_bytes: int
    written: int
    logs: Final[list[Log]]
    def write(self) -> None: ...

class LogEnd:
    directory: Final[LogDirectory]
    producers: Final[ProducerStateManager]
    lock: Final[LogLock]
    watchers: Final[dict[Watcher, None]]
    view: Final[LogView]
    rules: Final[PlainRules]
    batches_in: Final[int]
    bytes_in: Final[int]
    records_in: Final[int]
    leader_epoch: Final[int]
    log_end_offset: Final[int]
    log_start_offset: Final[int]
    recovery_point: Final[int]
    size: Final[int]
    is_closed: Final[bool]
    last_stable_offset: Final[int]
    def __init__(self, loaded: LoadedPartition, clock: Clock, appends: Appends) -> None: ...
    def stable_end(self) -> int: ...
    def append(
        self, log: Log, batch: ValidatedBatch, origin: Origin = ..., may_wait: bool = False
    ) -> None: ...
    def write(self, log: Log) -> None: ...
    def is_flush_due(self) -> bool: ...
    def add_segment(self, segment: LogSegment) -> None: ...
    def show(self, segments: tuple[LogSegment, ...]) -> None: ...
    def start_at(self, offset: int) -> None: ...
    def note_flushed(self, offset: int) -> None: ...
    def move(
        self, directory: LogDirectory, segments: tuple[LogSegment, ...], recovery_point: int
    ) -> None: ...
    def obey(self, config: TopicConfig) -> None: ...
    def close(self) -> None: ...
    def tell_watchers(self) -> None: ...
