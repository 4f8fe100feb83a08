"""Random histories of a log, and one with threads: nothing that was written is lost."""

import random
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.storage.log.log import Log
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.invariants import check_folder, check_log
from tests.support.logs import LogFolder, bytes_of, offsets_in, validated

pytestmark = pytest.mark.usefixtures("no_fsync")


class History:
    """A log beside the list of what was appended to it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = random.Random(seed)
        config = TopicConfig(
            segment_bytes=self.random.choice([200, 500, 2_000]),
            index_interval_bytes=self.random.choice([0, 100, 4096]),
            retention_ms=-1,
            retention_bytes=3_000,
        )
        self.folder = LogFolder(root, config)
        self.appended: list[int] = []
        self.sequence = 0

    def append(self) -> None:
        """Append a batch, of a producer or not, at a time that may go back."""
        rows = self.random.randint(1, 4)
        fields = {}
        if self.random.random() < 0.5:
            fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": self.sequence}
            self.sequence += rows
        self.folder.clock.advance(self.random.randint(0, 50))
        result = self.folder.append(
            rows, timestamp=self.folder.clock.now_ms() - self.random.randint(0, 99), **fields
        )
        self.appended.append(result.base_offset)

    def roll(self) -> None:
        """Start a new segment."""
        self.folder.log.roll()

    def retain(self) -> None:
        """Apply retention."""
        self.folder.log.apply_retention(self.folder.clock.now_ms())

    def delete_records(self) -> None:
        """Raise the log start offset."""
        self.folder.log.delete_records(self.random.randint(0, self.folder.log.log_end_offset))

    def flush(self) -> None:
        """Flush, and write the checkpoints."""
        self.folder.log.flush()
        self.folder.checkpoint()

    def work(self) -> None:
        """Let the background catch up."""
        self.folder.pass_time(self.random.choice([0, 60_000]))

    def crash(self) -> None:
        """Open the folder again as a kill left it."""
        self.folder.reopen()
        check_folder(self.folder.log)

    def restart(self) -> None:
        """Stop and start cleanly."""
        self.folder.close()
        self.folder.reopen(is_clean=True)
        check_folder(self.folder.log)

    def step(self) -> None:
        """Do one of these."""
        others = (
            self.roll,
            self.retain,
            self.delete_records,
            self.flush,
            self.work,
            self.crash,
            self.restart,
        )
        self.random.choice([self.append] * 20 + list(others))()

    def check(self) -> None:
        """Compare the log with what was appended to it."""
        log = self.folder.log
        check_log(log)
        later = [base for base in self.appended if base > log.log_start_offset]
        read = offsets_in(bytes_of(log, log.log_start_offset))
        assert [base for base in read if base > log.log_start_offset] == later
        first = min([base for base in read if base <= log.log_start_offset], default=None)
        assert first is None or first in self.appended


@pytest.mark.parametrize("seed", range(25))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    """After any appends, rolls, deletions, crashes and restarts the log holds what it must."""
    history = History(tmp_path, seed)

    for _ in range(120):
        history.step()
        if history.random.random() < 0.1:
            history.check()

    history.check()


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
