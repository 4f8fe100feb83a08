"""Every single call of the disk fails once: whatever was acknowledged before or after is kept.

A fixed history of a broker's storage (start, create, append, roll, flush, checkpoint, retention,
delete, stop) runs once for each call it makes, which then fails with an error that passes or one
that does not. What the next start finds is compared with what was acknowledged.
"""

import errno
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import make_batch
from tests.support.clock import FakeClock
from tests.support.faults import Disk
from tests.support.logs import TOPIC_ID, bytes_of, offsets_in, validated

KEPT, TRIMMED, PASSING = (TopicPartition(topic, 0) for topic in ("kept", "trimmed", "passing"))
CONFIGS = {
    "kept": TopicConfig(segment_bytes=400, index_interval_bytes=0),
    "trimmed": TopicConfig(
        segment_bytes=300, index_interval_bytes=0, retention_bytes=500, file_delete_delay_ms=0
    ),
    "passing": TopicConfig(),
}
FAULTS = [
    ("pwrite", errno.ENOSPC),
    ("pwrite", errno.EIO),
    ("create", errno.ENOSPC),
    ("create", errno.EIO),
    ("mkdir", errno.ENOSPC),
    ("fsync", errno.EIO),
    ("fsync", errno.ENOSPC),
    ("rename", errno.ENOSPC),
    ("rename", errno.EIO),
    ("unlink", errno.EIO),
    ("open", errno.EMFILE),
    ("open", errno.EIO),
    ("ftruncate", errno.EIO),
]
FEWEST = {"mkdir": 3, "ftruncate": 0, "unlink": 5}


class History:
    """The history, and what was acknowledged in it: offset and key of one record per batch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {KEPT: {}, TRIMMED: {}}
        self._sent = 0

    def open(self) -> LogManager:
        """Start on what the folder has; background work waits for `settle`."""
        manager = LogManager([self.root], ServerConfig(), CONFIGS.__getitem__, FakeClock())
        manager.background.start = lambda: None  # type: ignore[method-assign]
        try:
            manager.load()
        except LogDirError:
            manager.close(clean=False)
            raise
        return manager

    def run(self, *, clean: bool) -> None:
        """Go through all of it, whatever is refused, and stop cleanly or as a kill does."""
        with suppress(LogDirError):
            manager = self.open()
            for step in self._steps(manager):
                with suppress(KafkaError):
                    step()
                _settle(manager)
            manager.close(clean=clean)

    def _steps(self, manager: LogManager) -> Iterator[Callable[[], object]]:
        for each in (KEPT, TRIMMED, PASSING):
            yield partial(manager.create, each, TOPIC_ID, CONFIGS[each.topic])
        kept, trimmed = manager.logs.get(KEPT), manager.logs.get(TRIMMED)
        for number in range(8):
            if number == 2 and PASSING in manager.logs:
                yield partial(manager.delete, PASSING)
            if kept is not None:
                yield partial(self._append, kept)
                if number % 3 == 0:
                    yield kept.flush
            if trimmed is not None:
                yield partial(self._append, trimmed)
                if number in {4, 6}:
                    yield partial(trimmed.apply_retention, 0)
            if number % 4 == 0:
                yield partial(manager.checkpoint, files.RECOVERY_POINTS)
                yield partial(manager.checkpoint, files.LOG_START_OFFSETS)

    def _append(self, log: Log) -> None:
        key = b"%06d" % self._sent
        self._sent += 1
        result = log.append(validated(make_batch([(key, b"v" * 30)])))
        self.acknowledged[log.topic_partition][result.base_offset] = key

    def check(self) -> None:
        """Start again: every record that was not deleted stands in the log once."""
        manager = self.open()
        for topic_partition, acknowledged in self.acknowledged.items():
            log = manager.logs.get(topic_partition)
            if log is None:
                assert not acknowledged
                continue
            data = bytes_of(log, log.log_start_offset)
            offsets = offsets_in(data)
            assert offsets == list(range(log.segments[0].base_offset, log.log_end_offset))
            for offset, key in acknowledged.items():
                assert offset >= log.log_start_offset or topic_partition == TRIMMED
                assert offset < log.log_start_offset or data.count(key) == 1
            self._append(log)
        _settle(manager)
        manager.close()


def _settle(manager: LogManager) -> None:
    manager.deletions.run_due()
    manager.check_directories(0)
    manager.background.close()


@pytest.mark.slow
@pytest.mark.parametrize("clean", [True, False], ids=["stop", "kill"])
@pytest.mark.parametrize(
    ("call", "error"), FAULTS, ids=[f"{call}-{errno.errorcode[error]}" for call, error in FAULTS]
)
def test_one_call_fails(memory_path: Path, disk: Disk, call: str, error: int, clean: bool) -> None:
    """Whichever call it is, the next start has all that was acknowledged, and goes on."""
    disk.leave_out("fsync")
    for after in itertools.count():
        history = History(memory_path / str(after))
        fault = disk.fail(call, error, str(history.root), after=after, times=1)
        history.run(clean=clean)
        disk.mend()
        history.check()
        if fault.hits <= after:
            break

    assert after >= FEWEST.get(call, 10)
