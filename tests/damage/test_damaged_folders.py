"""Starts on damaged folders: what is not damaged is served, what is is served or set aside.

`DAMAGED_FOLDERS` sets their number (default 100), `DAMAGED_SEED` repeats a run. The damage of a
folder is `tests.support.damage.spoil` of the seed and its number, which stand in what fails.
"""

import logging
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone.cleaner.errors import CorruptSegment
from siltstone.cleaner.one_pass.cleaner import Cleaner
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.protocol.core.constants import SLOT_BYTES
from siltstone.protocol.errors import KafkaError
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager
from siltstone.storage.producers.checks import Origin
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock
from tests.support.damage import PARTITIONS, Damage, make_home, new_manager, spoil
from tests.support.logs import bytes_of, validated

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COUNT = int(os.environ.get("DAMAGED_FOLDERS") or 100)
SEED = int(os.environ.get("DAMAGED_SEED") or random.randrange(1 << 32))
NOT_OURS = (KafkaError, CorruptSegment, OSError, ValueError)
"""The only error that use of a damaged log may end with: a sentence."""


@pytest.fixture(autouse=True)
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here: thousands of starts need not wait for the disk."""
    monkeypatch.setattr("siltstone.storage.files.disk.fsync", lambda _: None)


def _contents(manager: LogManager) -> dict[TopicPartition, bytes]:
    return {each: bytes_of(log, log.log_start_offset) for each, log in manager.logs.items()}


def _use(log: Log) -> None:
    """Do to a log what clients and the cleaner do."""
    with suppress(*NOT_OURS):
        bytes_of(log, log.log_start_offset)
    with suppress(*NOT_OURS):
        log.find_offset_by_timestamp(TIMESTAMP + 20, log.log_end_offset)
    with suppress(*NOT_OURS):
        log.find_max_timestamp(log.log_end_offset)
    with suppress(*NOT_OURS):
        log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    with suppress(*NOT_OURS):
        log.append(validated(make_batch(2)), Origin.REPLICATION)
    with suppress(*NOT_OURS):
        log.roll()
    clock = FakeClock()
    cleaner = Cleaner(
        clock=clock,
        throttle=Throttle(clock),
        dedupe_buffer_bytes=1000 * SLOT_BYTES,
        load_factor=0.9,
        io_buffer_bytes=1 << 14,
    )
    with suppress(*NOT_OURS):
        end = log.segments[-1].base_offset
        work = LogToClean.of(log, first_dirty_offset=0, first_uncleanable_offset=end)
        cleaner.clean(work, log.replace_segments, lambda: None)
    with suppress(*NOT_OURS):
        log.delete_records(log.log_end_offset)


def _check(
    root: Path, damage: Damage, contents: dict[TopicPartition, bytes], *, uses: bool
) -> bool:
    """Start, and compare what must be kept; tell whether a partition was set aside."""
    manager = new_manager(root)
    try:
        manager.load()
        assert manager.logs.keys() | manager.set_aside.keys() == set(PARTITIONS)
        assert set(manager.set_aside) <= {damage.victim}
        for topic_partition, log in manager.logs.items():
            if damage.victim is not None and topic_partition != damage.victim:
                assert bytes_of(log, log.log_start_offset) == contents[topic_partition]
        if uses:
            for topic_partition, log in manager.logs.items():
                if damage.victim in {None, topic_partition}:
                    _use(log)
        return bool(manager.set_aside)
    finally:
        with suppress(OSError):
            manager.close()


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_serves_what_is_not_damaged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_clean: bool
) -> None:
    """Nothing in one folder stops the start, keeps another from being served, or is a traceback."""
    caplog.set_level(logging.WARNING)
    home = tmp_path / "home"
    make_home(home, is_clean=is_clean)
    probe = shutil.copytree(home, tmp_path / "probe")
    manager = new_manager(probe)
    manager.load()
    contents = _contents(manager)
    manager.close(clean=False)
    assert len(contents) == len(PARTITIONS)
    assert all(contents.values())
    aside = 0
    for number in range(COUNT // 2):
        root = shutil.copytree(home, tmp_path / "damaged")
        caplog.clear()
        damage = spoil(root, SEED, number, is_clean=is_clean)
        print(f"seed {SEED} number {number} {damage}")  # noqa: T201  # what fails is told by it
        aside += _check(root, damage, contents, uses=True)
        assert not [each for each in caplog.records if each.exc_info]
        if damage.victim is not None:
            _check(root, damage, contents, uses=False)
        shutil.rmtree(root)
    print(f"{aside} of {COUNT // 2} set a partition aside")  # noqa: T201
