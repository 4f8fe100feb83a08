"""Iceberg tables of a catalogue that the Spark session has, too: Iceberg's package merges there.

The package is for Spark 4.1; with another release these tests are not collected.
"""

import os
import random
from contextlib import closing
from itertools import count, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyiceberg.catalog
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from siltstone.pipeline.engine import LocalEngine, SparkEngine
from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.jobs.snapshot import SnapshotSpec
from siltstone.pipeline.sinks import iceberg_spark
from siltstone.pipeline.sinks.table import open_table
from tests.support.lakes import iceberg_table
from tests.support.meddling import JOBS, Schedule, Watched, meddle
from tests.support.object_store import catalogue_variables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.usefixtures("iceberg_package"),
    pytest.mark.timeout(400),
]
FIRST = int(os.environ.get("TABLE_FIRST") or 0)
HISTORIES = range(FIRST, FIRST + int(os.environ.get("TABLE_HISTORIES") or 10) // 10)
names = (f"iceberg:shop.sales.users_{number}" for number in count())


@pytest.fixture(scope="module")
def catalogue(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of a catalogue for pyiceberg; the session has it by the same name."""
    root = tmp_path_factory.mktemp("catalogue")
    settings = {"uri": f"{root}/catalog.db", "warehouse": f"file://{root}/w"}
    its = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{settings['uri']}",
        "warehouse": settings["warehouse"],
        "jdbc.schema-version": "V1",
    }
    for name, value in its.items():
        spark.conf.set(f"spark.sql.catalog.shop.{name}", value)
    spark.conf.set("spark.sql.catalog.shop", "org.apache.iceberg.spark.SparkCatalog")
    return {"type": "sql", **settings, "uri": f"sqlite:///{settings['uri']}"}


@pytest.fixture
def target(catalogue: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A table that does not exist yet."""
    for name, value in catalogue_variables("shop", catalogue).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which it reads once
    return next(names)


@pytest.fixture
def watched(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession"
) -> Watched:
    """A topic of which a table was made on Spark."""
    made = Watched(tmp_path, target, monkeypatch, seed=5, engine=SparkEngine(spark))
    made.log.write(300)
    made.snapshot()
    made.log.write(40)
    return made


def writers(watched: Watched) -> list[str]:
    """Return the name of the library that made each snapshot, the newest first."""
    with iceberg_table(watched.target) as table:
        summaries = [each.summary for each in reversed(table.snapshots())]
    found = [{} if each is None else each.additional_properties for each in summaries]
    return [each.get("engine-name", "pyiceberg") for each in found]


@pytest.mark.parametrize("job", ["increment", "stream"])
def test_either_way_goes_on(watched: Watched, spark: "SparkSession", job: str) -> None:
    """The package merges on Spark; without it pyiceberg goes on from the table alone, and back."""
    for engine in (SparkEngine(spark), LocalEngine(1), SparkEngine(spark)):
        watched.engine = engine
        watched.log.write(40)
        JOBS[job](watched)
        assert watched.found() == watched.expected

    turns = [name for name, _ in groupby(writers(watched))]
    assert turns == ["spark", "pyiceberg", "spark", "pyiceberg"]


def test_only_tombstones_of_keys_that_it_lacks(watched: Watched) -> None:
    """A merge that changes no row leaves a snapshot with the state, too."""
    watched.snapshot(incremental=True)
    at = watched.log.append(0, b"nobody's", None)

    watched.snapshot(incremental=True)

    state = open_table(watched.target).state()
    assert state is not None
    assert state.offsets[0] == at + 1
    assert watched.found() == watched.expected


@pytest.mark.parametrize("how", ["rewrite", "upsert", "increment"])
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
        else:
            meddle(watched, how, random.Random(1))

    watched.meddle = before_the_merge
    watched.snapshot(incremental=True)

    assert not left
    assert watched.found() == watched.expected


def test_a_commit_during_the_merge(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg has chosen its version, and is not first: the job merges again, above that commit."""
    row = {"key": b"other", "value": b"1", "partition": 0, "offset": 0, "timestamp": 0}
    rows = pa.Table.from_pylist([row], schema=SnapshotSpec(topic="t", target="").schema)
    check = iceberg_spark._check
    mark = tmp_path / "mark"

    def check_and_append(catalog: str, properties: Any, identifier: Any, version: str) -> None:
        check(catalog, properties, identifier, version)
        if not mark.exists():
            mark.touch()
            with closing(load_catalog(catalog, **properties)) as opened:
                opened.load_table(identifier).append(rows)

    monkeypatch.setattr(iceberg_spark, "_check", check_and_append)
    watched.snapshot(incremental=True)

    assert watched.found() == watched.expected | {(0, b"other"): b"1"}
    assert writers(watched) == ["spark", "pyiceberg", "pyiceberg"]


def test_another_catalogue_of_the_name(
    watched: Watched, catalogue: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows would be merged into a table that nobody has named, so the job is refused."""
    other = {**catalogue, "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"{tmp_path}/w"}
    for name, value in catalogue_variables("shop", other).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    watched.engine, engine = LocalEngine(1), watched.engine
    watched.snapshot()
    before = watched.found()
    watched.log.write(40)
    watched.engine = engine

    with pytest.raises(PipelineError, match="another table than that of pyiceberg") as refusal:
        watched.snapshot(incremental=True)

    assert "\n" not in str(refusal.value)
    assert watched.found() == before


@pytest.mark.parametrize("seed", HISTORIES)
def test_history(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: "SparkSession", seed: int
) -> None:
    """Random jobs on Spark, and another writer, also within them; jobs may be killed."""
    watched = Watched(tmp_path, target, monkeypatch, seed=seed, engine=SparkEngine(spark))

    Schedule(watched, random.Random(seed)).play()
