"""The stream job: a table that follows its topic, killed in mid-batch again and again."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

from siltstone.pipeline.jobs import stream as stream_job
from siltstone.pipeline.jobs.stream import StreamSpec, StreamSummary, stream
from siltstone.pipeline.sinks.parquet import ParquetTable
from siltstone.pipeline.sinks.table import open_table
from tests.support.lakes import OtherWriter
from tests.support.produced import create_topic, numbered, produce

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.broker import SiltstoneProcess

KILLS = ("before", "after", "before", "before", "after")
"""Where each run ends: before or after a commit. The source's own test has twenty."""
BATCH = 200
SIZE = 125
names = (f"follow-{number}" for number in count())
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]


class Killed(Exception):  # noqa: N818  # what happened to it
    """The process ends here."""


class Followed:
    """A topic, and a table that follows it."""

    def __init__(
        self, spark: SparkSession, broker: SiltstoneProcess, root: Path, **wanted: Any
    ) -> None:
        self._spark = spark
        self._broker = broker
        self.topic = next(names)
        create_topic(broker.bootstrap, self.topic, partitions=2)
        self.spec = StreamSpec(
            topic=self.topic,
            target=f"parquet:{root}/table",
            checkpoint=root / "checkpoint",
            once=True,
            **wanted,
        )

    def produce(self, *numbers: int, size: int = 500) -> None:
        """Write records into both partitions."""
        for partition in (0, 1):
            for first in numbers:
                rows = numbered(size, first=first, partition=partition)
                produce(self._broker.bootstrap, self.topic, rows)

    def run(self) -> StreamSummary:
        """Follow the topic to its end."""
        options = {"maxOffsetsPerTrigger": str(BATCH)}
        if self.spec.via == "connector":
            options["bootstrap"] = self._broker.bootstrap
        else:
            options["data"] = str(self._broker.folder)
        return stream(self._spark, options, self.spec)

    def rows(self) -> list[dict[str, Any]]:
        """Return what is in the table."""
        return [
            row
            for path in open_table(self.spec.target).files()
            for row in pq.read_table(path, partitioning=None).to_pylist()
        ]


def test_killed_in_mid_batch(
    spark: SparkSession,
    pipeline_broker: SiltstoneProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However often it is killed before or after a commit, each offset comes once."""
    followed = Followed(spark, pipeline_broker, tmp_path, upsert=False)
    followed.produce(0, 500, size=SIZE)
    commit = ParquetTable.commit
    ends = iter(KILLS)

    def sometimes(self: ParquetTable, *arguments: Any, **named: Any) -> str:
        end = next(ends, "")
        if end == "before":
            raise Killed
        version = commit(self, *arguments, **named)
        if end == "after":
            raise Killed
        return version

    monkeypatch.setattr(ParquetTable, "commit", sometimes)
    followed.produce(2000, size=SIZE)
    kills = 0
    while True:
        try:
            followed.run()
            break
        except PySparkException:
            kills += 1

    found = sorted((row["partition"], row["offset"]) for row in followed.rows())
    end = 3 * SIZE
    assert kills == len(KILLS)
    assert found == [(partition, offset) for partition in (0, 1) for offset in range(end)]


@pytest.mark.parametrize(
    "via", ["siltstone", pytest.param("connector", marks=pytest.mark.connector)]
)
def test_table_of_last_values(
    spark: SparkSession, pipeline_broker: SiltstoneProcess, tmp_path: Path, via: str
) -> None:
    """The table has the last value of each key, after each run of the stream."""
    followed = Followed(spark, pipeline_broker, tmp_path, via=via)
    followed.produce(0, size=120)
    followed.run()
    followed.produce(60, size=120)
    records = [{"key": b"k%d" % number, "value": None, "partition": 0} for number in range(10)]
    produce(pipeline_broker.bootstrap, followed.topic, records)

    summary = followed.run()

    expected = {
        (partition, b"k%d" % number): b"v%d" % number
        for partition in (0, 1)
        for number in range(0 if partition else 10, 180)
    }
    rows = followed.rows()
    assert {(row["partition"], row["key"]): row["value"] for row in rows} == expected
    assert len(rows) == len(expected)
    assert summary.rows == 250
    assert open_table(followed.spec.target).state() is not None


def test_a_batch_has_a_limit_by_default(
    spark: SparkSession,
    pipeline_broker: SiltstoneProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without an option a backlog comes in several batches, by bytes of the log."""
    followed = Followed(spark, pipeline_broker, tmp_path)
    followed.produce(0, size=500)
    monkeypatch.setattr(stream_job, "_MAX_BYTES", "4k")

    summary = stream(spark, {"data": str(pipeline_broker.folder)}, followed.spec)

    assert summary.batches > 2
    assert summary.rows == len(followed.rows()) == 1000


def test_new_checkpoint_on_an_old_table(
    spark: SparkSession, pipeline_broker: SiltstoneProcess, tmp_path: Path
) -> None:
    """The table itself knows its offsets: a stream without its checkpoint adds nothing twice."""
    followed = Followed(spark, pipeline_broker, tmp_path, upsert=False)
    followed.produce(0, size=60)
    followed.run()
    followed.spec = StreamSpec(
        topic=followed.topic,
        target=followed.spec.target,
        checkpoint=tmp_path / "another",
        once=True,
        upsert=False,
    )

    summary = followed.run()

    assert summary.rows == 0
    assert summary.repeated == summary.batches
    assert len(followed.rows()) == 120


def test_a_table_that_another_writer_changed(
    spark: SparkSession, pipeline_broker: SiltstoneProcess, tmp_path: Path
) -> None:
    """A stream goes on above the snapshots of another writer, by the offsets below them."""
    followed = Followed(spark, pipeline_broker, tmp_path)
    followed.spec = replace(followed.spec, target=f"iceberg:{tmp_path}/w/table")
    followed.produce(0, size=60)
    followed.run()
    OtherWriter(followed.spec.target).rewrite()
    followed.produce(30, size=60)

    summary = followed.run()

    assert summary.rows == 120
    assert len(followed.rows()) == 180


def test_a_table_that_was_taken_away(
    spark: SparkSession, pipeline_broker: SiltstoneProcess, tmp_path: Path
) -> None:
    """A checkpoint goes on only with the table that has what came before it."""
    followed = Followed(spark, pipeline_broker, tmp_path)
    followed.produce(0, size=60)
    followed.run()
    shutil.rmtree(tmp_path / "table")
    followed.produce(60, size=60)

    with pytest.raises(PySparkException, match=r"nothing of the batches before, .*delete the"):
        followed.run()

    assert not (tmp_path / "table").exists()
