"""The plan of a read of 10 TB: its time, and the memory of the driver and of each task.

    python -m bench.pipeline.terabytes
    python -m bench.pipeline.terabytes --terabytes 1 --spark

The log directory is made up: segments of 1 GiB that are sparse, with the header of a batch wherever
a split can begin, and with whole indexes. It takes some 50 MB of the disk.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.spark.session import open_session
from siltstone.pipeline.transports import open_source
from siltstone.protocol.core.constants import LOG_OVERHEAD, MAGIC
from siltstone.protocol.records.batch import HEADER, BatchHeader
from siltstone.storage import files
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

_SEGMENT_BYTES: Final = 1 << 30
_SPLIT_BYTES: Final = 64 << 20
_BATCH_BYTES: Final = 4096
_BATCHES: Final = _SEGMENT_BYTES // _BATCH_BYTES
_RECORDS: Final = 32
_TOPICS: Final = [f"topic{number}" for number in range(10)]
_PARTITIONS: Final = 8
_ENTRY: Final = struct.Struct(">ii")
_MIB: Final = 1 << 20


def main(words: Sequence[str]) -> int:
    """Make the directory up, and measure a plan in a process of its own."""
    options = _parse(words)
    if options.archive:
        _plan_in_spark(options) if options.spark else _plan(options)
        return 0
    with tempfile.TemporaryDirectory(prefix="siltstone-terabytes-") as folder:
        each = round(options.terabytes * 1024 / len(_TOPICS) / _PARTITIONS)
        make(Path(folder), max(1, each))
        again = [sys.executable, "-m", "bench.pipeline.terabytes", *words, "--archive", folder]
        subprocess.run(again, check=True)
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.pipeline.terabytes", description=__doc__)
    parser.add_argument(
        "--terabytes", type=float, default=9.77, help="of log (9.77: 160,000 splits)"
    )
    parser.add_argument("--split-bytes", default="64m", help="of a task, a multiple of 64m (64m)")
    parser.add_argument("--spark", action="store_true", help="have Spark plan it")
    parser.add_argument("--archive", default="", help="a directory that was made before")
    return parser.parse_args(words)


def make(root: Path, segments: int) -> None:
    """Make topics up, each of so many segments a partition; partitions share their files."""
    index = root / "index"
    relative = ((n * _RECORDS - 1 + _RECORDS, n * _BATCH_BYTES) for n in range(1, _BATCHES))
    index.write_bytes(b"".join(itertools.starmap(_ENTRY.pack, relative)))
    for number in range(segments):
        base = number * _BATCHES * _RECORDS
        log = root / files.segment_file_name(base)
        _write_log(log, base)
        for topic, partition in itertools.product(_TOPICS, range(_PARTITIONS)):
            folder = root / str(TopicPartition(topic, partition))
            folder.mkdir(exist_ok=True)
            (folder / log.name).hardlink_to(log)
            (folder / files.segment_file_name(base, files.INDEX)).hardlink_to(index)
        log.unlink()


def _write_log(path: Path, base: int) -> None:
    places = [*range(0, _SEGMENT_BYTES, _SPLIT_BYTES), _SEGMENT_BYTES - _BATCH_BYTES]
    with path.open("wb") as log:
        log.truncate(_SEGMENT_BYTES)
        for position in places:
            header = BatchHeader(
                base_offset=base + position // _BATCH_BYTES * _RECORDS,
                length=_BATCH_BYTES - LOG_OVERHEAD,
                leader_epoch=0,
                magic=MAGIC,
                crc=0,
                attributes=0,
                last_offset_delta=_RECORDS - 1,
                base_timestamp=0,
                max_timestamp=0,
                producer_id=-1,
                producer_epoch=-1,
                base_sequence=-1,
                count=_RECORDS,
            )
            log.seek(position)
            log.write(HEADER.pack(*header))


def _plan(options: argparse.Namespace) -> None:
    before = _peak_bytes()
    began = time.perf_counter()
    asked = {"subscribe": ",".join(_TOPICS), "archive": options.archive}
    with open_source(ReadOptions.parse({**asked, "splitBytes": options.split_bytes})) as source:
        view = source.view()
        viewed = time.perf_counter()
        splits = source.plan(view)
    ended = time.perf_counter()
    sizes = [len(pickle.dumps(split)) for split in splits]
    print(
        f"{view.size / 1e12:.2f} TB, {len(splits):,} splits: manifest {viewed - began:.1f} s, "
        f"splits {ended - viewed:.1f} s; peak {_peak_bytes() / _MIB:,.0f} MiB "
        f"({before / _MIB:,.0f} before); pickled {sum(sizes) / _MIB:,.0f} MiB, "
        f"a task {max(sizes):,} bytes at most"
    )


def _plan_in_spark(options: argparse.Namespace) -> None:
    session = open_session("terabytes", master="local[2]", conf={"spark.driver.memory": "512m"})
    asked = {"archive": options.archive, "splitBytes": options.split_bytes}

    def tasks_of(**given: str) -> int:
        frame = session.read.format("siltstone").options(**asked, **given).load()
        return frame.rdd.getNumPartitions()

    tasks_of(subscribe=_TOPICS[0], endingOffsets="earliest")
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001 - PySpark has no public name for it
    process = jvm.java.lang.ProcessHandle.current().pid()
    before = _peak_bytes(process)
    began = time.perf_counter()
    tasks = tasks_of(subscribe=",".join(_TOPICS))
    seconds = time.perf_counter() - began
    print(
        f"{tasks:,} tasks planned by Spark in {seconds:.1f} s; peak of the driver's JVM "
        f"{_peak_bytes(process) / _MIB:,.0f} MiB ({before / _MIB:,.0f} before)"
    )
    session.stop()


def _peak_bytes(process: int | str = "self") -> int:
    """Return the most memory that a process has had."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
