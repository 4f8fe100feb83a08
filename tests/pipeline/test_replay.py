"""Replays: what a table or a topic holds, back into a topic."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from pipeline.engine import LocalEngine
from pipeline.errors import BadOption, SourceUnavailable
from pipeline.jobs import replay_task
from pipeline.jobs.export import ExportSpec, export
from pipeline.jobs.replay import ReplaySpec, ReplaySummary, replay
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, produce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pipeline.jobs.replay_source import Part

COUNT = 300
TIMEOUT = 30.0
Row = tuple[int, Any, Any, int, Any]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SiltstoneProcess]:
    """A broker with a topic of every shape of record."""
    process = SiltstoneProcess(tmp_path_factory.mktemp("replay"))
    process.start()
    create_topic(process.bootstrap, "source", partitions=2)
    records = [
        {
            "key": None if number % 11 == 0 else b"k%d" % number,
            "value": None if number % 7 == 0 else b"v%d" % number,
            "partition": number % 2,
            "timestamp": 1_700_000_000_000 - number,
            "headers": [("h", b"x"), ("n", None)] if number % 3 == 0 else [],
        }
        for number in range(COUNT)
    ]
    produce(process.bootstrap, "source", records, **{"batch.num.messages": 10})
    yield process
    process.close()


class Run:
    """Replays of one broker into a topic of their own."""

    def __init__(self, broker: SiltstoneProcess, topic: str) -> None:
        self._broker = broker
        self.topic = topic
        create_topic(broker.bootstrap, topic, partitions=2)

    def __call__(self, source: str = "source", **wanted: Any) -> ReplaySummary:
        """Replay."""
        spec = ReplaySpec(source=source, topic=self.topic, **wanted)
        options = {"bootstrap": self._broker.bootstrap, "data": str(self._broker.folder)}
        return replay(LocalEngine(1), {**options, "transport": "pinned"}, spec)

    def rows(self) -> list[Row]:
        """Return what is in the topic now, by partition and in order."""
        return read(self._broker.bootstrap, self.topic)


def read(bootstrap: str, topic: str) -> list[Row]:
    """Return partition, key, value, time and headers of all committed records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"read-{topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    found: list[Row] = []
    open_ = {0, 1}
    while open_:
        message = consumer.poll(TIMEOUT)
        assert message is not None
        partition = message.partition()
        assert partition is not None
        if message.error():
            open_.discard(partition)
            continue
        found.append(
            (
                partition,
                message.key(),
                message.value(),
                message.timestamp()[1],
                message.headers(),
            )
        )
    consumer.close()
    return sorted(found, key=lambda row: row[0])


def test_topic_into_a_topic(broker: SiltstoneProcess) -> None:
    """Order, partitions, times, headers, null keys and tombstones are kept."""
    run = Run(broker, "copy")

    summary = run()

    assert summary.records == COUNT
    assert run.rows() == read(broker.bootstrap, "source")


def test_table_into_a_topic(broker: SiltstoneProcess, tmp_path: Path) -> None:
    """An export comes back as it was."""
    columns = ("key", "value", "partition", "offset", "timestamp", "headers")
    spec = ExportSpec(target=f"parquet:{tmp_path}/table", columns=columns)
    export(LocalEngine(1), {"data": str(broker.folder), "subscribe": "source"}, spec)
    run = Run(broker, "from-table")

    run(spec.target)

    assert run.rows() == read(broker.bootstrap, "source")


@pytest.mark.parametrize("exactly_once", [False, True])
def test_goes_on_after_a_crash(
    broker: SiltstoneProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    exactly_once: bool,
) -> None:
    """A run that is killed is gone on with; exactly once, and else at least once, in order."""
    run = Run(broker, f"crash-{exactly_once}")
    reads = {name: getattr(replay_task, name) for name in ("read_part", "read_batches")}
    wanted: dict[str, Any] = {"exactly_once": exactly_once}
    if not exactly_once:
        wanted["progress"] = tmp_path / "progress"
    monkeypatch.setattr(replay_task, "NOTE_BYTES", 100)
    monkeypatch.setattr("pipeline.jobs.replay_source._ROWS", 20)
    crashes = 0
    while True:
        left = [3]

        def some(name: str, part: Part, start: int, left: list[int] = left) -> Iterator[Any]:
            for each in reads[name](part, start):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                yield each

        for name in reads:
            monkeypatch.setattr(replay_task, name, partial(some, name))
        try:
            summary = run(**wanted)
            break
        except KeyboardInterrupt:
            crashes += 1

    expected = read(broker.bootstrap, "source")
    assert crashes >= 3
    assert summary.skipped
    found = run.rows()
    if exactly_once:
        assert found == expected
    else:
        assert list(dict.fromkeys(map(repr, found))) == list(map(repr, expected))


def test_rate(broker: SiltstoneProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes a second, and not more: it waits for the rest of the time."""
    waits: list[float] = []
    monkeypatch.setattr("pipeline.jobs.replay_task.time.sleep", waits.append)
    run = Run(broker, "slow")

    summary = run(rate=100)

    assert sum(waits) >= summary.sent_bytes / 100 / 2
    assert len(run.rows()) == COUNT


def test_partitions_by_key(broker: SiltstoneProcess) -> None:
    """Keys may choose partitions anew, as the Java client would; a key stays in one."""
    run = Run(broker, "by-key")

    run(by_key=True)

    places: dict[bytes, set[int]] = {}
    for partition, key, *_ in run.rows():
        if key is not None:
            places.setdefault(key, set()).add(partition)
    assert all(len(each) == 1 for each in places.values())
    assert len(run.rows()) == COUNT


def test_what_can_not_be_sent(
    broker: SiltstoneProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is missing or too small, and a source without rows, are told beforehand."""
    monkeypatch.setattr("pipeline.sinks.kafka._SECONDS", 2.0)
    options = {"bootstrap": broker.bootstrap, "data": str(broker.folder), "transport": "pinned"}
    create_topic(broker.bootstrap, "small", partitions=1)

    for topic, words in (("nowhere", "create it first"), ("small", "has 1 partitions")):
        with pytest.raises(BadOption, match=words):
            replay(LocalEngine(1), options, ReplaySpec(source="source", topic=topic))
    with pytest.raises(BadOption, match="no files"):
        replay(
            LocalEngine(1), options, ReplaySpec(source=f"parquet:{tmp_path}/none", topic="small")
        )
    with pytest.raises(BadOption, match="--bootstrap"):
        replay(LocalEngine(1), {}, ReplaySpec(source="source", topic="small"))
    with pytest.raises(SourceUnavailable, match="no broker answers"):
        replay(
            LocalEngine(1),
            {**options, "bootstrap": "127.0.0.1:1", "kafka.socket.timeout.ms": "1000"},
            ReplaySpec(source="source", topic="small"),
        )
