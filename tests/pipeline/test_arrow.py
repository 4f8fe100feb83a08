"""Topics for readers beyond Spark: rows, filters, and what a reader holds while it lives."""

import gc
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyarrow.parquet import filters_to_expression

from siltstone.pipeline.arrow import scan
from siltstone.pipeline.client import pins, watch
from siltstone.pipeline.client.pins import find_control, release_pin
from siltstone.pipeline.columns import STANDARD, TYPES
from siltstone.pipeline.errors import BadOption, SourceUnavailable
from tests.support.archives import Archive, damage
from tests.support.batches import make_batch
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, numbered, produce
from tests.support.programs import output_of
from tests.support.waiting import PATIENCE, wait_until

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "5000"}
KEPT = {"retention.ms": "-1"}
Row = dict[str, Any]


class Served(NamedTuple):
    """A running broker, the rows of its topics by a stock consumer, and a copy of its folder."""

    process: SiltstoneProcess
    rows: Mapping[str, list[Row]]
    copy: Path

    def options(self, transport: str) -> dict[str, str]:
        """Return where to read by a transport."""
        place = {
            "pinned": {"data": str(self.process.folder)},
            "archive": {"archive": str(self.copy)},
            "fetch": {"bootstrap": self.process.bootstrap},
        }
        return {"transport": transport, **place[transport]}

    def pins(self, topic: str) -> list[dict[str, Any]]:
        """Return the pins of a topic."""
        pins = find_control(self.process.folder).ask("GET", "/v1/pins")["pins"]
        return [pin for pin in pins if topic in pin["topics"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker with a topic of each kind."""
    root = tmp_path_factory.mktemp("arrow")
    process = SiltstoneProcess(root / "broker").start()
    for codec in CODECS:
        create_topic(process.bootstrap, codec, partitions=2, config=KEPT)
        produce(process.bootstrap, codec, shapes(300), **{"compression.type": codec})
    create_topic(process.bootstrap, "stamped", config={"message.timestamp.type": "LogAppendTime"})
    produce(process.bootstrap, "stamped", numbered(50))
    create_topic(process.bootstrap, "transactions", config={"segment.bytes": "5000"})
    fill_by_transactions(process.bootstrap)
    create_topic(process.bootstrap, "compacted", partitions=2, config=COMPACTED)
    for _ in range(3):
        produce(process.bootstrap, "compacted", [*numbered(200), *numbered(100, partition=1)])
    assert process.run("clean", "compacted", "--wait", "--roll", "--force").returncode == 0
    create_topic(process.bootstrap, "empty")
    names = [*CODECS, "stamped", "transactions", "compacted", "empty"]
    rows = {name: consume(process.bootstrap, name) for name in names}
    process.stop()
    shutil.copytree(process.folder, root / "copy")
    yield Served(process.start(), rows, root / "copy")
    process.close()


def shapes(count: int) -> Iterator[Row]:
    """Yield records of every shape for two partitions; their times are not in order."""
    for number in range(count):
        yield {
            "key": None if number % 11 == 0 else b"k%d" % (number % 40),
            "value": None if number % 7 == 0 else b"v%d" % number * (number % 5),
            "partition": number % 2,
            "timestamp": 1_700_000_000_000 + number * 7919 % 100_000,
            "headers": [("h", b"x"), ("n", None), ("h", b"")] if number % 3 == 0 else [],
        }


def fill_by_transactions(bootstrap: str) -> None:
    """Write transactions, every second one aborted and the last one open."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": "t",
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(PATIENCE)
    for number in range(9):
        producer.begin_transaction()
        for _ in range(40):
            producer.produce("transactions", b"%d" % number, partition=0)
        producer.flush(PATIENCE)
        if number == 8:
            return
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(PATIENCE)


def consume(bootstrap: str, topic: str) -> list[Row]:
    """Return the committed records as a stock consumer gets them, as rows of Arrow."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "plain",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed",
        }
    )
    numbers = set(consumer.list_topics(topic).topics[topic].partitions)
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    found: list[Row] = []
    while numbers:
        message = consumer.poll(PATIENCE)
        assert message is not None
        if message.error():
            numbers.discard(message.partition() or 0)
            continue
        kind, milliseconds = message.timestamp()
        headers: Any = message.headers()
        found.append(
            {
                "key": message.key(),
                "value": message.value(),
                "topic": topic,
                "partition": message.partition(),
                "offset": message.offset(),
                "timestamp": EPOCH + timedelta(milliseconds=milliseconds),
                "timestampType": kind - 1,
                "headers": headers and [{"key": key, "value": value} for key, value in headers],
            }
        )
    consumer.close()
    return sorted(found, key=lambda row: (row["partition"], row["offset"]))


@pytest.mark.slow
@pytest.mark.client
@pytest.mark.parametrize("transport", ["pinned", "archive", "fetch"])
def test_rows_are_those_of_a_plain_consumer(served: Served, transport: str) -> None:
    """Keys, values, places, times and headers of each kind of topic, in order."""
    place = served.options(transport)

    for topic, rows in served.rows.items():
        found = scan(topic, includeHeaders=True, splitBytes="4k", **place).read_all().to_pylist()
        assert found == rows, topic
    several = scan("gzip, lz4", columns=["topic", "offset"], **place).read_all()
    assert several.num_rows == len(served.rows["gzip"]) + len(served.rows["lz4"])
    assert len(served.rows["compacted"]) < 500
    assert served.pins("gzip") == []


@pytest.mark.client
def test_transactions_that_were_not_committed_are_read_on_request(served: Served) -> None:
    """The default is what applications see; Spark's own source has the other default."""
    place = served.options("pinned")
    all_rows = scan("transactions", isolation="read_uncommitted", **place).read_all()

    assert len(served.rows["transactions"]) == 4 * 40
    assert all_rows.num_rows == 9 * 40


@pytest.mark.client
@pytest.mark.parametrize("end", ["exhausted", "closed", "collected", "unread", "with"])
def test_a_pin_is_released_with_its_reader(served: Served, end: str) -> None:
    """It is taken by the call; a reader that nobody has read holds one, too."""
    reader = scan("none", maxRecordsPerPartition=50, **served.options("pinned"))
    assert len(served.pins("none")) == 1

    if end == "exhausted":
        list(reader)
    elif end == "closed":
        reader.read_next_batch()
        reader.close()
    elif end == "with":
        with reader:
            reader.read_next_batch()
    else:
        if end == "collected":
            reader.read_next_batch()
        del reader

    assert served.pins("none") == []


@pytest.mark.client
def test_a_pin_is_renewed_while_its_reader_lives(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may take long between two batches."""
    monkeypatch.setattr(pins, "_RENEWALS_PER_LEASE", 20)
    reader = scan("none", pinLeaseMs=10_000, **served.options("pinned"))
    seen = [served.pins("none")[0]["expires_in_ms"]]

    def left() -> Any:
        (pin,) = served.pins("none")
        seen.append(pin["expires_in_ms"])
        return seen[-1] - seen[-2]

    wait_until(left, "a renewal", lambda more: more > 0)
    reader.close()


@pytest.mark.client
@pytest.mark.parametrize("module", [pins, watch])
def test_a_reader_may_be_collected_by_the_thread_that_renews_its_pin(
    served: Served, module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python collects a cycle in any thread; this one cannot wait for itself."""
    monkeypatch.setattr(module, "extend_pin", lambda *_: gc.collect())
    monkeypatch.setattr(watch, "BEAT_SECONDS", 0.1)
    cycle: list[Any] = [
        scan("none", pinLeaseMs=60_000 if module is watch else 400, **served.options("pinned"))
    ]
    cycle[0].read_next_batch()
    cycle.append(cycle)
    gc.disable()
    try:
        del cycle
        wait_until(lambda: served.pins("none"), "its pin's end", lambda found: not found)
    finally:
        gc.enable()


@pytest.mark.client
def test_a_moment_that_is_lost_ends_the_read(served: Served) -> None:
    """Values of a compacted topic may be gone with the pin; rows so far are no answer."""
    reader = scan("compacted", splitBytes="1k", **served.options("pinned"))
    reader.read_next_batch()
    (pin,) = served.pins("compacted")
    release_pin(find_control(served.process.folder), pin["id"])

    with pytest.raises(pa.ArrowInvalid, match=r"^[^\n]*\bpin\b"):
        reader.read_all()


@pytest.mark.client
def test_the_end_of_a_process_releases_its_pins(served: Served) -> None:
    """A script may end with a reader that is not read to its end; nothing is complained of."""
    program = (
        "import sys; from siltstone.pipeline.arrow import scan\n"
        "reader = scan('none', data=sys.argv[1], maxRecordsPerPartition=50)\n"
        "reader.read_next_batch()"
    )

    said = output_of(["sh", "-c", '"$@" 2>&1', "-", *python(program, str(served.process.folder))])

    assert said == ""
    assert served.pins("none") == []


def python(program: str, *arguments: str) -> list[str]:
    """Return a command that runs a program."""
    return [sys.executable, "-c", program, *arguments]


NEEDLESS = ("pyspark", "py4j", "pandas", "numpy", "deltalake", "pyiceberg", "confluent_kafka")
ALONE = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NEEDLESS}:
            raise ImportError(name + " is not installed")
sys.meta_path.insert(0, Finder())
from siltstone.pipeline.arrow import scan
wanted = [("offset", ">=", 10), ("timestamp", "not in", [])]
print(scan("t", archive=sys.argv[1], filters=wanted).read_all().num_rows)
"""


def test_neither_spark_nor_java_is_needed(archive: Archive, tmp_path: Path) -> None:
    """The extra has pyarrow alone."""
    archive.fill_plain(30)

    said = output_of(python(ALONE, str(archive.root)), env={"PATH": str(tmp_path)})

    assert said == "20\n"


def read(archive: Archive, **options: Any) -> pa.Table:
    """Return a table of the archive's topics."""
    return scan(**{"subscribePattern": ".*", "archive": str(archive.root), **options}).read_all()


def test_columns_are_those_of_the_spark_source(archive: Archive) -> None:
    """Headers come on request; without columns rows can be counted."""
    archive.fill_plain(30)

    assert read(archive).column_names == list(STANDARD)
    assert read(archive, includeHeaders=True).column_names == [*STANDARD, "headers"]
    assert read(archive, columns=["value", "segment"]).schema == pa.schema(
        [("value", pa.binary()), ("segment", pa.int64())]
    )
    assert read(archive, columns=[]).num_rows == 30


KEYS = (None, b"", b"a", b"b", b"\xff")
TIMES = (0, 1_700_000_000_000, 1_700_000_000_001, 1_700_000_100_000)
VALUES: Mapping[str, Callable[[random.Random], Any]] = {
    "topic": lambda draw: draw.choice(["s", "t", "u"]),
    "partition": lambda draw: draw.randrange(-1, 3),
    "offset": lambda draw: draw.choice([draw.randrange(-3, 130), draw.uniform(0, 100)]),
    "timestamp": lambda draw: (
        EPOCH + timedelta(milliseconds=draw.choice(TIMES), microseconds=draw.choice([0, 0, -1, 1]))
    ),
    "timestampMs": lambda draw: draw.choice(TIMES) + draw.choice([0, -1, 1]),
    "key": lambda draw: draw.choice([*KEYS[1:], "a"]),
    "value": lambda draw: draw.choice([b"v1", b"w", "v2"]),
    "timestampType": lambda draw: draw.randrange(2),
}


def draw_condition(draw: random.Random) -> tuple[str, str, Any]:
    """Return a random condition."""
    column = draw.choice([*VALUES, "offset", "timestamp"])
    operator = draw.choice(["=", "==", "!=", "<", ">", "<=", ">=", "in", "not in"])
    value = VALUES[column]
    if "in" not in operator:
        return column, operator, value(draw)
    values = [value(draw) for _ in range(draw.randrange(1, 4))]
    return column, operator, draw.choice([list, tuple])(values)


def draw_filters(draw: random.Random) -> tuple[Any, Any]:
    """Return random filters, and what they are as an expression."""
    lists = [
        [draw_condition(draw) for _ in range(draw.randrange(1, 4))]
        for _ in range(draw.choice([1, 1, 2, 3]))
    ]
    expression = filters_to_expression(lists)
    forms = [lists, expression, lists[0] if len(lists) == 1 else lists]
    return draw.choice(forms), expression


@pytest.mark.slow
def test_filters_keep_what_they_keep_afterwards(tmp_path: Path) -> None:
    """Random lists and expressions, pushed down, give the rows of a plain filter."""
    draw = random.Random(11)
    archive = Archive(tmp_path)
    for topic in ("s", "t"):
        for partition in (0, 1):
            archive.fill(random_segments(draw), topic=topic, partition=partition, interval=0)
    whole = read(archive, columns=list(TYPES))
    counts = set()

    for _ in range(60):
        filters, expression = draw_filters(draw)
        columns = draw.sample(list(TYPES), draw.randrange(1, 5))
        found = read(
            archive, columns=columns, filters=filters, splitBytes=draw.choice(["1k", "1m"])
        )
        wanted = whole.filter(expression)
        assert found.to_pylist() == wanted.select(columns).to_pylist(), expression
        counts.add(wanted.num_rows)

    assert len(counts) > 20


def random_segments(draw: random.Random) -> list[list[bytearray]]:
    """Return segments of batches with keys, times and codecs in any order."""
    return [
        [
            make_batch(
                [(draw.choice(KEYS), b"v%d" % draw.randrange(4)) for _ in range(5)],
                timestamp=draw.choice(TIMES),
                step_ms=draw.choice([0, 1, -1]),
                codec=draw.randrange(5),
            )
            for _ in range(6)
        ]
        for _ in range(4)
    ]


@pytest.mark.parametrize("form", [list, filters_to_expression])
@pytest.mark.parametrize(
    "conditions",
    [[("offset", ">=", 200)], [("partition", "=", 1)], [("topic", "in", ["u"])]],
    ids=["offset", "partition", "topic"],
)
def test_splits_that_cannot_match_are_not_read(
    archive: Archive, form: Callable[[Any], Any], conditions: Sequence[tuple[str, str, Any]]
) -> None:
    """A damaged one among them goes unnoticed, by a list and by an expression."""
    folder = archive.fill_plain(400, interval=0)
    archive.fill_plain(400, partition=1)
    archive.fill_plain(400, topic="u")
    damage(folder / "00000000000000000000.log", 100)

    assert read(archive, filters=form(conditions), splitBytes="1k").num_rows >= 400
    with pytest.raises(pa.ArrowInvalid, match="checksum is wrong"):
        read(archive, filters=form([("offset", "<", 100)]), splitBytes="1k")


def by_duckdb(reader: pa.RecordBatchReader) -> Any:
    """Count by SQL."""
    return duckdb.execute("SELECT count(*) FROM reader").fetchall()


@pytest.mark.parametrize(
    "use",
    [list, pa.RecordBatchReader.read_all, by_duckdb, pl.from_arrow],
    ids=lambda use: use.__name__,
)
def test_a_fault_in_the_middle_is_told(archive: Archive, use: Callable[[Any], Any]) -> None:
    """Whichever library reads, it says what the pipeline says."""
    folder = archive.fill_plain(400)
    damage(folder / "00000000000000000200.log", 3000)
    reader = scan("t", archive=str(archive.root))

    with pytest.raises((pa.ArrowInvalid, duckdb.Error), match="checksum is wrong") as error:
        use(reader)

    assert "onCorrupt=skip goes on without it" in str(error.value)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"filters": [("nope", "=", 1)]}, "nope"),
        ({"filters": [("offset", "~", 1)]}, "not a valid operator"),
        ({"filters": [("offset", "=", "x")]}, "int64, string"),
        ({"filters": [("timestamp", ">", 3)]}, "timestamp"),
        ({"filters": [("timestamp", ">", datetime(2020, 1, 1))]}, "without timezone"),  # noqa: DTZ001  # the fault
        ({"filters": [("offset", ">", 2**70)]}, "too large"),
        ({"filters": pc.divide(pc.scalar(1), pc.field("partition")) > 1}, "by ArrowInvalid"),
        ({"filters": [("offset", "in", 3)]}, "not iterable"),
        ({"filters": []}, "Malformed"),
        ({"filters": "offset > 3"}, "such as"),
        ({"filters": pc.field("nope") == 1}, "nope"),
        ({"columns": ["nope"]}, "has no column nope"),
        ({"columns": ["key", "key"]}, "named twice"),
        ({"colour": "red"}, "no option colour"),
        ({"isolation": "none"}, "isolation is one of"),
    ],
    ids=str,
)
def test_a_wrong_read_is_refused_by_the_call(
    archive: Archive, asked: dict[str, Any], sentence: str
) -> None:
    """In one sentence, before anything is read."""
    archive.fill_plain(30)

    with pytest.raises(BadOption, match=rf"^[^\n]*{sentence}[^\n]*$"):
        scan("t", archive=str(archive.root), **asked)


def test_a_filter_that_fails_on_a_value(archive: Archive) -> None:
    """The sentence says so without the value: that may be a secret."""
    archive.fill([[make_batch([(b"k", b"secret")])]])
    reader = scan(
        "t", archive=str(archive.root), filters=pc.field("value").cast("string").cast("int64") > 1
    )

    with pytest.raises(pa.ArrowInvalid, match=r"^[^\n]*the filters [^\n]*by ArrowInvalid") as error:
        reader.read_all()

    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        (("timestampMs", "<", -(2**63)), 0),
        (("timestampMs", ">=", -(2**63)), 30),
        (("timestampMs", ">", 2**63 - 1), 0),
        (("offset", ">", 2**63 - 1), 0),
        (("offset", "<", -(2**63)), 0),
        (("offset", "<=", 2**63 - 1), 30),
    ],
)
def test_the_least_and_the_greatest_number(
    archive: Archive, condition: tuple[str, str, int], count: int
) -> None:
    """A bound beyond 64 bits allows no row, or all."""
    archive.fill_plain(30)

    assert read(archive, filters=[condition]).num_rows == count


def test_a_topic_that_does_not_exist(archive: Archive) -> None:
    """The call says so, not the first batch."""
    archive.fill_plain(30)

    with pytest.raises(SourceUnavailable, match="no topic u"):
        scan("u", archive=str(archive.root))


def test_a_disk_that_fails_is_told_in_a_sentence(archive: Archive) -> None:
    """By the call, and in the middle."""
    folder = archive.fill_plain(400)
    with pytest.raises(SourceUnavailable, match=r"^the topics cannot be read: .*Not a directory"):
        scan("t", archive=str(folder / "partition.metadata"))
    reader = scan("t", archive=str(archive.root))
    for path in folder.glob("*.log"):
        path.unlink()
        path.mkdir()

    with pytest.raises(pa.ArrowInvalid, match=r"^[^\n]*the topics cannot be read: [^\n]*this user"):
        reader.read_all()


def test_memory_is_that_of_a_batch(archive: Archive) -> None:
    """However large the topic is: here 64 MiB in four segments."""
    batch = make_batch([(b"k", bytes(65_536))] * 8)
    archive.fill([[batch] * 32] * 4)
    before = pa.total_allocated_bytes()
    most = rows = 0

    for each in scan("t", archive=str(archive.root)):
        rows += each.num_rows
        most = max(most, pa.total_allocated_bytes() - before)

    assert rows == 4 * 32 * 8
    assert most < 16 << 20
