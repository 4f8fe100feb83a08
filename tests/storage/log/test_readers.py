"""Readers of a log in threads of their own."""

import threading
from itertools import pairwise
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.storage.log.log import Log
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.invariants import check_log
from tests.support.logs import LogFolder, offsets_in, validated

pytestmark = pytest.mark.usefixtures("no_fsync")


def _follow(log: Log, until: int, seen: list[int], faults: list[BaseException]) -> None:
    offset = 0
    try:
        while offset < until:
            read = log.read(offset, 700, log.high_watermark)
            if read is not None:
                seen += offsets_in(read.segment.read(read.slice.position, read.slice.size))
                offset = read.next_offset
    except BaseException as error:  # noqa: BLE001  # the test's thread reports it
        faults.append(error)


def test_readers_beside_appends_and_flushes(tmp_path: Path) -> None:
    """Readers of other threads see each batch once and whole while segments roll and flush."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=2_000, index_interval_bytes=300))
    folder.services.background.start()
    log = folder.log
    count = 1_500
    seen: list[list[int]] = [[], []]
    faults: list[BaseException] = []
    readers = [
        threading.Thread(target=_follow, args=(log, count, each, faults), name="reader")
        for each in seen
    ]
    for reader in readers:
        reader.start()
    batch = validated(make_batch([(b"k", b"v" * 40)]))

    for number in range(count):
        log.append(batch)
        if number % 100 == 0:
            folder.services.background.submit("flush", log.flush)
    for reader in readers:
        reader.join()
    folder.settle()

    assert not faults
    assert seen == [list(range(count))] * 2
    assert all(later - earlier == 1 for earlier, later in pairwise(seen[0]))
    check_log(log)
    assert log.recovery_point > 0
    assert log.find_offset_by_timestamp(TIMESTAMP, count) is not None
