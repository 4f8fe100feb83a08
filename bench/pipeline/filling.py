"""The topics that are read: A of small records, B of large ones, A in lz4, and many segments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from bench.pipeline.home import Home

BACK: Final = "back"
MANY: Final = "segments"
SEGMENTS: Final = 1000
FIRST_MS: Final = 1_700_000_000_000
"""The time of the first record; the others follow, one each millisecond."""
_KEYS_OF: Final = 10
_WAIT: Final = 120.0
_KEPT: Final = {"retention.ms": "-1"}  # the records' times are old


class Topic(NamedTuple):
    """A topic of two partitions with four segments each; ``share`` is of the records of A."""

    name: str
    value_bytes: int
    codec: str = "none"
    share: int = 1


A: Final = Topic("A", 100)
B: Final = Topic("B", 1000, share=8)
LZ4: Final = Topic("A-lz4", 100, codec="lz4")


def fill(home: Home, topic: Topic) -> None:
    """Write a topic: a tenth as many keys as records, and 2 % of them tombstones."""
    count = home.records // topic.share
    segment_bytes = max(1 << 20, count * topic.value_bytes // 8)
    _create(home, topic.name, 2, _KEPT | {"segment.bytes": str(segment_bytes)})
    producer = Producer(
        {
            "bootstrap.servers": home.bootstrap,
            "compression.type": topic.codec,
            "linger.ms": 20,
            "batch.size": 16_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    text = b"the quick brown fox jumps over the lazy dog " * (1 + topic.value_bytes // 44)
    keys = max(1, count // _KEYS_OF)
    for number in range(count):
        key = b"user-%010d" % (number * 7919 % keys)
        value = b"%012d" % number + text[: topic.value_bytes - 12] if number % 50 != 49 else None
        _produce(producer, topic.name, value, key, number)
    _finish(producer)


def fill_back(home: Home) -> None:
    """Make the topic that others are written back into; of what is written it keeps little."""
    kept = {"retention.bytes": str(128 << 20), "segment.bytes": str(64 << 20)}
    _create(home, BACK, 2, _KEPT | kept)


def fill_many(home: Home) -> None:
    """Write a partition of a thousand segments with one record each."""
    _create(home, MANY, 1, _KEPT | {"segment.bytes": "1000"})
    producer = Producer({"bootstrap.servers": home.bootstrap, "linger.ms": 0})
    for _ in range(SEGMENTS):
        producer.produce(MANY, b"v" * 700)
        _finish(producer)


def _create(home: Home, name: str, partitions: int, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": home.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(_WAIT)


def _produce(producer: Producer, topic: str, value: bytes | None, key: bytes, number: int) -> None:
    while True:
        try:
            producer.produce(topic, value, key, number % 2, timestamp=FIRST_MS + number)
        except BufferError:
            producer.poll(0.1)
            continue
        if number % 1000 == 0:
            producer.poll(0)
        return


def _finish(producer: Producer) -> None:
    left = producer.flush(_WAIT)
    if left:
        raise RuntimeError(f"the broker did not take {left} records")
