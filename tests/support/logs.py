"""Logs in a temporary folder, without a manager, and batches to put into them."""

import struct
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage import files
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.checkpointed import noted_recovery_point
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.end import Appends
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import PartitionFolder, create_partition, load_partition, never
from siltstone.storage.log.services import LogServices
from siltstone.storage.producers.checks import Origin
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=0x1234)


def validated(batch: bytearray, *, log_append_time_ms: int = -1) -> ValidatedBatch:
    """Return a batch as validation hands it to the log, without checking it."""
    header = BatchHeader.read(batch)
    return ValidatedBatch(
        buffer=memoryview(batch),
        size=len(batch),
        last_offset_delta=header.last_offset_delta,
        count=header.count,
        attributes=header.attributes,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        log_append_time_ms=log_append_time_ms,
    )


def append_waiting(
    log: Log, batch: bytearray, now_ms: int = TIMESTAMP, *, may_wait: bool = True
) -> ValidatedBatch:
    """Append a batch that breaks no rule, as a client's request does; return the result."""
    plain = log.end.rules.take(memoryview(batch), now_ms)
    assert plain is not None
    log.end.append(log, plain, Origin.CLIENT, may_wait)
    return plain


class LogFolder:
    """A partition folder that a test opens, closes, damages and opens again.

    Background work waits until `settle`, so that a test decides which work a crash prevents; to
    open the folder again without `close` is the crash.
    """

    def __init__(
        self,
        root: Path,
        config: TopicConfig | None = None,
        *,
        directory: LogDirectory | None = None,
        appends: Appends | None = None,
        open_files: OpenFiles | None = None,
    ) -> None:
        self._appends = appends or Appends()
        self._open_files = OpenFiles() if open_files is None else open_files
        self.clock = FakeClock()
        self.config = config or TopicConfig()
        self.directory = directory or LogDirectory(root)
        self.path = root / str(ORDERS)
        self.services = self._new_services()
        self.recovery_point = 0
        self.log_start_offset = 0
        self.log = self._create()

    def _new_services(self) -> LogServices:
        background = Background()
        return LogServices(
            clock=self.clock,
            background=background,
            deletions=DelayedDeletions(self.clock, background),
            appends=self._appends,
        )

    def _folder(self, *, is_clean: bool = False) -> PartitionFolder:
        return PartitionFolder(
            topic_partition=ORDERS,
            directory=self.directory,
            path=self.path,
            config=self.config,
            open_files=self._open_files,
            producer_expiration_ms=86_400_000,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
        )

    def _create(self) -> Log:
        loaded = create_partition(self._folder(), TOPIC_ID, self.clock.now_ms())
        log = Log(loaded, self.services)
        self.services.background.submit("leader epochs", log.write_epochs)
        return log

    def append(
        self, rows: int = 1, *, size: int = 10, timestamp: int = TIMESTAMP, **fields: int
    ) -> ValidatedBatch:
        """Append a batch of made-up rows."""
        batch = make_batch([(b"k", b"v" * size)] * rows, timestamp=timestamp, **fields)
        return self.log.append(validated(batch))

    def settle(self) -> None:
        """Do the background work that waits."""
        background = self.services.background
        background.close()

        assert background.failures == 0

    def pass_time(self, milliseconds: int) -> None:
        """Let time pass, and delayed deletions happen."""
        self.settle()
        self.clock.advance(milliseconds)
        self.services.deletions.run_due()
        self.settle()

    def pass_time_despite_failures(self, milliseconds: int = 60_000) -> None:
        """Let time pass and delayed deletions happen, though background work failed before."""
        self.services.background.close()
        self.clock.advance(milliseconds)
        self.services.deletions.run_due()
        self.services.background.close()

    def close(self) -> None:
        """Stop cleanly, and note what the checkpoints would contain."""
        self.log.close()
        self.settle()
        self.checkpoint()

    def checkpoint(self) -> None:
        """Note what the directory's checkpoint files would contain now."""
        self.recovery_point = noted_recovery_point(self.log)
        self.log_start_offset = self.log.log_start_offset

    def reopen(self, *, is_clean: bool = False, is_stopped: Callable[[], bool] = never) -> Log:
        """Open the folder again: after a crash, or after `close` if ``is_clean``."""
        self.services = self._new_services()
        path = self.directory.path
        self.directory = LogDirectory(path, must_rewrite=(path / files.FSYNC_FAILED).exists())
        loaded = load_partition(self._folder(is_clean=is_clean), self.clock.now_ms(), is_stopped)
        self.log = Log(loaded, self.services)
        return self.log


def abort(folder: LogFolder, producer_id: int, sequence: int = 0) -> None:
    """Append a transaction of two records and its abort marker."""
    folder.append(2, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, flags=0x10)
    marker = build_marker(0, TIMESTAMP, ABORT, 0, producer_id=producer_id, producer_epoch=0)
    folder.log.append(validated(marker), Origin.COORDINATOR)


def bytes_of(log: Log, offset: int, *, upto: int | None = None) -> bytes:
    """Return all that can be read from an offset on, segment after segment."""
    data = b""
    limit = log.log_end_offset if upto is None else upto
    while (read := log.read(offset, 1 << 30, limit)) is not None:
        part = read.segment.read(read.slice.position, read.slice.size)
        assert len(part) == len(read.slice)
        data += part
        offset = read.next_offset
    return data


def offsets_in(data: bytes) -> list[int]:
    """Return the base offsets of the batches in a run of bytes."""
    found = []
    position = 0
    while position < len(data):
        base_offset, length = struct.unpack_from(">qi", data, position)
        found.append(base_offset)
        position += length + 12
    assert position == len(data)
    return found


@contextmanager
def flipped(path: Path, position: int) -> Iterator[None]:
    """Change one byte of a file for the time of the block."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)
    try:
        yield
    finally:
        data[position] ^= 0xFF
        path.write_bytes(data)
