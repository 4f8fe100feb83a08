"""Delta tables in a session that has Delta's own package: it merges, and jobs go on as before."""

import os
import random
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from siltstone.pipeline.engine import LocalEngine, SparkEngine
from siltstone.pipeline.errors import Refused
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, snapshot
from siltstone.pipeline.sinks import delta, delta_spark, staging
from siltstone.pipeline.sinks.table import open_table
from tests.support.keyed_log import KeyedLog
from tests.support.lakes import read
from tests.support.meddling import JOBS, LAKES, Schedule, Watched, meddle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.connector,
    pytest.mark.java,
    pytest.mark.usefixtures("delta_package"),
    pytest.mark.timeout(400),
]
COLUMNS = SnapshotSpec(topic="t", target="").schema
FIRST = int(os.environ.get("TABLE_FIRST") or 0)
HISTORIES = range(FIRST, FIRST + int(os.environ.get("TABLE_HISTORIES") or 30) // 10)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession") -> Watched:
    """A topic of which a table was made on Spark."""
    made = Watched(tmp_path, LAKES[0], monkeypatch, seed=5, engine=SparkEngine(spark))
    made.log.write(300)
    made.snapshot()
    made.log.write(40)
    return made


def history(watched: Watched) -> list[dict[str, Any]]:
    """Return the commits of the table, the newest first."""
    return DeltaTable(watched.target.removeprefix("delta:")).history()


def writers(watched: Watched) -> list[str]:
    """Return the name of the library that made each commit, the newest first."""
    return [commit["engineInfo"].partition("/")[0].partition(":")[0] for commit in history(watched)]


@pytest.mark.parametrize("job", ["increment", "stream"])
def test_either_way_goes_on(watched: Watched, spark: "SparkSession", job: str) -> None:
    """The package merges on Spark; without it delta-rs goes on from the table alone, and back."""
    for engine in (SparkEngine(spark), LocalEngine(1), SparkEngine(spark)):
        watched.engine = engine
        watched.log.write(40)
        JOBS[job](watched)
        assert watched.found() == watched.expected

    assert [commit["operation"] for commit in history(watched)[:3]] == ["MERGE"] * 3
    turns = [name for name, _ in groupby(writers(watched))]
    assert turns[:3] == ["Apache-Spark", "delta-rs", "Apache-Spark"]


def test_only_tombstones_of_keys_that_it_lacks(watched: Watched) -> None:
    """A merge that changes no row leaves a commit with the state, too."""
    watched.snapshot(incremental=True)
    at = watched.log.append(0, b"nobody's", None)

    watched.snapshot(incremental=True)

    state = open_table(watched.target).state()
    assert state is not None
    assert state.offsets[0] == at + 1
    assert watched.found() == watched.expected


def test_several_rows_of_a_key(watched: Watched) -> None:
    """All rows of a key go, as an append of another writer leaves them."""
    key = next(iter(watched.found()))
    row = {"key": key[1], "value": b"twice", "partition": key[0], "offset": 0, "timestamp": 0}
    watched.other.append(pa.Table.from_pylist([row], schema=COLUMNS))
    watched.log.append(*key, b"once")

    watched.snapshot(incremental=True)

    assert watched.found() == watched.expected
    assert watched.found()[key] == b"once"


@pytest.mark.parametrize("how", ["rewrite", "restore", "increment"])
def test_a_commit_before_the_merge(watched: Watched, how: str) -> None:
    """The merge is on the version whose state was read, or it is made again on a fresh one."""
    left = [how]

    def before_the_merge(name: str) -> None:
        if name != "before merge" or not left:
            return
        left.clear()
        if how == "increment":
            watched.log.write(30)
            engine, watched.engine = watched.engine, LocalEngine(1)
            watched.snapshot(incremental=True)
            watched.engine = engine
        elif how == "restore":
            DeltaTable(watched.target.removeprefix("delta:")).restore(0)
        else:
            meddle(watched, how, random.Random(1))

    watched.snapshot(incremental=True)
    watched.log.write(40)
    watched.meddle = before_the_merge
    watched.snapshot(incremental=True)

    assert not left
    assert watched.found() == (watched.log.live() if how == "restore" else watched.expected)


def test_a_table_that_was_made_again(watched: Watched) -> None:
    """Spark has seen later versions of the table that it was before."""
    watched.snapshot(incremental=True)
    watched.make_again()
    for _ in range(2):
        watched.log.write(40)
        watched.snapshot(incremental=True)

        assert watched.found() == watched.expected == watched.log.live()


def test_a_commit_during_the_merge(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Delta has chosen its version, and is not first: the job merges again, above that commit."""
    row = {"key": b"other", "value": b"1", "partition": 0, "offset": 0, "timestamp": 0}
    rows = pa.Table.from_pylist([row], schema=COLUMNS)
    check = delta_spark._check
    mark = tmp_path / "mark"

    def check_and_append(place: str, version: int) -> bool:
        is_newest = check(place, version)
        if not mark.exists():
            mark.touch()
            write_deltalake(place, rows, mode="append")
        return is_newest

    monkeypatch.setattr(delta_spark, "_check", check_and_append)
    watched.snapshot(incremental=True)

    assert watched.found() == watched.expected | {(0, b"other"): b"1"}
    assert [commit["operation"] for commit in history(watched)[:2]] == ["MERGE", "WRITE"]


def test_a_writer_that_is_always_first(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job says so in one sentence, and the table is the other writer's."""
    monkeypatch.setattr(staging, "TRIES", 2)
    before = dict(watched.expected)
    chance = random.Random(1)

    def first(name: str) -> None:
        if name == "before merge":
            meddle(watched, "rewrite", chance)

    watched.meddle = first
    with pytest.raises(Refused, match=r"version \d+ of .* came after \d+.*2 times") as refusal:
        watched.snapshot(incremental=True)

    assert "\n" not in str(refusal.value)
    assert watched.found() == before


def test_small_files_are_put_together(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream has Delta put small files together; the state is found below that commit."""
    monkeypatch.setattr(delta, "_MANY", 2)
    row = {"key": b"other", "value": b"1", "partition": 0, "offset": 0, "timestamp": 0}
    watched.other.append(pa.Table.from_pylist([row], schema=COLUMNS))
    watched.expected[0, b"other"] = b"1"
    watched.stream()

    assert "OPTIMIZE" in [commit["operation"] for commit in history(watched)]
    assert len(open_table(watched.target).files()) == 1
    assert watched.found() == watched.expected


def test_names_that_mean_something(tmp_path: Path, spark: "SparkSession") -> None:
    """A folder may have a name with blanks, quotes and the signs of patterns."""
    log = KeyedLog(tmp_path / "log")
    target = f"delta:{tmp_path}/it's a `table` {{1,2}}"
    spec = SnapshotSpec(topic="t", target=target, incremental=True, key_scope="topic", headers=True)
    for _ in range(2):
        log.write(60)
        snapshot(SparkEngine(spark), {"archive": str(log.root)}, spec)

    rows = read(target)
    assert rows is not None
    found = {row["key"]: row["value"] for row in rows.to_pylist()}
    assert found == log.live_by_time()
    assert len(rows) == len(found)


@pytest.mark.parametrize("seed", HISTORIES)
def test_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession", seed: int
) -> None:
    """Random jobs on Spark, and another writer, also within them; jobs may be killed."""
    watched = Watched(tmp_path, LAKES[0], monkeypatch, seed=seed, engine=SparkEngine(spark))

    Schedule(watched, random.Random(seed)).play()
