"""A table on a disk that is full, for real: the job says so, and the table is what it was."""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.archives import Archive
from tests.support.batches import Row, make_batch
from tests.support.programs import run_to_end
from tests.support.tiny_disk import TinyDisk

FEW, MANY = 20, 4000
VALUE_BYTES = 1000
DISK = "16m"
SECONDS = 250.0
LEFT = {"nothing": 0, "a part": 3 << 20}
"""Bytes that the job finds: it needs some 4 MB, and a commit some more."""
LOOK = """
import json, sys
import pyarrow.parquet as pq
from siltstone.pipeline.sinks.table import open_new
table = open_new(sys.argv[1])
counts = [pq.ParquetFile(path).metadata.num_rows for path in table.files()]
print(json.dumps(sum(counts)))
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with a topic that fits, and one that does not: random bytes, all keys unlike."""
    chance = random.Random(5)
    archive = Archive(tmp_path_factory.mktemp("topics"))
    for topic, count in (("few", FEW), ("many", MANY)):
        rows: list[Row] = [
            (b"k%d" % number, chance.randbytes(VALUE_BYTES)) for number in range(count)
        ]
        batches = [make_batch(rows[first : first + 10]) for first in range(0, count, 10)]
        archive.fill([batches], topic=topic)
    return archive.root


class Place:
    """A tiny disk with a table on it, and the archive that jobs read."""

    def __init__(self, disk: TinyDisk, kind: str, topics: Path) -> None:
        self.disk = disk
        self._topics = topics
        name = "house/table" if kind == "iceberg" else "table"
        self.target = f"{kind}:{disk.mountpoint}/{name}"

    def run(self, job: str, topic: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a job where the disk is, as a process of its own."""
        command = [
            sys.executable,
            "-m",
            "siltstone.pipeline",
            job,
            topic,
            "--to",
            self.target,
            *more,
        ]
        return self._run([*command, "--archive", str(self._topics)])

    def rows(self) -> int:
        """Return how many rows there are."""
        done = self._run([sys.executable, "-c", LOOK, self.target])
        assert done.returncode == 0, done.stderr
        found: int = json.loads(done.stdout)
        return found

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return run_to_end(self.disk.enter(command), timeout=SECONDS)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """The disk."""
    disk = TinyDisk(tmp_path, DISK)
    yield disk
    disk.close()


def assert_sentence(done: subprocess.CompletedProcess[str]) -> None:
    """Make sure that a job failed with one sentence about the disk."""
    said = [line for line in done.stderr.splitlines() if not line.startswith("WARNING")]
    assert done.returncode == 1, done.stderr
    assert said[-1].startswith("pipeline: the disk of "), done.stderr
    assert said[-1].endswith("is full; make room and run the job again: the table is as it was")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("left", LEFT)
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_snapshot(disk: TinyDisk, topics: Path, kind: str, left: str) -> None:
    """Wherever it fails, the old table is whole; with room it goes through."""
    place = Place(disk, kind, topics)
    assert place.run("snapshot", "few", "--engine", "local").returncode == 0
    disk.fill(but=LEFT[left])

    assert_sentence(place.run("snapshot", "many", "--engine", "local"))

    disk.make_room()
    assert place.rows() == FEW
    done = place.run("snapshot", "many", "--engine", "local")
    assert done.returncode == 0, done.stderr
    assert place.rows() == MANY


def test_first_export(disk: TinyDisk, topics: Path) -> None:
    """Where no table was, no table is made."""
    place = Place(disk, "parquet", topics)
    disk.fill(but=1 << 20)

    assert_sentence(place.run("export", "many", "--engine", "local"))

    disk.make_room()
    assert place.rows() == 0
    assert place.run("export", "many", "--engine", "local").returncode == 0
    assert place.rows() == MANY


def test_stream(disk: TinyDisk, topics: Path) -> None:
    """A stream ends with the sentence, and goes on from the table when there is room."""
    place = Place(disk, "delta", topics)
    follow = ("--once", "--append", "--engine", "local")
    disk.fill(but=1 << 20)

    assert_sentence(place.run("stream", "many", *follow))

    disk.make_room()
    assert place.rows() == 0
    done = place.run("stream", "many", *follow)
    assert done.returncode == 0, done.stderr
    assert place.rows() == MANY
