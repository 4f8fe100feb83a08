"""Jobs over a broker at work: producers write, the cleaner loops, pins hold the moment."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any, Self

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer

from siltstone.pipeline.client.pins import (
    Pin,
    extend_pin,
    find_control,
    release_pin,
    take_pin,
    topics,
)
from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption, SnapshotExpired, SourceUnavailable
from siltstone.pipeline.jobs.audit import AuditSpec, audit
from siltstone.pipeline.jobs.compaction_plan import plan_compaction
from siltstone.pipeline.jobs.export import ExportSpec, export
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, snapshot
from siltstone.pipeline.sinks.table import open_new
from siltstone.storage import files
from siltstone.storage.topic_partition import TopicPartition
from tests.support.broker import SiltstoneProcess, a_process
from tests.support.produced import create_topic, delete_topic, numbered, produce
from tests.support.waiting import at_least, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka import Message

SECONDS = 60.0
SNAPSHOTS = 6
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

BUSY = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "0",
    "log.segment.delete.delay.ms": "0",
    "log.segment.bytes": "100000",
}


busy = a_process(BUSY)


class Writer:
    """Writes random keys and tombstones from a thread, and notes what got which offset."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2})
        self._topic = topic
        self._chance = random.Random(seed)
        self._written: dict[int, list[tuple[int, bytes, bytes | None]]] = {0: [], 1: []}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._producer.flush(SECONDS)

    def wait_for(self, count: int) -> None:
        """Wait until so many records are acknowledged."""
        wait_until(
            lambda: sum(len(each) for each in self._written.values()),
            f"{count} acknowledged records",
            at_least(count),
            timeout=SECONDS,
        )

    def live_at(self, ends: dict[int, int]) -> dict[tuple[int, bytes], bytes]:
        """Return the last values below some offsets."""
        assert not self._producer.flush(SECONDS)
        last: dict[tuple[int, bytes], bytes | None] = {}
        for partition, end in ends.items():
            for offset, key, value in sorted(self._written[partition]):
                if offset < end:
                    last[partition, key] = value
        return {key: value for key, value in last.items() if value is not None}

    def _run(self) -> None:
        while not self._stop.is_set():
            for _ in range(50):
                key = b"k%d" % self._chance.randrange(300)
                value = None if self._chance.random() < 0.2 else self._chance.randbytes(80)
                partition = self._chance.randrange(2)
                self._producer.produce(
                    self._topic, value, key, partition, on_delivery=self._delivered
                )
            self._producer.poll(0.005)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        key, partition, offset = message.key(), message.partition(), message.offset()
        assert key is not None
        assert partition is not None
        assert offset is not None
        value = message.value()
        self._written[partition].append((offset, bytes(key), None if value is None else value))


def table_of(target: str) -> dict[tuple[int, bytes], bytes]:
    """Return what a snapshot table holds; no key comes twice."""
    found: dict[tuple[int, bytes], bytes] = {}
    for path in open_new(target).files():
        for row in pq.read_table(path, partitioning=None).to_pylist():
            assert (row["partition"], row["key"]) not in found
            found[row["partition"], row["key"]] = row["value"]
    return found


def test_snapshots_beside_writers_and_cleaner(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """Each equals what was written below its pinned offsets, whole or by increments."""
    create_topic(busy.bootstrap, "users", partitions=2, config={"cleanup.policy": "compact"})
    read = {"data": str(busy.folder)}
    engine = LocalEngine(1)
    with Writer(busy.bootstrap, "users", seed=3) as writer:
        for number in range(SNAPSHOTS):
            writer.wait_for(5000 * (number + 1))
            plan = ("partition", "shuffle")[number % 2]
            spec = SnapshotSpec(
                topic="users", target=f"parquet:{tmp_path}/whole-{number}", plan=plan
            )
            summary = snapshot(engine, read, spec)
            ends = {at: end for at, (_, end) in summary.offsets.items()}
            assert table_of(spec.target) == writer.live_at(ends)

    report = audit(engine, {**read, "subscribe": "users"}, AuditSpec(clean=True))
    assert list(report.lines())[:-1] == []
    assert find_control(busy.folder).ask("GET", "/v1/pins")["pins"] == []


def test_increments_beside_writers(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """Where tombstones stay long enough, increments are as good."""
    config = {"cleanup.policy": "compact", "delete.retention.ms": "3600000"}
    create_topic(busy.bootstrap, "members", partitions=2, config=config)
    spec = SnapshotSpec(topic="members", target=f"delta:{tmp_path}/members", incremental=True)
    modes = []
    with Writer(busy.bootstrap, "members", seed=4) as writer:
        for number in range(SNAPSHOTS):
            writer.wait_for(4000 * (number + 1))
            summary = snapshot(LocalEngine(1), {"data": str(busy.folder)}, spec)
            modes.append(summary.mode)
            ends = {at: end for at, (_, end) in summary.offsets.items()}
            assert table_of(spec.target) == writer.live_at(ends)

    assert modes == ["whole", *["increment"] * (SNAPSHOTS - 1)]


def test_export_and_plan(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """Exported rows are those of the topic."""
    create_topic(busy.bootstrap, "clicks", partitions=2)
    rows = [
        {"key": b"k%d" % (at % 7), "value": b'{"id": %d, "at": {"x": 1}}' % at, "partition": at % 2}
        for at in range(500)
    ]
    produce(busy.bootstrap, "clicks", rows)
    read = {"data": str(busy.folder), "subscribe": "clicks"}
    spec = ExportSpec(target=f"parquet:{tmp_path}/clicks")

    summary = export(LocalEngine(1), read, spec)
    plan = plan_compaction(LocalEngine(1), read)

    assert summary.rows == 500
    found = pq.read_table(tmp_path / "clicks").to_pylist()
    assert len(found) == 500
    assert {row["value"] for row in found} == {row["value"] for row in rows}
    assert sum(each.records for each in plan.partitions) == 500
    assert [each.keys for each in plan.partitions] == [7, 7]
    assert plan.partitions[0].duplicate_ratio == pytest.approx(1 - 7 / 250)


def test_any_broker_over_the_network(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """Where no folder is visible, the same jobs go by Fetch."""
    create_topic(busy.bootstrap, "remote", partitions=2)
    for partition in (0, 1):
        produce(busy.bootstrap, "remote", numbered(200, partition=partition))
        produce(busy.bootstrap, "remote", numbered(50, first=100, partition=partition))
    spec = SnapshotSpec(topic="remote", target=f"parquet:{tmp_path}/remote")

    summary = snapshot(LocalEngine(1), {"bootstrap": busy.bootstrap}, spec)

    assert summary.offsets == {0: (0, 250), 1: (0, 250)}
    assert table_of(spec.target) == {
        (partition, b"k%d" % number): b"v%d" % number
        for partition in (0, 1)
        for number in range(200)
    }


def test_a_plan_over_the_network(busy: SiltstoneProcess) -> None:
    """Nobody sees the files: the sizes are those of the records, and it says so."""
    create_topic(busy.bootstrap, "planned", partitions=1)
    produce(busy.bootstrap, "planned", numbered(100))
    produce(busy.bootstrap, "planned", numbered(100))

    read = {"bootstrap": busy.bootstrap, "subscribe": "planned", "transport": "fetch"}
    plan = plan_compaction(LocalEngine(1), read)

    (partition,) = plan.partitions
    assert partition.keys == 100
    assert partition.size == 2 * partition.live_bytes > 0
    assert any("not seen over the network" in note for note in plan.notes)


def test_an_audit_over_the_network(busy: SiltstoneProcess) -> None:
    """It would find no fault, since it sees no segment; so none is reported."""
    create_topic(busy.bootstrap, "unseen", partitions=1)
    produce(busy.bootstrap, "unseen", numbered(10))

    read = {"bootstrap": busy.bootstrap, "subscribe": "unseen", "transport": "fetch"}
    with pytest.raises(BadOption, match="which neither the network nor a store shows"):
        audit(LocalEngine(1), read, AuditSpec())


def test_pin_client(busy: SiltstoneProcess) -> None:
    """A pin is taken, renewed and released; one that is gone is told, releasing it is not."""
    create_topic(busy.bootstrap, "pinned", partitions=1)
    produce(busy.bootstrap, "pinned", numbered(10))
    control = find_control(busy.folder)
    assert "pinned" in topics(control)

    view = take_pin(control, ["pinned"], lease_ms=5000)

    (partition,) = view.partitions
    assert partition.topic_partition == TopicPartition("pinned", 0)
    assert (partition.end_offset, partition.size) == (10, partition.segments[0].size)
    extend_pin(control, view.pin, 7000)
    with closing(Pin(control, view)) as pin:
        pin.check()
    with pytest.raises(SnapshotExpired, match="pin again"):
        extend_pin(control, view.pin)
    release_pin(control, view.pin)


def test_lost_pin_stops_the_job(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """Whose pin ends in mid-job commits nothing."""
    create_topic(busy.bootstrap, "lost", partitions=1, config={"cleanup.policy": "compact"})
    produce(busy.bootstrap, "lost", numbered(100))
    control = find_control(busy.folder)

    class Losing(LocalEngine):
        """Has somebody end all pins when the work is done."""

        def run(self, *arguments: Any) -> Any:
            """Work, then lose the pin and wait until its renewal has seen that."""
            done = super().run(*arguments)
            for pin in control.ask("GET", "/v1/pins")["pins"]:
                release_pin(control, pin["id"])
            threading.Event().wait(1.0)
            return done

    spec = SnapshotSpec(topic="lost", target=f"parquet:{tmp_path}/lost")
    with pytest.raises(SnapshotExpired, match="pin"):
        snapshot(Losing(1), {"data": str(busy.folder), "pinLeaseMs": "1000"}, spec)

    assert open_new(spec.target).files() == []


def test_topic_deleted_in_mid_job(busy: SiltstoneProcess, tmp_path: Path) -> None:
    """The pin keeps the files: the job ends well with the topic as it was."""
    create_topic(busy.bootstrap, "gone", partitions=1, config={"cleanup.policy": "compact"})
    produce(busy.bootstrap, "gone", numbered(100))

    class Deleting(LocalEngine):
        """Has somebody delete the topic before the work begins."""

        def run(self, *arguments: Any) -> Any:
            """Delete, then work."""
            delete_topic(busy.bootstrap, "gone")
            return super().run(*arguments)

    spec = SnapshotSpec(topic="gone", target=f"parquet:{tmp_path}/gone")
    summary = snapshot(Deleting(1), {"data": str(busy.folder)}, spec)

    assert summary.rows == 100


def test_no_broker(tmp_path: Path) -> None:
    """A folder without a broker, or without a token, is told in a sentence."""
    with pytest.raises(SourceUnavailable, match="no control token"):
        find_control(tmp_path)
    (tmp_path / files.CONTROL_TOKEN).write_text("x")
    with pytest.raises(SourceUnavailable, match="no broker answers"):
        topics(find_control(tmp_path, "127.0.0.1:1"))
    with pytest.raises(SourceUnavailable, match="host:port"):
        find_control(tmp_path, "nowhere")
