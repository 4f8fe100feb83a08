"""Replays of a broker's topic into a topic of any broker, some of them killed in the middle."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.jobs import replay_source, replay_task
from siltstone.pipeline.jobs.replay import ReplaySpec, ReplaySummary, replay
from siltstone.pipeline.jobs.replay_source import Chunk, Part
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, produce

COUNT = 300
_TIMEOUT = 30.0
_CHUNKS_OF_A_RUN = 3
_KEPT = {"retention.ms": "-1"}  # the records' times are years ago

Row = tuple[int, Any, Any, int, Any]


def fill_source(bootstrap: str) -> None:
    """Write a topic `source` of two partitions with every shape of record."""
    create_topic(bootstrap, "source", partitions=2, config=_KEPT)
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
    produce(bootstrap, "source", records, **{"batch.num.messages": 10})


class Run:
    """Replays of one broker into a topic of their own, there or on another broker."""

    def __init__(self, broker: SiltstoneProcess, topic: str, bootstrap: str = "") -> None:
        self._data = str(broker.folder)
        self._bootstrap = bootstrap or broker.bootstrap
        self.topic = topic
        create_topic(self._bootstrap, topic, partitions=2, config=_KEPT)

    def __call__(
        self, source: str = "source", options: dict[str, str] | None = None, **wanted: Any
    ) -> ReplaySummary:
        """Replay."""
        spec = ReplaySpec(source=source, topic=self.topic, **wanted)
        asked = {"bootstrap": self._bootstrap, "data": self._data, "transport": "pinned"}
        return replay(LocalEngine(1), asked | (options or {}), spec)

    def rows(self) -> list[Row]:
        """Return what is in the topic now, by partition and in order."""
        return read_rows(self._bootstrap, self.topic)


def run_with_crashes(
    run: Run, monkeypatch: pytest.MonkeyPatch, **wanted: Any
) -> tuple[ReplaySummary, int]:
    """Replay with a crash after every few chunks until one run comes to its end.

    Returns:
        What that run did, and how many crashed before it.
    """
    read_part = replay_source.read_part
    monkeypatch.setattr(replay_task, "NOTE_BYTES", 100)
    monkeypatch.setattr("siltstone.pipeline.jobs.replay_source._ROWS", 20)
    crashes = 0
    while True:
        left = [_CHUNKS_OF_A_RUN]

        def some(part: Part, start: int, left: list[int] = left) -> Iterator[Chunk]:
            for each in read_part(part, start):
                if not left[0]:
                    raise KeyboardInterrupt
                left[0] -= 1
                yield each

        monkeypatch.setattr(replay_task, "read_part", some)
        try:
            return run(**wanted), crashes
        except KeyboardInterrupt:
            crashes += 1


def read_rows(bootstrap: str, topic: str) -> list[Row]:
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
        message = consumer.poll(_TIMEOUT)
        assert message is not None
        partition = message.partition()
        assert partition is not None
        if message.error():
            open_.discard(partition)
            continue
        found.append(
            (partition, message.key(), message.value(), message.timestamp()[1], message.headers())
        )
    consumer.close()
    return sorted(found, key=lambda row: row[0])
