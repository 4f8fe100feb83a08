"""The data source's readers, called as Spark calls them, without a Java."""

import pickle
from inspect import signature
from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import EqualTo, GreaterThanOrEqual, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from siltstone.pipeline.errors import BadOption, DataLost
from siltstone.pipeline.source.batch import FilteringReader
from siltstone.pipeline.source.datasource import SiltstoneSource
from siltstone.pipeline.source.stream import StreamReader, from_json
from tests.support.archives import Archive
from tests.support.batches import make_batch
from tests.support.clock import FakeClock

TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def schema_of(*columns: str) -> StructType:
    """Return a schema of columns, each as ``name type``: Spark reads DDL by its JVM alone."""
    return StructType(
        [
            StructField(name, TYPES[kind])
            for name, _, kind in (each.partition(" ") for each in columns)
        ]
    )


def source_of(archive: Archive, **options: str) -> SiltstoneSource:
    """Return the data source as Spark makes it."""
    return SiltstoneSource({"subscribe": "t", "archive": str(archive.root), **options})


def read(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    """Return the rows that tasks read, each in a process that got reader and split by pickle."""
    rows: list[dict[str, Any]] = []
    for partition in partitions:
        worker, split = through(reader), through(partition)
        for batch in worker.read(split):
            rows += batch.to_pylist()
    return rows


def through(sent: Any) -> Any:
    """Return what a worker gets of something that is sent to it."""
    return pickle.loads(cloudpickle.dumps(sent))  # type: ignore[no-untyped-call]


DEFAULT = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
HEADERS = "headers array<struct<key:string,value:binary>>"


def test_the_schema_follows_the_options(archive: Archive) -> None:
    """Headers come on request, and columns may be named."""
    assert source_of(archive).schema() == DEFAULT
    assert source_of(archive, includeHeaders="true").schema() == f"{DEFAULT}, {HEADERS}"
    assert source_of(archive, columns="offset,segment").schema() == "offset bigint, segment bigint"


@pytest.mark.parametrize(
    "columns",
    [(*DEFAULT.split(", "), "headers headers"), ("offset bigint",), ("value string", "key binary")],
    ids=["all", "offset", "text"],
)
def test_batches_have_exactly_the_types_that_spark_checks(
    archive: Archive, columns: tuple[str, ...]
) -> None:
    """Field names, types and nullability, those of lists and structs included."""
    archive.fill_plain(30)
    schema = schema_of(*columns)
    reader = source_of(archive).reader(schema)
    # Before Spark 4.2 it takes no time zone, which is UTC.
    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    zone: Any = {"timezone": "UTC"} if takes_zone else {}
    expected = to_arrow_schema(schema, **zone)

    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert isinstance(batch, pa.RecordBatch)
            assert expected.equals(batch.schema)


def test_tasks_read_what_was_planned(archive: Archive) -> None:
    """Reader and splits cross to workers, and together they read every record once."""
    archive.fill_plain(500, interval=0)
    reader = source_of(archive, splitBytes="2k").reader(schema_of("key string", "offset bigint"))
    partitions = reader.partitions()

    assert len(partitions) > 3
    assert read(reader, partitions) == [{"key": f"k{n}", "offset": n} for n in range(500)]


def test_a_task_reads_more_where_batch_headers_say_all(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How much is worth one follows from the columns, unless splitBytes says it."""
    monkeypatch.setattr("siltstone.pipeline.planning.plan._SPLIT_BYTES", 2_000)
    monkeypatch.setattr("siltstone.pipeline.planning.plan._HEADER_SPLIT_BYTES", 100_000)
    archive.fill_plain(500, interval=0)

    def tasks(column: str, **options: str) -> int:
        return len(source_of(archive, **options).reader(schema_of(column)).partitions())

    assert tasks("offset bigint") == 1
    assert tasks("key binary") > 3
    assert tasks("offset bigint", splitBytes="2k") > 3


def test_nothing_to_read_is_no_row(archive: Archive) -> None:
    """For an empty topic Spark asks with an empty partition of its own."""
    archive.fill([[]])
    reader = source_of(archive).reader(schema_of("offset bigint"))

    assert reader.partitions() == []
    assert list(reader.read(InputPartition(None))) == []


def test_filters_narrow_splits_and_rows(archive: Archive) -> None:
    """A filter that was taken from Spark is applied although it no longer filters itself."""
    archive.fill_plain(500)
    options = {"subscribe": "t", "archive": str(archive.root)}
    reader = FilteringReader(options, schema_of("key binary", "offset bigint"))

    left = reader.pushFilters([GreaterThanOrEqual(("offset",), 100), EqualTo(("key",), b"k123")])

    assert list(left) == []
    (partition,) = reader.partitions()
    assert partition.value.start_offset == 100
    assert read(reader, [partition]) == [{"key": b"k123", "offset": 123}]


def test_a_schema_of_other_types_is_refused(archive: Archive) -> None:
    """Before anything is read, with what the column is."""
    with pytest.raises(BadOption, match="column offset is bigint, not int"):
        source_of(archive).reader(schema_of("offset int"))


class TestStream:
    """A stream, step by step."""

    @staticmethod
    def reader(archive: Archive, **options: str) -> StreamReader:
        """Return a stream that begins at the start."""
        made = source_of(archive, startingOffsets="earliest", **options)
        return made.streamReader(schema_of("partition int", "offset bigint"))

    def test_micro_batches_follow_each_other(self, archive: Archive) -> None:
        """Each ends where the next begins, limits hold, and together they are all there is."""
        archive.fill_plain(100)
        archive.fill_plain(40, topic="t", partition=1)
        reader = self.reader(archive, maxOffsetsPerTrigger="30")
        at = reader.initialOffset()
        seen: list[tuple[int, int]] = []
        reader.prepareForTriggerAvailableNow()
        while (to := reader.latestOffset(at)) != at:
            rows = read(reader, reader.partitions(at, to))
            assert len(rows) <= 31
            seen += [(row["partition"], row["offset"]) for row in rows]
            at = to

        assert sorted(seen) == [(0, n) for n in range(100)] + [(1, n) for n in range(40)]

    def test_limits_where_spark_says_no_start(self, archive: Archive) -> None:
        """Spark 4.1 asks so: a batch is limited from the last planned one, in a new process too.

        As long as none is planned the answer stays; ``untilNow`` ends at the records of the start.
        """
        archive.fill_plain(100)
        reader = self.reader(archive, maxOffsetsPerTrigger="30", untilNow="true")
        at, ends = reader.initialOffset(), list[int]()
        while (to := reader.latestOffset()) != at:
            assert reader.latestOffset() == to
            reader.partitions(at, to)
            at = to
            ends += from_json(at).values()
            if len(ends) == 2:
                rmtree(archive.root)
                archive.fill_plain(150)
                reader = self.reader(archive, maxOffsetsPerTrigger="40")
                reader.partitions(at, at)  # as Spark begins in its checkpoint

        assert ends == [30, 60, 100, 140, 150]

    def test_a_run_until_now_leaves_later_records(self, archive: Archive) -> None:
        """Its end is that of the first look, however long the run takes."""
        archive.fill_plain(100)
        clock = FakeClock()
        options = {"subscribe": "t", "archive": str(archive.root), "startingOffsets": "earliest"}
        options |= {"untilNow": "true", "maxOffsetsPerTrigger": "60"}
        reader = StreamReader(options, schema_of("offset bigint"), clock)
        at, ends = reader.initialOffset(), list[int]()
        while (to := reader.latestOffset()) != at:
            reader.partitions(at, to)
            at = to
            ends += from_json(at).values()
            rmtree(archive.root)
            archive.fill_plain(300)
            clock.advance(60_000)

        assert ends == [60, 100]

    def test_spark_may_ask_for_all(self, archive: Archive) -> None:
        """With ``trigger(once=True)`` it does so, whatever limit the options set."""
        datasource = pytest.importorskip("pyspark.sql.streaming.datasource")  # 4.1 has none
        archive.fill_plain(100)
        reader = self.reader(archive, maxOffsetsPerTrigger="30")
        start, limit = reader.initialOffset(), reader.getDefaultReadLimit()

        assert limit == datasource.ReadMaxRows(30)
        assert list(from_json(reader.latestOffset(start, limit)).values()) == [30]
        everything = reader.latestOffset(start, datasource.ReadAllAvailable())
        assert list(from_json(everything).values()) == [100]

    def test_a_replayed_micro_batch_is_the_same(self, archive: Archive) -> None:
        """The records follow from the two offsets alone, in a new process too."""
        archive.fill_plain(100)
        first = self.reader(archive, maxOffsetsPerTrigger="37")
        start = first.initialOffset()
        end = first.latestOffset(start)

        rows = read(first, first.partitions(start, end))
        again = self.reader(archive)

        assert len(rows) == 37
        assert read(again, again.partitions(start, end)) == rows

    def test_what_retention_took_is_data_loss(self, archive: Archive) -> None:
        """A stream that was away for too long says so, or goes on with what is left."""
        archive.fill_plain(100)
        start = self.reader(archive).initialOffset()
        (archive.root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 60\n")
        strict, lenient = self.reader(archive), self.reader(archive, failOnDataLoss="false")
        end = lenient.latestOffset(start)

        with pytest.raises(DataLost, match="offset 0 of t-0 is gone: the log has 60 to 100"):
            strict.partitions(start, end)

        assert len(read(lenient, lenient.partitions(start, end))) == 40

    def test_a_new_partition_begins_at_its_start(self, archive: Archive) -> None:
        """Partitions that are added while the stream rests are read whole."""
        archive.fill_plain(10)
        before = self.reader(archive)
        at = before.latestOffset(before.initialOffset())
        archive.fill([[make_batch(5)]], partition=1)
        after = self.reader(archive)
        to = after.latestOffset(at)

        assert read(after, after.partitions(at, to)) == [
            {"partition": 1, "offset": n} for n in range(5)
        ]
