"""A floor for any cleaner: reading the log twice from the page cache, and nothing else.

    python -m bench.clean.floor FOLDER

reads a folder's closed segments again and again, at a cleaner thread's priority.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clean.homes import segments_of, set_folder
from siltstone.cleaner.threads.cleaner_thread import NICE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.cases import Result
    from bench.clean.sets import DataSet

_CHUNK = bytearray(256 << 10)


def measure_floor(data_set: DataSet) -> Result:
    """Read the closed segments of a set twice, in chunks of 256 KiB."""
    closed = segments_of(set_folder(data_set))[:-1]
    size = sum(path.stat().st_size for path in closed)
    began, cpu = time.monotonic(), time.process_time()
    for _ in range(2):
        _read(closed)
    seconds = time.monotonic() - began
    cpu = time.process_time() - cpu
    return {
        "MB/s": size / seconds / 1e6,
        "records/s": data_set.records / seconds,
        "CPU s/GB": cpu / size * 1e9,
        "CPU us/record": cpu / data_set.records * 1e6,
    }


@contextmanager
def reading(data_set: DataSet) -> Iterator[subprocess.Popen[bytes]]:
    """Have a process read a set without pause, with the priority that cleaning has."""
    command = [sys.executable, "-m", "bench.clean.floor", str(set_folder(data_set))]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        try:
            yield process
        finally:
            process.kill()


def _read(paths: Iterable[Path]) -> None:
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while os.readv(file.fileno(), [_CHUNK]):
                pass


def _read_for_ever(folder: Path) -> None:
    os.nice(NICE)
    while True:
        _read(segments_of(folder)[:-1])


if __name__ == "__main__":
    _read_for_ever(Path(sys.argv[1]))
