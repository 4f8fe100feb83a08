"""A log that is written, read from its start and cleaned at once."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import iterate_records
from siltstone.storage.log.log import Log
from tests.support.invariants import check_log
from tests.support.passes import CompactedFolder

KEYS = 5
ROUNDS = 40


def read_all(log: Log) -> dict[bytes, bytes]:
    """Read from 0 until there is nothing more, and return the last value of each key."""
    known: dict[bytes, bytes] = {}
    offset = last = 0
    while (read := log.read(offset, 1000, log.log_end_offset)) is not None:
        data = read.segment.read(read.slice.position, read.slice.size)
        position = 0
        while position < len(data):
            header = BatchHeader.read(data, position)
            for record in iterate_records(data[position : position + header.size]):
                assert record.key is not None
                assert record.value is not None
                assert record.offset >= last, "an offset came twice"
                assert record.value > known.get(record.key, b""), "a key went back"
                last = record.offset + 1
                known[record.key] = record.value
            position += header.size
        assert read.next_offset > offset
        offset = read.next_offset
    return known


class Busy:
    """Readers and a cleaner, each in a thread of its own, until `stop`."""

    def __init__(self, folder: CompactedFolder) -> None:
        self.folder = folder
        self.latest: dict[bytes, bytes] = {}
        self.failures: list[BaseException] = []
        self.reads = 0
        self.passes = 0
        self._stopped = threading.Event()
        works = (self._read, self._read, self._clean)
        self._threads = [threading.Thread(target=self._repeat, args=(work,)) for work in works]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _repeat(self, work: Callable[[], None]) -> None:
        try:
            while not self._stopped.is_set():
                work()
        except BaseException as error:  # noqa: BLE001  # told by the test's thread
            self.failures.append(error)

    def _read(self) -> None:
        expected = dict(self.latest)
        known = read_all(self.folder.log)
        assert all(known[key] >= value for key, value in expected.items()), "a value is lost"
        self.reads += 1

    def _clean(self) -> None:
        folder = self.folder
        if folder.first_dirty_offset < folder.log.segments[-1].base_offset:
            log = folder.to_clean()
            result = folder.cleaner.clean(log, folder.log.replace_segments, lambda: None)
            folder.first_dirty_offset = result.end_offset
            folder.services.deletions.run_due()
            self.passes += 1


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_readers_never_miss_or_go_back(memory_path: Path) -> None:
    """Each read from 0 has the last value of the moment when it began, or a later one."""
    folder = CompactedFolder(memory_path, chunk=500)
    folder.services.background.start()
    busy = Busy(folder)
    number = 0
    while not busy.failures and (busy.passes < ROUNDS or busy.reads < ROUNDS):
        for _ in range(7):
            key, value = b"key-%d" % (number % KEYS), b"%09d" % number
            folder.write((key, value))
            busy.latest[key] = value
            number += 1
        folder.roll()
    busy.stop()
    folder.services.background.close()

    assert busy.failures == []
    check_log(folder.log)
