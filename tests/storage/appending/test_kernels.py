"""Where logs grow."""

import errno
import os
from pathlib import Path

import pytest

from siltstone.storage.producers.producer_entry import ProducerEntry
from siltstone.storage.segment.end import SegmentEnd
from tests.support.append_history import History
from tests.support.batches import make_batch
from tests.support.logs import LogFolder, validated


@pytest.mark.parametrize("seed", range(6))
def test_the_short_way_leaves_what_the_general_one_leaves(tmp_path: Path, seed: int) -> None:
    """Offsets, refusals, counters, producers and every byte of every file are the same."""
    for name in ("short", "general"):
        (tmp_path / name).mkdir()
    short = History(seed, tmp_path / "short", is_short=True)
    general = History(seed, tmp_path / "general", is_short=False)

    said = general.live()

    assert short.live() == said
    assert general.taken == 0
    assert short.taken > 50 or "LogAppendTime" in said
    assert any(".txnindex" in line for line in said)


def test_a_producer_counts_on_through_the_end_of_its_sequences() -> None:
    """After 2147483647 comes 0."""
    entry = ProducerEntry(3)
    entry.next_sequence = (1 << 31) - 2

    entry.note((1 << 31) - 2, 3, 100, 5)

    assert entry.last_batch == ((1 << 31) - 2, 1, 100, 103, 5)
    assert entry.is_followed_by(3, 2)
    assert not entry.is_followed_by(3, 1)
    assert not entry.is_followed_by(4, 2)


def test_only_so_many_batches_are_remembered() -> None:
    """Five, which is what a client has in flight."""
    entry = ProducerEntry(0)
    for sequence in range(7):
        entry.note(sequence, 0, sequence, 1)

    assert [batch.first_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.find_duplicate(1, 1) is None
    assert entry.find_duplicate(2, 2) == entry.batches[0]


def test_a_batch_of_another_size_than_it_says_is_not_written(tmp_path: Path) -> None:
    """Stamping must not write behind a buffer, whatever the caller believes."""
    folder = LogFolder(tmp_path)
    batch = validated(make_batch())
    batch.buffer = batch.buffer[:-1]

    with pytest.raises(ValueError, match="are not one batch"):
        folder.log.append(batch)
    with pytest.raises(TypeError):
        folder.log.append((memoryview(bytearray(70)), 70))  # type: ignore[arg-type]

    assert folder.log.log_end_offset == folder.log.size == 0


@pytest.mark.parametrize("size", [100, 100_000])
def test_a_write_that_fails_says_why(size: int) -> None:
    """Short writes, which keep the GIL, and long ones raise what the system says."""
    end = SegmentEnd(0, 0, 0)
    end.open(os.open("/dev/full", os.O_WRONLY))
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            end.write(None, bytes(size), size)  # type: ignore[arg-type]
    finally:
        os.close(end.fd)

    assert caught.value.errno == errno.ENOSPC
    assert end.size == 0
