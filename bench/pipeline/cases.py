"""The case: one piece of work, by Spark's connector, by ours, and by a plain consumer."""

from __future__ import annotations

import shutil
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from bench.pipeline.filling import BACK, FIRST_MS, LZ4, MANY, A, B
from bench.pipeline.home import CLIENT, CONNECTOR, FETCH, OURS, SHUFFLE, TUNED
from siltstone.pipeline.client.pins import find_control, release_pin, take_pin
from siltstone.pipeline.jobs.audit import AuditSpec, audit
from siltstone.pipeline.jobs.export import ExportSpec, export
from siltstone.pipeline.jobs.replay import ReplaySpec, replay
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, snapshot
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.transports import open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from bench.pipeline.filling import Topic
    from bench.pipeline.home import Home

ALL: Final = "A, all columns"
LARGE: Final = "B, all columns"
COMPRESSED: Final = "A-lz4, all columns"
KEYS: Final = "A, key and offset"
OFFSETS: Final = "A, offsets alone"
COUNT: Final = "A, count()"
EXPORT: Final = "A to Parquet"
SNAPSHOT: Final = "A, last values to Parquet"
STREAM: Final = "A, stream of 10 batches"
WRITE: Final = "A back into a topic"
AUDIT: Final = "A, audit"
WINDOW: Final = "A, 1 % of its time"
PIN: Final = "pin of 1,000 segments"

MILLISECONDS: Final = "ms"
SHARE: Final = "share of the bytes"
_BATCHES: Final = 10
_PINS: Final = 5
_TUNED_SINK: Final = {"kafka.linger.ms": "5", "kafka.batch.size": "262144"}
_SPARK: Final = (CONNECTOR, TUNED, OURS)


class Case(NamedTuple):
    """One piece of work on a topic by several sources; a figure that it returns is what counts."""

    name: str
    topic: Topic | None
    works: Mapping[str, Callable[[], Any]]


def cases(home: Home) -> Iterator[Case]:
    """Yield all cases."""
    for name, topic in ((ALL, A), (LARGE, B), (COMPRESSED, LZ4)):
        sources = (*_SPARK, FETCH) if topic is A else _SPARK
        works = {each: partial(scan_all, home, each, topic.name) for each in sources}
        if topic is A:
            works[CLIENT] = partial(consume, home)
        yield Case(name, topic, works)
    for name, columns in ((KEYS, ("key", "offset")), (OFFSETS, ("offset",))):
        yield Case(
            name, A, {each: partial(scan_all, home, each, A.name, *columns) for each in _SPARK}
        )
    yield Case(COUNT, A, {each: partial(count, home, each) for each in _SPARK})
    yield Case(EXPORT, A, _beside(home, spark_export) | {OURS: partial(our_export, home)})
    plans = {OURS: "partition", SHUFFLE: "shuffle"}
    ours = {each: partial(our_snapshot, home, plan) for each, plan in plans.items()}
    yield Case(SNAPSHOT, A, _beside(home, spark_snapshot) | ours)
    yield Case(WRITE, A, _beside(home, spark_write) | {OURS: partial(our_replay, home)})
    yield Case(STREAM, A, {each: partial(stream, home, each) for each in _SPARK})
    yield Case(AUDIT, A, {OURS: partial(our_audit, home)})
    yield Case(WINDOW, A, {OURS: partial(time_window, home)})
    yield Case(PIN, None, {OURS: partial(pin_many, home)})


def scan_all(home: Home, source: str, topic: str, *columns: str) -> None:
    """Read all columns or some, and throw them away in the JVM."""
    home.read(source, topic, *columns).write.format("noop").mode("overwrite").save()


def count(home: Home, source: str) -> None:
    """Count the records: ours is asked for a column that headers know, the connector prunes."""
    columns = ("partition",) if source == OURS else ()
    found = home.read(source, A.name, *columns).count()
    if found != home.records:
        raise RuntimeError(f"{source} counts {found} records of {home.records}")


def consume(home: Home) -> None:
    """Read by confluent-kafka with large queues, and look at each message."""
    consumer = Consumer(
        {
            "bootstrap.servers": home.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(A.name, number, 0) for number in range(2)])
    found = 0
    while found < home.records:
        found += len([message.value() for message in consumer.consume(10_000, timeout=1.0)])
    consumer.close()


def spark_export(home: Home, source: str) -> None:
    """Write all columns as Parquet by Spark."""
    path = str(home.folder / "spark-export")
    home.read(source, A.name).write.mode("overwrite").parquet(path)


def our_export(home: Home) -> None:
    """Write all columns as Parquet within the tasks."""
    spec = ExportSpec(target=f"parquet:{home.new_folder('export')}")
    export(home.engine, home.options(OURS, A.name), spec)


def spark_snapshot(home: Home, source: str) -> None:
    """Write the last value of each key as Parquet by Spark, after a shuffle."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  # beside its only use

    frame = home.read(source, A.name)
    latest = frame.selectExpr("partition", "key", "struct(value, timestamp) AS row", "offset")
    latest = latest.groupBy("partition", "key").agg(
        expr("max_by(row, offset) AS row"), expr("max(offset) AS offset")
    )
    latest = latest.selectExpr("key", "row.value", "partition", "offset", "row.timestamp")
    path = str(home.folder / "spark-snapshot")
    latest.where("value IS NOT NULL").write.mode("overwrite").parquet(path)


def our_snapshot(home: Home, plan: str) -> None:
    """Write the same by one of our plans."""
    spec = SnapshotSpec(topic=A.name, target=f"parquet:{home.new_folder(plan)}", plan=plan)
    snapshot(home.engine, {"data": str(home.data)}, spec)


def spark_write(home: Home, source: str) -> None:
    """Write the topic back by Spark's Kafka sink."""
    frame = home.read(source, A.name).select("key", "value", "partition")
    options = {"kafka.bootstrap.servers": home.bootstrap, "topic": BACK}
    options |= _TUNED_SINK if source == TUNED else {}
    frame.write.format("kafka").options(**options).save()


def our_replay(home: Home) -> None:
    """Write it back by our job, with its times."""
    options = {"data": str(home.data), "bootstrap": home.bootstrap, "transport": "pinned"}
    replay(home.engine, options, ReplaySpec(source=A.name, topic=BACK))


def stream(home: Home, source: str) -> None:
    """Follow the topic to its end in ten micro-batches, into Parquet."""
    place = home.folder / "stream"
    shutil.rmtree(place, ignore_errors=True)
    most = str(-(-home.records // _BATCHES))
    reader = home.stream(source, A.name, startingOffsets="earliest", maxOffsetsPerTrigger=most)
    writer = reader.load().writeStream.format("parquet").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    writer.start(str(place / "table")).awaitTermination()


def our_audit(home: Home) -> None:
    """Look at every batch, record and index entry."""
    summary = audit(home.engine, home.options(OURS, A.name), AuditSpec())
    if summary.faults:
        raise RuntimeError(f"the audit finds faults: {summary}")


def time_window(home: Home) -> dict[str, float]:
    """Read a window of one percent of the topic's time; return how many of its bytes that was."""
    middle, width = FIRST_MS + home.records // 2, max(1, home.records // 100)
    times = {
        "timestampFrom": str(middle),
        "timestampTo": str(middle + width),
        "timestampOrder": "batch",  # as this topic is: no record is older than its batch's first
    }
    scanned = Scanned()
    rows = 0
    with open_source(ReadOptions.parse(home.options(OURS, A.name) | times)) as source:
        for split in source.plan(source.view()):
            rows += sum(batch.num_rows for batch in scan(split, ("offset",), scanned=scanned))
    if rows != width:
        raise RuntimeError(f"{rows} records are in a window of {width}")
    return {SHARE: scanned.bytes_read / home.size_of(A.name)}


def pin_many(home: Home) -> dict[str, float]:
    """Pin a thousand segments a few times; return what one takes, from request to manifest."""
    control = find_control(home.data)
    milliseconds = []
    for _ in range(_PINS):
        began = time.perf_counter()
        view = take_pin(control, [MANY])
        milliseconds.append(1000 * (time.perf_counter() - began))
        release_pin(control, view.pin)
    return {MILLISECONDS: statistics.median(milliseconds)}


def _beside(home: Home, work: Callable[[Home, str], None]) -> dict[str, Callable[[], Any]]:
    return {each: partial(work, home, each) for each in (CONNECTOR, TUNED)}
