"""The data source in a real session, batch by batch against what a stock client has written."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from tests.support.archives import Archive, damage
from tests.support.batches import make_batch
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

START = 1_700_000_000_000
COUNT = 2000

Load = Callable[..., "DataFrame"]


@pytest.fixture(scope="module")
def rows(pipeline_broker: SiltstoneProcess) -> SiltstoneProcess:
    """The broker with ``rows``: two partitions, a record a second, every tenth a tombstone."""
    bootstrap = pipeline_broker.bootstrap
    config = {"segment.bytes": "20000", "cleanup.policy": "delete", "retention.ms": "-1"}
    create_topic(bootstrap, "rows", partitions=2, config=config)
    made = [
        {
            "key": b"k%d" % (number % 100),
            "value": None if number % 10 == 0 else b"v%d" % number,
            "partition": number % 2,
            "timestamp": START + number * 1000,
            "headers": [("n", b"%d" % number)] if number % 2 else None,
        }
        for number in range(COUNT)
    ]
    for first in range(0, COUNT, 200):
        produce(bootstrap, "rows", made[first : first + 200], **{"compression.type": "lz4"})
    return pipeline_broker


@pytest.fixture
def load(spark: "SparkSession", rows: SiltstoneProcess) -> Load:
    """Read ``rows`` with options, through a pin unless they say otherwise."""

    def load(schema: str | StructType | None = None, **options: str) -> "DataFrame":
        reader = spark.read.format("siltstone").option("subscribe", "rows")
        reader = reader.option("data", str(rows.folder)).options(**options)
        return (reader.schema(schema) if schema is not None else reader).load()

    return load


def test_the_schema_is_that_of_sparks_kafka_source(load: Load) -> None:
    """Columns have the names and types that jobs for format("kafka") know."""
    assert load(includeHeaders="true").dtypes == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]


def test_every_record_is_a_row(load: Load) -> None:
    """Key, value, place, time and headers are those that were written."""
    found = load(includeHeaders="true", splitBytes="10k").orderBy("timestamp").collect()

    assert len(found) == COUNT
    for number, row in enumerate(found):
        assert bytes(row.key) == b"k%d" % (number % 100)
        assert (row.value is None) == (number % 10 == 0)
        assert (row.topic, row.partition, row.offset) == ("rows", number % 2, number // 2)
        assert row.timestamp.timestamp() * 1000 == START + number * 1000
        assert (row.headers is None) == (number % 2 == 0)


@pytest.mark.parametrize("transport", ["pinned", "fetch"])
def test_count_and_sum(load: Load, rows: SiltstoneProcess, transport: str) -> None:
    """Each transport gives the same aggregate."""
    found = load(transport=transport, **{"kafka.bootstrap.servers": rows.bootstrap})

    (sums,) = found.agg(f.count("*"), f.count("value"), f.sum("offset")).collect()
    assert sums[:] == (COUNT, COUNT * 9 // 10, 2 * sum(range(COUNT // 2)))


def test_a_schema_of_fewer_columns_prunes(load: Load) -> None:
    """The user's schema chooses columns, also none at all, and their order."""
    assert load("offset bigint, key string").columns == ["offset", "key"]
    assert load("offset bigint").count() == COUNT
    assert load(StructType([])).count() == COUNT
    assert load(columns="topic,isTombstone").where("isTombstone").count() == COUNT // 10


def test_keys_and_values_as_text(load: Load) -> None:
    """A schema that asks for strings gets them."""
    found = load("key string, value string, offset bigint").where("offset = 1").orderBy("key")

    assert [row[:] for row in found.collect()] == [("k2", "v2", 1), ("k3", "v3", 1)]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("offset >= 10 AND offset < 15", 10),
        ("offset = 7 AND partition = 1", 1),
        ("offset IN (1, 2, 3)", 6),
        ("partition = 0", COUNT // 2),
        ("partition IN (1, 7)", COUNT // 2),
        ("topic = 'rows'", COUNT),
        ("topic = 'others'", 0),
        ("timestamp >= '2023-11-14 22:13:30' AND timestamp < '2023-11-14 22:13:40'", 10),
        ("timestamp > '2023-11-14 22:13:30.5' AND timestamp <= '2023-11-14 22:13:40.5'", 10),
        ("timestamp = '2023-11-14 22:13:30'", 1),
        ("key = 'k33'", COUNT // 100),
        ("key IN ('k1', 'k2', 'nobody')", COUNT // 50),
        ("value IS NULL", COUNT // 10),
        ("value IS NOT NULL AND offset < 10", 18),
        ("offset < 5 OR partition = 9", 10),
        ("NOT (offset >= 5)", 10),
    ],
)
def test_filters_are_the_same_pushed_down_or_not(load: Load, condition: str, expected: int) -> None:
    """Work that is done before rows cross changes no answer."""
    pushed = load(splitBytes="5k").where(condition)
    plain = load(filterPushdown="false").where(condition)

    assert pushed.count() == expected
    assert plain.count() == expected


def test_filters_are_taken(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark has nothing left to filter where all was pushed down."""
    load().where("offset >= 10 AND partition = 0 AND key = 'k4'").explain()
    pushed = capsys.readouterr().out
    load(filterPushdown="false").where("offset >= 10").explain()
    plain = capsys.readouterr().out

    assert "Filter" not in pushed.replace("RuntimeFilters", "")
    assert "Filter (" in plain


def test_offsets_and_times_by_option(load: Load) -> None:
    """startingOffsets, endingOffsets and times narrow a read as in Spark's own source."""
    by_offset = load(
        startingOffsets='{"rows":{"0":-2,"1":990}}', endingOffsets='{"rows":{"0":5,"1":-1}}'
    )
    by_time = load(startingTimestamp=str(START + 100_000), endingTimestamp=str(START + 110_000))

    counts = by_offset.groupBy("partition").count().orderBy("partition")
    assert [row[:] for row in counts.collect()] == [(0, 5), (1, 10)]
    assert by_time.count() == 10


def test_virtual_columns_tell_of_the_files(load: Load) -> None:
    """Segment, position and batch of each record come on request."""
    found = load(columns="segment,position,batchOffset,offset,producerId,partition").where(
        "partition = 0"
    )
    rows = found.orderBy("offset").collect()

    assert all(row.segment <= row.batchOffset <= row.offset for row in rows)
    assert len({row.position for row in rows}) > 1


def test_latest_per_key_in_sql(spark: "SparkSession", load: Load) -> None:
    """The commonest query over a compacted topic is plain SQL."""
    load().createOrReplaceTempView("rows")

    found = spark.sql(
        "SELECT key, max_by(value, offset) AS value FROM rows GROUP BY key HAVING value IS NOT NULL"
    )

    assert found.count() == 90


def test_a_join_of_a_topic_with_itself(load: Load) -> None:
    """Two scans of one query read the same rows."""
    found = load("key binary, offset bigint, partition int")
    joined = found.alias("a").join(found.alias("b"), ["key", "offset", "partition"])

    assert joined.count() == COUNT


def test_writing_a_table_from_a_topic(load: Load, tmp_path: Any) -> None:
    """Rows that are read can be written by Spark itself."""
    load().write.parquet(str(tmp_path / "table"))

    assert load().sparkSession.read.parquet(str(tmp_path / "table")).count() == COUNT


def test_an_archive_needs_no_broker(spark: "SparkSession", archive: Archive) -> None:
    """A folder at rest is a table, and an empty topic is an empty one."""
    archive.fill_plain(1000)
    archive.fill([[]], topic="empty")
    reader = spark.read.format("siltstone").option("archive", str(archive.root))

    assert reader.option("subscribe", "t").load().count() == 1000
    assert reader.option("subscribe", "empty").load().count() == 0


@pytest.mark.parametrize(
    ("options", "schema", "sentence"),
    [
        ({"subscribe": "nobody"}, None, "there is no topic nobody"),
        ({"subscribe": "t", "startingoffset": "1"}, None, "did you mean startingOffsets"),
        ({"subscribe": "t"}, "offset string", "column offset is bigint, not string"),
        ({"subscribe": "t"}, "key string", "bytes that are not UTF-8; read it as binary"),
        ({}, None, "name the topics by exactly one of"),
        ({"subscribe": "damaged"}, None, "at position 0: its checksum is wrong"),
    ],
)
def test_faults_are_sentences(
    spark: "SparkSession",
    archive: Archive,
    options: dict[str, str],
    schema: str | None,
    sentence: str,
) -> None:
    """A fault in a worker reaches the user with its place and the next step."""
    archive.fill([[make_batch([(b"\xff", b"v")])]])
    damage(next(archive.fill([[make_batch(1)]], topic="damaged").glob("*.log")), 70)
    reader = spark.read.format("siltstone").option("archive", str(archive.root)).options(**options)

    with pytest.raises(PySparkException, match=sentence):
        (reader.schema(schema) if schema else reader).load().collect()


def test_a_job_for_kafka_moves_over(load: Load, rows: SiltstoneProcess) -> None:
    """Options that only the connector obeys do no harm."""
    found = load(
        minPartitions="4",
        groupIdPrefix="x",
        **{
            "kafka.bootstrap.servers": rows.bootstrap,
            "kafka.max.poll.records": "5000",
            "fetchOffset.numRetries": "5",
            "maxOffsetsPerTrigger": "10",
        },
    )

    assert found.select(f.spark_partition_id()).distinct().count() >= 4
    assert found.count() == COUNT


def test_a_topic_is_a_view_in_sql(spark: "SparkSession", archive: Archive) -> None:
    """A table of the catalog is refused: Spark would read it without its options."""
    archive.fill_plain(1000)
    using = f"USING siltstone OPTIONS (archive '{archive.root}', subscribe 't')"
    spark.sql(f"CREATE TEMPORARY VIEW topic_t {using}")

    assert spark.sql("SELECT max(offset) AS last FROM topic_t").collect()[0].last == 999
    with pytest.raises(PySparkException, match="say CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE table_t {using}")
