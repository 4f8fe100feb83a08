"""Stock Spark works unmodified: its own Kafka source and sink against our broker."""

from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as f

from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, numbered, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.connector,
    pytest.mark.java,
    pytest.mark.usefixtures("connector"),
    pytest.mark.timeout(300),
]

names = (f"connector-{number}" for number in count())
SECONDS = 200


@pytest.fixture
def topic(pipeline_broker: SiltstoneProcess) -> str:
    """A compacted topic of two partitions with 1000 records each, two a key."""
    name = next(names)
    config = {"cleanup.policy": "compact", "segment.bytes": "20000"}
    create_topic(pipeline_broker.bootstrap, name, partitions=2, config=config)
    for partition in range(2):
        for _ in range(2):
            produce(pipeline_broker.bootstrap, name, numbered(500, partition=partition))
    return name


def read(spark: "SparkSession", process: SiltstoneProcess, topic: str, **more: str) -> "DataFrame":
    """Return a topic as Spark's own source reads it."""
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", process.bootstrap)
        .option("subscribe", topic)
        .options(**more)
        .load()
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"minPartitions": "5"},
        {"maxRecordsPerPartition": "300"},
        {"kafka.isolation.level": "read_committed", "kafka.max.poll.records": "50000"},
        {"startingTimestamp": "1", "includeHeaders": "true"},
    ],
    ids=["plain", "minPartitions", "maxRecords", "committed", "timestamp"],
)
def test_both_sources_read_the_same(
    spark: "SparkSession", pipeline_broker: SiltstoneProcess, topic: str, options: dict[str, str]
) -> None:
    """A job moves over by changing the name of the format: rows and schema are equal."""
    stock = read(spark, pipeline_broker, topic, **options)
    ours = (
        spark.read.format("siltstone")
        .option("kafka.bootstrap.servers", pipeline_broker.bootstrap)
        .option("data", str(pipeline_broker.folder))
        .option("subscribe", topic)
        .options(**options)
        .load()
    )

    assert ours.dtypes == stock.dtypes
    assert stock.count() > 0
    order = ["partition", "offset"]
    assert ours.orderBy(order).collect() == stock.orderBy(order).collect()


def test_a_stock_stream_goes_on_from_its_checkpoint(
    spark: "SparkSession", pipeline_broker: SiltstoneProcess, topic: str, tmp_path: Path
) -> None:
    """Runs with a limit and a restart deliver every offset once."""
    for run in range(2):
        query = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", pipeline_broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", "700")
            .load()
            .select("partition", "offset")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "table"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS)
        if run == 0:
            more = numbered(20, first=500, partition=1)
            produce(pipeline_broker.bootstrap, topic, more)

    found = spark.read.parquet(str(tmp_path / "table"))
    counts = found.groupBy("partition").agg(f.count("*"), f.countDistinct("offset"))
    assert sorted(row[:] for row in counts.collect()) == [(0, 1000, 1000), (1, 1020, 1020)]


def test_the_stock_sink_writes_with_its_idempotent_producer(
    spark: "SparkSession", pipeline_broker: SiltstoneProcess, topic: str
) -> None:
    """Keys, values and headers that Spark writes are what both sources read back."""
    target = next(names)
    create_topic(pipeline_broker.bootstrap, target, partitions=2)
    rows = read(spark, pipeline_broker, topic).select(
        "key",
        "value",
        "partition",
        f.array(f.struct(f.lit("h").alias("key"), f.lit(b"x").alias("value"))).alias("headers"),
    )

    (
        rows.write.format("kafka")
        .option("kafka.bootstrap.servers", pipeline_broker.bootstrap)
        .option("topic", target)
        .option("includeHeaders", "true")
        .option("kafka.enable.idempotence", "true")
        .save()
    )

    written = read(spark, pipeline_broker, target, includeHeaders="true")
    assert written.exceptAll(written.where("headers[0].key = 'h'")).count() == 0
    chosen = ["key", "value", "partition"]
    assert written.select(chosen).exceptAll(rows.select(chosen)).count() == 0
    assert written.count() == rows.count()
