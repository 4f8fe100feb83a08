"""A stream whose processes are killed by the kernel: each offset comes once.

Each kill costs a start of Spark, so a plain run has two; `make stream-kills KILLS=20` has more.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import pytest
from deltalake import DeltaTable

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.spark.java import find_java
from siltstone.pipeline.spark.session import FAST_START
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, numbered, produce
from tests.support.waiting import wait_until

KILLS = int(os.environ.get("STREAM_KILLS") or 2)
RECORDS = 100 * (KILLS + 3)
SECONDS = 120.0
TOPIC = "killed"
MOMENTS = (
    "table/*.parquet",  # tasks write
    "table/_delta_log/*.json",  # the table has it
    "job.log",  # Spark has started
)
"""When it is killed: as soon as one of these changes."""
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(120 + 60 * KILLS)]


class Job:
    """The stream job on a table, as processes of its own."""

    def __init__(self, broker: SiltstoneProcess, root: Path) -> None:
        self._broker = broker
        self._root = root
        self.table = root / "table"

    def start(self, most: int) -> subprocess.Popen[bytes]:
        """Start it; an increment has at most so many records."""
        command = [
            sys.executable,
            "-m",
            "siltstone.pipeline",
            "stream",
            TOPIC,
            "--once",
            "--append",
        ]
        command += ["--to", f"delta:{self.table}", "--data", str(self._broker.folder)]
        command += ["--master", "local[2,2]", "--option", f"maxOffsetsPerTrigger={most}"]
        with (self._root / "job.log").open("ab") as log:
            return subprocess.Popen(
                command,
                env={**os.environ, "JDK_JAVA_OPTIONS": FAST_START},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def traces(self, pattern: str) -> set[tuple[Path, int, int]]:
        """Return the files and folders of a kind, as they are now."""
        found = set()
        for path in self._root.glob(pattern):
            with suppress(FileNotFoundError):
                facts = path.stat()
                found.add((path, facts.st_ino, facts.st_ctime_ns))
        return found

    def log(self) -> str:
        """Return what it said."""
        return (self._root / "job.log").read_text()

    def offsets(self) -> list[tuple[int, int]]:
        """Return partition and offset of each row."""
        rows = DeltaTable(self.table).to_pyarrow_table(columns=["partition", "offset"])
        return sorted((row["partition"], row["offset"]) for row in rows.to_pylist())


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL a process and all that it has started: driver, JVM and workers."""
    members = [
        int(stat.parent.name)
        for stat in Path("/proc").glob("[0-9]*/stat")
        if session_of(stat) == process.pid
    ]
    for each in members:
        try:
            os.kill(each, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait(SECONDS)


def session_of(stat: Path) -> int:
    """Return the session that a process belongs to, 0 if it has gone."""
    try:
        return int(stat.read_text().rpartition(")")[2].split()[3])
    except OSError:
        return 0


def test_each_offset_once_whatever_is_killed(
    pipeline_broker: SiltstoneProcess, tmp_path: Path
) -> None:
    """It dies at its start, while tasks write, or just after a commit; nothing is twice."""
    try:
        find_java()
    except PipelineError as lack:
        pytest.skip(f"java: {lack}")
    create_topic(pipeline_broker.bootstrap, TOPIC, partitions=2)
    for partition in (0, 1):
        rows = numbered(RECORDS, partition=partition)
        produce(pipeline_broker.bootstrap, TOPIC, rows)
    job = Job(pipeline_broker, tmp_path)

    for pattern in islice(cycle(MOMENTS), KILLS):
        before = job.traces(pattern)
        process = job.start(most=50)
        try:
            wait_until(
                lambda: job.traces(pattern) - before or process.poll() is not None,  # noqa: B023
                f"a new trace {pattern}",
                timeout=SECONDS,
            )
            assert process.poll() is None, f"it ended before it was killed: {job.log()}"
        finally:
            kill_session(process)
    last = job.start(most=100_000)
    try:
        assert last.wait(SECONDS) == 0, job.log()
    finally:
        kill_session(last)

    assert job.offsets() == [
        (partition, offset) for partition in (0, 1) for offset in range(RECORDS)
    ]
