"""Where logs grow."""

import errno
import os
from pathlib import Path

import pytest

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
