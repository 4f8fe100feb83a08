"""The seam of the disk is enough: storage lives on a disk in memory, and makes no real file."""

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import SLOT_BYTES
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from tests.simulator.world.disk import Disk
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock
from tests.support.invariants import check_log
from tests.support.logs import ORDERS, TOPIC_ID, append_waiting, bytes_of

ROOT = Path("/no-real-folder")
CONFIG = TopicConfig(cleanup_policy=("compact",), segment_bytes=2_000)
KEYS = 3
BATCHES = 60


@pytest.fixture
def memory() -> Iterator[Disk]:
    """Yield a disk in memory, which answers the calls of the seam."""
    disk = Disk(lambda _, __, size: size, lambda: 0, str(ROOT))
    disk.install()
    yield disk
    disk.uninstall()


def test_a_log_lives_in_memory(memory: Disk) -> None:
    """It is opened, written by compiled code, rolled, cleaned, closed and opened again."""
    written = live()
    gc.collect()  # ranges of files that nobody has close them
    assert memory.open_files == {}

    assert read_again() == written
    gc.collect()
    assert memory.open_files == {}
    assert "data/orders-0/00000000000000000000.log" in memory.folder(str(ROOT))
    assert not ROOT.exists()


def new_manager() -> LogManager:
    """Return a manager with one directory on the disk in memory."""
    manager = LogManager((ROOT / "data",), ServerConfig(), lambda _: CONFIG, FakeClock())
    manager.load()
    return manager


def live() -> bytes:
    """Write and clean a log, and return all of it."""
    manager = new_manager()
    log = manager.create(ORDERS, TOPIC_ID, CONFIG)
    for number in range(BATCHES):
        append_waiting(log, make_batch([(b"%d" % (number % KEYS), b"v" * 90)]), TIMESTAMP)
        log.end.write(log)
    assert len(log.segments) > KEYS

    before = log.size
    clean(log)

    assert log.size < before / 2
    check_log(log)
    content = bytes_of(log, 0)
    manager.close()
    return content


def clean(log: Log) -> None:
    """Make a pass of the cleaner over all that is no longer written."""
    clock = FakeClock()
    cleaner = Cleaner(
        clock=clock,
        throttle=Throttle(clock),
        dedupe_buffer_bytes=64 * SLOT_BYTES,
        load_factor=0.9,
        io_buffer_bytes=1 << 16,
    )
    active = log.segments[-1].base_offset
    dirty = LogToClean.of(log, first_dirty_offset=0, first_uncleanable_offset=active)
    cleaner.clean(dirty, log.replace_segments, lambda: None)


def read_again() -> bytes:
    """Return all of the log, as the next start finds it."""
    manager = new_manager()
    log = manager.logs[ORDERS]
    assert log.log_end_offset == BATCHES
    content = bytes_of(log, 0)
    manager.close()
    return content
