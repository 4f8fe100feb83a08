"""A cleaner that is killed (SIGKILL) at a chosen change of the disk, in a process of its own.

`python -m tests.support.dying_pass` reads lines of folder, number and "torn" or "whole", and forks
for each line. The child opens the folder as a start does, makes a whole pass, and dies before its
Nth change of the disk; with "torn" it dies in the middle of that change, if this is a write. The
answer is the kind of the change, or "done" if the pass made fewer changes.
"""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import compaction
from siltstone.storage.log.log import Log
from tests.support import faults
from tests.support.cleaner import CleanerHome

CHANGES = frozenset({"pwrite", "fsync", "ftruncate", "rename", "unlink", "create", "mkdir"})
CONFIG = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=700,
    index_interval_bytes=100,
    delete_retention_ms=864_000_000,
    min_cleanable_dirty_ratio=0.01,
)


class Home(CleanerHome):
    """The folder with one compacted topic, and a cleaner thread whose rounds are made by hand."""

    def open(self) -> None:
        """Open the folder as a start does."""
        self.configs["orders"] = CONFIG
        super().open()
        self.services.history.load(self.paths)

    @property
    def log(self) -> Log:
        """Return the one log."""
        (log,) = self.logs.logs.values()
        return log

    def make_pass(self) -> None:
        """Make a round of the thread; then let time pass until the old files are deleted."""
        self.thread.step()
        self.settle()
        self.clock.advance(self.log.config.file_delete_delay_ms)
        self.logs.deletions.run_due()
        self.settle()


@dataclass
class Killing:
    """Stands in the list of a `faults.Disk`: kills this process before its Nth change."""

    number: int
    is_torn: bool
    answer: int  # a descriptor
    short: bool = False
    seconds: float = 0.0
    error: int = 0
    seen: int = -1

    def strikes(self, call: str, path: str) -> bool:
        """Count a change; die at the Nth, or after half of it."""
        if call not in CHANGES:
            return False
        if self.short:  # the write before this one is torn
            self._die()
        self.seen += 1
        if self.seen < self.number:
            return False
        os.write(self.answer, call.encode())
        if not self.is_torn or call != "pwrite":
            self._die()
        self.short = True
        return True

    @staticmethod
    def _die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        signal.pause()


class DyingPasses:
    """The process that forks the children."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Self:
        """Do nothing: the process starts by itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def make(self, folder: Path, number: int, *, is_torn: bool) -> str:
        """Let a pass die before its change of that number; return the kind, or "done"."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{folder}\t{number}\t{'torn' if is_torn else 'whole'}\n")
        self._process.stdin.flush()
        call, code = self._process.stdout.readline().split()
        if int(code) != (0 if call == "done" else -signal.SIGKILL):
            raise RuntimeError(f"the child of {folder} ended with {code} at {call}")
        return call


def serve() -> None:
    """Make a child for each line."""
    assert compaction.OffsetMap is not None  # loaded before the forks, not in each of them
    for line in sys.stdin:
        folder, number, how = line.rstrip("\n").split("\t")
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            try:
                run(Path(folder), Killing(int(number), how == "torn", writer))
                os.write(writer, b"done")
            finally:
                os._exit(1 if sys.exc_info()[0] else 0)
        os.close(writer)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader, "rb") as answers:
            call = answers.read().decode()
        sys.stdout.write(f"{call or 'nothing'} {os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def run(folder: Path, killing: Killing) -> None:
    """Open a folder, and make a pass that dies."""
    home = Home(folder)
    disk = faults.install(pytest.MonkeyPatch())
    disk.faults.append(killing)  # type: ignore[arg-type]
    home.make_pass()


if __name__ == "__main__":
    serve()
