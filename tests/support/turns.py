"""How much processor time the loop of a server process spends between two waits for events.

On an idle machine other clients wait that long. Processor time does not depend on other processes
or on a missing processor.
"""

import mmap
import os
import struct
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests.support.missing import require

_SOURCE = Path(__file__).with_name("turns.c")
_FORM = struct.Struct("=qq")
_WORK_SECONDS = 0.0042
"""The seconds that `_work` takes on the processor that the bounds of the tests were set on."""


@cache
def slowness() -> float:
    """Return how much slower this machine is than the one of the bounds, at least 1.

    A bound in seconds is for one machine; the same turn takes longer on a slower one.
    """
    return max(1.0, min(_work() for _ in range(20)) / _WORK_SECONDS)


def _work() -> float:
    """Return the processor time of a turn's usual work: rows, dictionaries, bytes."""
    began = time.thread_time()
    rows = [(f"topic-{number}", number, number.to_bytes(8, "big")) for number in range(10_000)]
    found = {name: number for name, number, _ in rows}
    sum(found[name] for name, _, _ in rows)
    b"".join(octets for _, _, octets in rows)
    return time.thread_time() - began


class Turns:
    """The turns of the loop of one process, which is started with `environ`."""

    def __init__(self, folder: Path) -> None:
        compiler = require("gcc")
        library = folder / "turns.so"
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True)
        file = folder / "turns"
        file.write_bytes(bytes(mmap.PAGESIZE))
        self.environ: Mapping[str, str] = {"LD_PRELOAD": str(library), "TURNS_FILE": str(file)}
        descriptor = os.open(file, os.O_RDWR)
        self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)
        os.close(descriptor)

    @property
    def count(self) -> int:
        """How many there were."""
        count: int = _FORM.unpack_from(self._memory)[1]
        return count

    @property
    def longest(self) -> float:
        """The longest turn that has ended since `begin`, in seconds of processor time."""
        longest: int = _FORM.unpack_from(self._memory)[0]
        return longest / 1e9

    def begin(self) -> None:
        """Forget earlier turns."""
        self._memory[:8] = bytes(8)
