"""Where logs grow: the compiled form and the plain one do the same."""

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from siltstone.storage.appending import _append_kernels as append_kernels
from tests.support.batches import make_batch
from tests.support.forms import in_both_forms
from tests.support.logs import LogFolder, validated
from tests.support.uncompiled import load_uncompiled

ROOT = Path(__file__).parents[3]
PLAIN = load_uncompiled("siltstone.storage.appending._append_kernels")
BOTH = in_both_forms("kernel", append_kernels, PLAIN)


def live(seed: int, folder: Path, kernels: str) -> list[str]:
    """Return what a process prints that lives a history with compiled kernels or without."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.append_history", str(seed), str(folder)],
        cwd=ROOT,
        env={**os.environ, "SILTSTONE_KERNELS": kernels, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(6))
def test_both_forms_live_the_same_history(tmp_path: Path, seed: int) -> None:
    """Results, refusals, counters, producers and every byte of every file are the same."""
    chosen = live(seed, tmp_path / "chosen", "auto")
    plain = live(seed, tmp_path / "plain", "off")

    assert plain[0] == "plain"
    assert chosen[1:] == plain[1:]
    assert sum("AppendResult" in line for line in plain) > 50
    assert sum("taken" in line for line in plain) > 50 or "LogAppendTime" in plain
    assert any(".txnindex" in line for line in plain)


@BOTH
def test_a_producer_counts_on_through_the_end_of_its_sequences(kernel: Any) -> None:
    """After 2147483647 comes 0."""
    entry = kernel.ProducerEntry(3)
    entry.next_sequence = (1 << 31) - 2

    entry.note((1 << 31) - 2, 3, 100, 5)

    assert entry.last_batch == ((1 << 31) - 2, 1, 100, 103, 5)
    assert entry.is_followed_by(3, 2)
    assert not entry.is_followed_by(3, 1)
    assert not entry.is_followed_by(4, 2)


@BOTH
def test_only_so_many_batches_are_remembered(kernel: Any) -> None:
    """Five, which is what a client has in flight."""
    entry = kernel.ProducerEntry(0)
    for sequence in range(7):
        entry.note(sequence, 0, sequence, 1)

    assert [batch.first_sequence for batch in entry.batches] == [2, 3, 4, 5, 6]
    assert entry.find_duplicate(1, 1) is None
    assert entry.find_duplicate(2, 2) == entry.batches[0]


def test_a_batch_of_another_size_than_it_says_is_not_written(tmp_path: Path) -> None:
    """Stamping must not write behind a buffer, whatever the caller believes."""
    folder = LogFolder(tmp_path)
    batch = validated(make_batch())

    with pytest.raises(ValueError, match="are not one batch"):
        folder.log.append(batch._replace(buffer=batch.buffer[:-1]))
    with pytest.raises(AttributeError):
        folder.log.append((memoryview(bytearray(70)), 70))  # type: ignore[arg-type]

    assert folder.log.log_end_offset == folder.log.size == 0


@BOTH
@pytest.mark.parametrize("size", [100, 100_000])
def test_a_write_that_fails_says_why(kernel: Any, size: int) -> None:
    """Short writes, which keep the GIL, and long ones raise what the system says."""
    end = kernel.SegmentEnd(0, 0, 0)
    end.open(os.open("/dev/full", os.O_WRONLY))
    try:
        with pytest.raises(OSError, match="No space left") as caught:
            end.write(None, bytes(size), size)
    finally:
        os.close(end.fd)

    assert caught.value.errno == errno.ENOSPC
    assert end.size == 0


@BOTH
def test_one_thread_at_a_time_has_a_lock(kernel: Any) -> None:
    """Others wait, without the GIL, until it is let go; an error lets it go as well."""
    lock = kernel.Lock()
    order: list[str] = []
    begun = threading.Event()

    def other() -> None:
        begun.set()
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with suppress(KeyError), lock:
        thread.start()
        assert begun.wait(60)
        order.append("first")
        raise KeyError
    thread.join(60)

    assert order == ["first", "other"]
