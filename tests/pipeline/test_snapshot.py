"""Snapshots of archives against a dict: whole, by shuffle, by increments, and what goes wrong."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.schema import Field, PrimitiveType

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import (
    BadOption,
    CorruptLog,
    SnapshotExpired,
    SourceUnavailable,
)
from siltstone.pipeline.jobs import snapshot as snapshot_module
from siltstone.pipeline.jobs.reading import Moment, moment_of
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, SnapshotSummary, snapshot
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.sinks.table import open_table
from siltstone.pipeline.transports import archive as archive_module
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.topic_partition import TopicPartition
from tests.support.clock import FakeClock
from tests.support.keyed_log import KeyedLog


class Made:
    """A log of two partitions, and a table of it."""

    def __init__(self, root: Path, seed: int = 1) -> None:
        self.log = KeyedLog(root / "log", partitions=2, seed=seed)
        self.target = f"delta:{root}/table"
        self.engine = LocalEngine(1)

    def snapshot(self, **wanted: Any) -> SnapshotSummary:
        """Take a snapshot."""
        spec = SnapshotSpec(**{"topic": "t", "target": self.target, **wanted})
        return snapshot(self.engine, {"archive": str(self.log.root)}, spec)

    def table(self) -> dict[tuple[int, Any], Any]:
        """Return what is in the table; no key comes twice."""
        found: dict[tuple[int, Any], Any] = {}
        for row in self.rows():
            assert (row["partition"], row["key"]) not in found
            found[row["partition"], row["key"]] = row["value"]
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table."""
        return [
            row
            for path in open_table(self.target).files()
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """A log with some records."""
    made = Made(tmp_path)
    made.log.write(3000)
    return made


def test_a_large_partition_is_read_once(made: Made) -> None:
    """A partition that one task would not hold in memory is divided by a shuffle."""
    few, many = (made.snapshot(memory_bytes=memory).plan for memory in (1 << 30, 5_000))

    assert (few, many) == ("partition", "shuffle")
    assert made.table() == made.log.live()


@pytest.mark.parametrize("plan", ["partition", "shuffle"])
def test_whole(made: Made, plan: str) -> None:
    """The table has the last value of each key of each partition, however it is divided."""
    summary = made.snapshot(plan=plan)

    assert made.table() == made.log.live()
    assert summary.rows == len(made.log.live())
    assert summary.offsets == {at: (0, end) for at, end in made.log.ends().items()}
    assert summary.plan == plan


@pytest.mark.parametrize("kind", ["delta:{}/table", "iceberg:{}/w/table"])
@pytest.mark.parametrize("plan", ["partition", "shuffle"])
def test_increments(tmp_path: Path, kind: str, plan: str) -> None:
    """Each increment reads what is new, and the table is as if built at once."""
    made = Made(tmp_path, seed=7)
    made.target = kind.format(tmp_path)
    made.log.write(2000)
    made.snapshot()
    for _ in range(4):
        before = made.log.ends()
        made.log.write(random.Random(plan).choice([1, 50, 700]))

        summary = made.snapshot(incremental=True, plan=plan)

        assert made.table() == made.log.live()
        assert summary.mode == "increment"
        assert summary.reason == ""
        assert {at: start for at, (start, _) in summary.offsets.items()} == before


@pytest.mark.parametrize("bounds", [{"startingOffsets": "latest"}, {"endingOffsets": "earliest"}])
def test_increments_begin_where_the_table_ends(made: Made, bounds: dict[str, str]) -> None:
    """Options say where the first reading begins and ends, and never have rows left out after."""
    made.snapshot()
    made.log.write(200)
    spec = SnapshotSpec(topic="t", target=made.target, incremental=True)
    snapshot(made.engine, {"archive": str(made.log.root), **bounds}, spec)
    state = open_table(made.target).state()
    made.snapshot(incremental=True)

    assert state is not None
    assert made.table() == made.log.live()


def test_increment_of_nothing(made: Made) -> None:
    """Where nothing is new, nothing changes but the moment."""
    made.snapshot()

    summary = made.snapshot(incremental=True)

    assert summary.rows_read == 0
    assert made.table() == made.log.live()


def test_one_row_a_key_of_the_topic(made: Made) -> None:
    """With the scope of the topic the newest by time wins, wherever it is."""
    made.snapshot(key_scope="topic")

    assert {key: value for (_, key), value in made.table().items()} == made.log.live_by_time()


def test_first_increment_is_whole(made: Made, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a table all is read, and that is said aloud."""
    summary = made.snapshot(incremental=True)

    assert summary.mode == "whole"
    assert "built again: " in capsys.readouterr().err
    assert made.table() == made.log.live()


def test_another_topic_of_the_name(made: Made) -> None:
    """A topic that was deleted and made again is read from its start."""
    made.snapshot()
    made.log.remake()
    made.log.write(100)

    summary = made.snapshot(incremental=True)

    assert "made again" in summary.reason
    assert made.table() == made.log.live()


def test_log_that_begins_later(made: Made) -> None:
    """Where retention has come past the table's offsets, all is read."""
    made.snapshot()
    end = made.log.ends()[0]
    made.log.write(500)
    OffsetCheckpoint(made.log.root, files.LOG_START_OFFSETS).write(
        {TopicPartition("t", 0): end + 1}
    )

    summary = made.snapshot(incremental=True)

    assert "begins at offset" in summary.reason


def test_tombstones_that_may_be_gone(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table older than delete.retention.ms is built again: it may have missed a deletion."""
    OffsetCheckpoint(made.log.root, files.CLEANER_OFFSETS).write({TopicPartition("t", 0): 1})
    made.snapshot()
    view = archive_module.ArchiveSource.view

    def later(self: Any) -> Manifest:
        taken = view(self)
        return replace(taken, taken_at_ms=taken.taken_at_ms + 86_400_000)

    monkeypatch.setattr(archive_module.ArchiveSource, "view", later)

    summary = made.snapshot(incremental=True)

    assert "tombstones" in summary.reason
    assert summary.mode == "whole"


def test_an_increment_beside_columns_of_another_writer(tmp_path: Path) -> None:
    """It is refused: the rows of the table would have a column that the new ones lack."""
    made = Made(tmp_path)
    made.target = f"delta:{tmp_path}/d"
    made.log.write(100)
    made.snapshot()
    DeltaTable(f"{tmp_path}/d").alter.add_columns([Field("more", PrimitiveType("integer"))])
    made.log.write(100)

    with pytest.raises(BadOption, match=r"has other columns \(more int32\)"):
        made.snapshot(incremental=True)

    assert DeltaTable(f"{tmp_path}/d").version() == 1


def test_other_columns(made: Made) -> None:
    """A table with other columns is built again."""
    made.snapshot()

    assert "other columns" in made.snapshot(incremental=True, headers=True).reason


@pytest.mark.parametrize("kind", ["delta:{}/table", "iceberg:{}/w/table"])
def test_another_job_that_has_read_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """An increment that began before another and ends after it leaves the table as new as it is."""
    made = Made(tmp_path)
    made.target = kind.format(tmp_path)
    made.log.write(300)
    made.snapshot()
    made.log.write(30)

    @contextmanager
    def overtaken(*arguments: Any) -> Iterator[Moment]:
        with moment_of(*arguments) as moment:
            monkeypatch.undo()
            made.log.write(50)
            made.snapshot(incremental=True)
            made.log.write(20)
            yield moment

    monkeypatch.setattr(snapshot_module, "moment_of", overtaken)
    summary = made.snapshot(incremental=True)

    assert (summary.mode, summary.reason) == ("increment", "")
    assert made.table() == made.log.live()


def test_a_topic_that_has_lost_its_end(made: Made) -> None:
    """Where no other job has read what is missing now, the table is built again."""
    shutil.copytree(made.log.root, made.log.root.with_name("copy"))
    made.log.write(100)
    made.snapshot()
    shutil.rmtree(made.log.root)
    made.log.root.with_name("copy").rename(made.log.root)

    summary = made.snapshot(incremental=True)

    assert "it has lost its end" in summary.reason
    assert summary.mode == "whole"


def test_records_without_a_key(made: Made) -> None:
    """They have no last value: they are counted and reported."""
    made.log.append(0, None, b"v")

    summary = made.snapshot()

    assert summary.without_key == 1
    assert any("no key" in line for line in summary.lines("t"))


def test_damage_fails_and_changes_nothing(made: Made) -> None:
    """A damaged batch fails the job with file and position; the old table stays."""
    made.snapshot()
    before = made.table()
    made.log.write(200)
    made.log.damage(0)

    with pytest.raises(CorruptLog, match=r"t-0/\d{20}\.log"):
        made.snapshot()

    assert made.table() == before
    found = Path(made.target.removeprefix("delta:")).glob("*.parquet")
    assert len(list(found)) == len(open_table(made.target).files())


def test_killed_in_the_commit(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next run finds the old table, and makes the new one."""
    made.snapshot()
    before = made.table()
    made.log.write(300)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeltaTable, "merge", killed)
    with pytest.raises(KeyboardInterrupt):
        made.snapshot(incremental=True)
    monkeypatch.undo()
    assert made.table() == before

    made.snapshot(incremental=True)

    assert made.table() == made.log.live()


def test_slow_scan_without_a_pin_is_refused(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compacted topic read for too long without a pin could bring a deleted key back."""
    OffsetCheckpoint(made.log.root, files.CLEANER_OFFSETS).write({TopicPartition("t", 0): 1})
    clock = FakeClock()
    made.engine.clock = clock

    def run(*_: Any) -> list[Any]:
        clock.advance(50_000_000)
        return []

    monkeypatch.setattr(made.engine, "run", run)
    monkeypatch.setattr(archive_module.ArchiveSource, "name", "fetch")
    spec = SnapshotSpec(topic="t", target=made.target)

    with pytest.raises(SnapshotExpired, match="without a pin"):
        snapshot(made.engine, {"archive": str(made.log.root)}, spec)

    assert open_table(made.target).files() == []


def test_no_such_topic(made: Made) -> None:
    """A topic that does not exist is named, and no table is made."""
    shutil.rmtree(made.log.root / "t-0")
    shutil.rmtree(made.log.root / "t-1")

    with pytest.raises(SourceUnavailable):
        made.snapshot()

    assert open_table(made.target).files() == []


def test_empty_topic(tmp_path: Path) -> None:
    """A topic without records is a table without rows."""
    made = Made(tmp_path)

    summary = made.snapshot()

    assert summary.rows == 0
    assert made.table() == {}
