"""What no cleaner can beat here: reading the log twice from the page cache, and nothing else."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from bench.clean.homes import segments_of, set_folder

if TYPE_CHECKING:
    from bench.cases import Result
    from bench.clean.sets import DataSet

_CHUNK = bytearray(256 << 10)


def measure_floor(data_set: DataSet) -> Result:
    """Read the closed segments of a set twice, in chunks of 256 KiB."""
    closed = segments_of(set_folder(data_set))[:-1]
    size = sum(path.stat().st_size for path in closed)
    began, cpu = time.monotonic(), time.process_time()
    for _ in range(2):
        for path in closed:
            with path.open("rb", buffering=0) as file:
                while os.readv(file.fileno(), [_CHUNK]):
                    pass
    seconds = time.monotonic() - began
    cpu = time.process_time() - cpu
    return {
        "MB/s": size / seconds / 1e6,
        "records/s": data_set.records / seconds,
        "CPU s/GB": cpu / size * 1e9,
        "CPU us/record": cpu / data_set.records * 1e6,
    }
