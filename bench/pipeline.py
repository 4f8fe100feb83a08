"""The pipeline against Spark's own Kafka connector: same topics, same session, one table.

    python -m bench.pipeline --records 4000000 --rounds 3
    python -m bench.pipeline --case "scan A" --rounds 1

Topic A has records of about 122 B in two partitions, B of 1 KiB, L is A compressed with lz4. The
connector reads with its default options and tuned as spark.md says; ours reads pinned segments.
Every case is run once to warm it up, and then ``--rounds`` times, sources in turn. Processor time
is that of the driver with all it has started, and of the broker. Needs a JDK and the connector's
jars (``make jars``).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import machine
from pipeline.engine import SparkEngine
from pipeline.jobs.audit import AuditSpec, audit
from pipeline.jobs.export import ExportSpec, export
from pipeline.jobs.replay import ReplaySpec, replay
from pipeline.jobs.snapshot import SnapshotSpec, snapshot
from pipeline.options import ReadOptions
from pipeline.pins import find_control, release_pin, take_pin
from pipeline.scan import scan
from pipeline.scanned import Scanned
from pipeline.session import open_session
from pipeline.transports import open_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEYS_OF = 10
"""Records of A for each of its keys."""
TUNED = {
    "kafka.max.poll.records": "50000",
    "kafka.receive.buffer.bytes": "4194304",
    "kafka.max.partition.fetch.bytes": "4194304",
}
TUNED_SINK = {"kafka.linger.ms": "5", "kafka.batch.size": "262144"}
CONNECTOR, TUNED_CONNECTOR, OURS, CLIENT = "connector", "connector tuned", "siltstone", "client"
TICKS = os.sysconf("SC_CLK_TCK")
BATCHES = 10


@dataclass(slots=True)
class Figure:
    """One case by one source: seconds of each round, and what they cost."""

    case: str
    source: str
    records: int
    bytes: int
    seconds: list[float] = field(default_factory=list)
    driver_cpu: list[float] = field(default_factory=list)
    broker_cpu: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def median(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.seconds)


class Bench:
    """A broker with its topics, a Spark session, and the cases."""

    def __init__(self, folder: Path, jars: list[Path], records: int) -> None:
        self.folder = folder
        self.records = records
        self.data = folder / "data"
        self._broker = start_broker(folder)
        self.bootstrap = address(folder, "PLAINTEXT")
        self.sizes: dict[str, int] = {}
        self.session: SparkSession = open_session("bench", master="local[2]", jars=jars)
        self.engine = SparkEngine(self.session)

    def fill(self) -> None:
        """Write the topics."""
        for topic, count, size, codec in (
            ("A", self.records, 100, "none"),
            ("B", self.records // 8, 1000, "none"),
            ("L", self.records, 100, "lz4"),
        ):
            fill(self.bootstrap, topic, count, size, codec)
            self.sizes[topic] = sum(
                path.stat().st_size for path in self.data.glob(f"{topic}-*/*.log")
            )

    def close(self) -> None:
        """Stop everything."""
        self.session.stop()
        self._broker.terminate()
        self._broker.wait()

    def read(self, source: str, topic: str) -> "DataFrame":
        """Return a topic as one of the sources gives it."""
        if source == OURS:
            options = {"data": str(self.data), "subscribe": topic}
            return self.session.read.format("siltstone").options(**options).load()
        options = {"kafka.bootstrap.servers": self.bootstrap, "subscribe": topic}
        options |= TUNED if source == TUNED_CONNECTOR else {}
        return self.session.read.format("kafka").options(**options).load()

    def cpu(self) -> tuple[float, float]:
        """Return the processor seconds of this process with its children, and of the broker."""
        return cpu_of_tree(os.getpid(), without=self._broker.pid), cpu_of_tree(self._broker.pid)


def cases(bench: Bench) -> Iterator[tuple[str, str, str, Callable[[], object]]]:
    """Yield case, topic, source and the work."""
    spark_sources = (CONNECTOR, TUNED_CONNECTOR, OURS)
    for topic in ("A", "B", "L"):
        for source in spark_sources:
            yield f"scan {topic}, all columns", topic, source, partial(noop, bench, source, topic)
    for source in spark_sources:
        yield "key and offset A", "A", source, partial(noop, bench, source, "A", "key", "offset")
        yield "count() A", "A", source, partial(count, bench, source)
    yield "scan A, all columns", "A", CLIENT, partial(consume, bench, "A")
    for source in (CONNECTOR, TUNED_CONNECTOR):
        yield "export A to Parquet", "A", source, partial(spark_export, bench, source)
        yield "snapshot A to Parquet", "A", source, partial(spark_snapshot, bench, source)
        yield "write A back", "A", source, partial(spark_write, bench, source)
    read = {"data": str(bench.data)}
    target = f"parquet:{bench.folder}/ours"
    yield (
        "export A to Parquet",
        "A",
        OURS,
        lambda: export(
            bench.engine, {**read, "subscribe": "A"}, ExportSpec(target=target, mode="overwrite")
        ),
    )
    for plan in ("partition", "shuffle"):
        spec = SnapshotSpec(topic="A", target=f"parquet:{bench.folder}/{plan}", plan=plan)
        source = OURS if plan == "partition" else f"{OURS}, shuffle"
        yield "snapshot A to Parquet", "A", source, partial(snapshot, bench.engine, read, spec)
    back = {**read, "bootstrap": bench.bootstrap, "transport": "pinned"}
    yield (
        "write A back",
        "A",
        OURS,
        lambda: replay(bench.engine, back, ReplaySpec(source="A", topic="back")),
    )
    for source in spark_sources:
        yield f"stream A, {BATCHES} batches", "A", source, partial(stream, bench, source)
    yield (
        "audit A",
        "A",
        OURS,
        lambda: audit(bench.engine, {**read, "subscribe": "A"}, AuditSpec()),
    )


def noop(bench: Bench, source: str, topic: str, *columns: str) -> None:
    """Read columns and throw them away in the JVM."""
    frame = bench.read(source, topic)
    if columns and source == OURS:
        options = {"data": str(bench.data), "subscribe": topic, "columns": ",".join(columns)}
        frame = bench.session.read.format("siltstone").options(**options).load()
    elif columns:
        frame = frame.select(*columns)
    frame.write.format("noop").mode("overwrite").save()


def count(bench: Bench, source: str) -> int:
    """Count the records."""
    return bench.read(source, "A").count()


def spark_export(bench: Bench, source: str) -> None:
    """Write all columns as Parquet by Spark."""
    path = str(bench.folder / "spark-export")
    bench.read(source, "A").write.mode("overwrite").parquet(path)


def spark_snapshot(bench: Bench, source: str) -> None:
    """Write the last value of each key as Parquet by Spark."""
    path = str(bench.folder / "spark-snapshot")
    frame = bench.read(source, "A")
    latest = frame.selectExpr("partition", "key", "struct(value, timestamp) AS row", "offset")
    latest = latest.groupBy("partition", "key").agg(
        *expressions("max_by(row, offset) AS row", "max(offset) AS offset")
    )
    latest = latest.selectExpr("key", "row.value", "partition", "offset", "row.timestamp")
    latest.where("value IS NOT NULL").write.mode("overwrite").parquet(path)


def expressions(*texts: str) -> list[Any]:
    """Return SQL expressions as columns."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  # beside its only use

    return [expr(text) for text in texts]


def spark_write(bench: Bench, source: str) -> None:
    """Write the topic back by Spark's Kafka sink."""
    frame = bench.read(source, "A").select("key", "value", "partition")
    options = {"kafka.bootstrap.servers": bench.bootstrap, "topic": "back"}
    options |= TUNED_SINK if source == TUNED_CONNECTOR else {}
    frame.write.format("kafka").options(**options).save()


def stream(bench: Bench, source: str) -> None:
    """Follow the topic to its end in some micro-batches, into Parquet."""
    place = bench.folder / "stream"
    shutil.rmtree(place, ignore_errors=True)
    if source == OURS:
        options = {"data": str(bench.data), "subscribe": "A"}
        reader = bench.session.readStream.format("siltstone")
    else:
        options = {"kafka.bootstrap.servers": bench.bootstrap, "subscribe": "A"}
        options |= TUNED if source == TUNED_CONNECTOR else {}
        reader = bench.session.readStream.format("kafka")
    options |= {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(-(-bench.records // BATCHES)),
    }
    query = (
        reader.options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(place / "table"))
    )
    query.awaitTermination()


def consume(bench: Bench, topic: str) -> None:
    """Read a topic by confluent-kafka with large queues, and look at each message."""
    consumer = Consumer(
        {
            "bootstrap.servers": bench.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "queued.max.messages.kbytes": 1 << 20,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    count = 0
    while count < bench.records:
        count += len([message.value() for message in consumer.consume(10_000, timeout=1.0)])
    consumer.close()


def time_window(bench: Bench) -> dict[str, Any]:
    """Return how much of the topic a window of one percent of its time reads."""
    view = _options(bench)
    with open_source(view) as source:
        partitions = source.view().partitions
    first, last = 1_700_000_000_000, 1_700_000_000_000 + bench.records - 1
    middle, width = (first + last) // 2, max(1, (last - first) // 100)
    times = {
        "timestampFrom": str(middle),
        "timestampTo": str(middle + width),
        "timestampOrder": "batch",  # as this topic is: no record is older than its batch's first
    }
    scanned = Scanned()
    began = time.perf_counter()
    with open_source(_options(bench, **times)) as source:
        splits = source.plan(source.view())
        rows = sum(
            batch.num_rows
            for split in splits
            for batch in scan(split, ("offset",), scanned=scanned)
        )
    total = sum(partition.size for partition in partitions)
    return {
        "case": "1 % time window of A",
        "rows": rows,
        "bytes_read": scanned.bytes_read,
        "share": scanned.bytes_read / total,
        "seconds": time.perf_counter() - began,
    }


def pin_many(bench: Bench, segments: int = 1000) -> dict[str, Any]:
    """Return how long a pin of many segments takes, from the request to the manifest."""
    topic = "segments"
    new = NewTopic(topic, 1, 1, config={"segment.bytes": "1000"})
    admin = AdminClient({"bootstrap.servers": bench.bootstrap})
    admin.create_topics([new])[topic].result(30)
    producer = Producer({"bootstrap.servers": bench.bootstrap, "linger.ms": 0})
    for _ in range(segments):
        producer.produce(topic, b"v" * 700)
        producer.flush(30)
    control = find_control(bench.data, None)
    seconds = []
    for _ in range(10):
        began = time.perf_counter()
        view = take_pin(control, [topic])
        seconds.append(time.perf_counter() - began)
        release_pin(control, view.pin)
    return {
        "case": f"pin of {len(view.partitions[0].segments)} segments",
        "ms_median": 1000 * statistics.median(seconds),
        "ms_first": 1000 * seconds[0],
        "ms_most": 1000 * max(seconds),
    }


def _options(bench: Bench, **options: str) -> ReadOptions:
    return ReadOptions.parse({"data": str(bench.data), "subscribe": "A", **options})


def measure(bench: Bench, rounds: int, wanted: str, seconds: float) -> list[Figure]:
    """Run the cases and return the figures of those that came to a round in time."""
    deadline = time.perf_counter() + seconds
    figures: dict[tuple[str, str], Figure] = {}
    work = {
        (case, source): (topic, run) for case, topic, source, run in cases(bench) if wanted in case
    }
    for number in range(rounds + 1):
        for (case, source), (topic, run) in work.items():
            if time.perf_counter() > deadline:
                return [figure for figure in figures.values() if figure.seconds]
            records = bench.records // 8 if topic == "B" else bench.records
            figure = figures.setdefault(
                (case, source), Figure(case, source, records, bench.sizes[topic])
            )
            before = bench.cpu()
            began = time.perf_counter()
            run()
            taken = time.perf_counter() - began
            after = bench.cpu()
            if number:  # the first one warms up
                figure.seconds.append(taken)
                figure.driver_cpu.append(after[0] - before[0])
                figure.broker_cpu.append(after[1] - before[1])
            print(f"{number}: {case}, {source}: {taken:.2f} s", file=sys.stderr)
    return list(figures.values())


def table(figures: list[Figure], others: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| case | source | s | M records/s | MB/s | CPU Spark, s | CPU broker, s | tuned / this |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    tuned = {each.case: each.median for each in figures if each.source == TUNED_CONNECTOR}
    for each in sorted(figures, key=lambda figure: figure.case):
        ratio = f"{tuned[each.case] / each.median:.2f} x" if each.case in tuned else ""
        lines.append(
            f"| {each.case} | {each.source} | {each.median:.2f} | "
            f"{each.records / each.median / 1e6:.2f} | {each.bytes / each.median / 1e6:.0f} | "
            f"{statistics.median(each.driver_cpu):.1f} | "
            f"{statistics.median(each.broker_cpu):.1f} | {ratio} |"
        )
    for other in others:
        facts = ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in other.items()
            if name != "case"
        )
        lines += ["", f"{other['case']}: {facts}."]
    return "\n".join(lines)


def fill(bootstrap: str, topic: str, count: int, size: int, codec: str) -> None:
    """Write a topic of two partitions, a record each millisecond, 2 % of them tombstones."""
    segment_bytes = max(1 << 20, count * size // 8)  # four segments a partition
    config = {"segment.bytes": str(segment_bytes), "retention.ms": "-1"}  # its times are old
    new = NewTopic(topic, 2, 1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(30)
    if topic == "A":
        admin.create_topics([NewTopic("back", 2, 1, config={"retention.ms": "-1"})])["back"].result(
            30
        )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 20,
            "batch.size": 16_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    text = b"the quick brown fox jumps over the lazy dog " * (1 + size // 44)
    keys = max(1, count // KEYS_OF)
    for number in range(count):
        key = b"user-%010d" % (number * 7919 % keys)
        value = None if number % 50 == 49 else b"%012d" % number + text[: size - 12]
        while True:
            try:
                producer.produce(
                    topic, value, key, number % 2, timestamp=1_700_000_000_000 + number
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush(120)


def start_broker(folder: Path) -> "subprocess.Popen[bytes]":
    """Start our broker on free ports and wait until it is ready."""
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "http.listener": "127.0.0.1:0",
        "log.dirs": str(folder / "data"),
    }
    sets = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [str(Path(sys.executable).with_name("siltstone")), "serve", *sets]
    with (folder / "broker.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    while b" ready " not in (folder / "broker.log").read_bytes():
        if process.poll() is not None:
            raise SystemExit((folder / "broker.log").read_text())
        time.sleep(0.05)
    return process


def address(folder: Path, listener: str) -> str:
    """Return where the broker listens, as its log says."""
    text = (folder / "broker.log").read_text()
    return text.partition(f"listener={listener} address=")[2].split()[0]


def cpu_of_tree(pid: int, without: int = 0) -> float:
    """Return the processor seconds of a process and of all that descend from it."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                facts = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(facts[1])
            ticks[int(entry.name)] = sum(int(each) for each in facts[11:15])
    total = 0
    for each, used in ticks.items():
        at = each
        while at not in {0, pid, without}:
            at = parents.get(at, 0)
        total += used if at == pid else 0
    return total / TICKS


def main() -> int:
    """Measure, print the table, and write it where it is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", default="", help="cases whose name has this in it")
    parser.add_argument("--seconds", type=float, default=3600.0, help="then no more is begun")
    parser.add_argument("--jars", type=Path, default=Path(".cache/connector-jars"))
    parser.add_argument("--out", type=Path, help="without its suffix: .md and .json are written")
    options = parser.parse_args()
    jars = sorted(options.jars.glob("*.jar"))
    with tempfile.TemporaryDirectory(prefix="siltstone-bench-") as folder:
        bench = Bench(Path(folder), jars, options.records)
        try:
            bench.fill()
            figures = measure(bench, options.rounds, options.case, options.seconds)
            others = [] if options.case else [time_window(bench), pin_many(bench)]
        finally:
            bench.close()
    text = table(figures, others)
    print(text)
    if options.out:
        facts = {
            **machine.facts(),
            "records": options.records,
            "rounds": options.rounds,
            "figures": [asdict(figure) for figure in figures],
            "others": others,
        }
        options.out.with_suffix(".json").write_text(json.dumps(facts, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
