"""Producers that go on when their broker is killed, and checks of what can be read afterwards."""

from collections import defaultdict
from collections.abc import Iterable
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.waiting import PATIENCE, wait_until

CONNECTION: dict[str, str | int | bool] = {
    # Without sparse connections a client is back within milliseconds of its broker, not a second.
    "enable.sparse.connections": False,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "log_level": 0,
    "broker.address.family": "v4",
    # Otherwise librdkafka 2.16 may wait for ever to send offsets, because it has given up the only
    # broker when that was down (its issues 5456 and 5511).
    "metadata.recovery.strategy": "none",
}
LARGEST = 1500


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


Contents = dict[Place, dict[int, bytes]]
"""The values of partitions by their offsets."""


class Load:
    """An idempotent producer that spreads numbered records over the partitions of a topic."""

    def __init__(
        self, name: str, bootstrap: str, topic: str, partitions: int, codec: str, **settings: Any
    ) -> None:
        self.name = name.encode()
        self.places = [Place(topic, number) for number in range(partitions)]
        self.count = 0
        self.sent: defaultdict[Place, list[bytes]] = defaultdict(list)
        self.acknowledged: Contents = {place: {} for place in self.places}
        self.producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                **CONNECTION,
                **settings,
            }
        )

    def send(self, count: int, chance: Random) -> None:
        """Pass records to the producer and note the acknowledgements that have come."""
        for _ in range(count):
            place = chance.choice(self.places)
            value = b"%b %d " % (self.name, self.count) + bytes(chance.randrange(LARGEST))
            self.count += 1
            self.sent[place].append(value)
            self.producer.produce(*place[:1], value, partition=place[1], on_delivery=self._deliver)
        self.producer.poll(0)

    def finish(self) -> None:
        """Wait until all that was sent is acknowledged."""
        assert self.producer.flush(PATIENCE) == 0
        assert sum(map(len, self.acknowledged.values())) == self.count

    def check(self, contents: Contents) -> None:
        """Check that each sent record was read once, in order, at its acknowledged offset."""
        for place in self.places:
            there = contents[place]
            mine = [value for value in there.values() if value.startswith(self.name + b" ")]
            assert mine == self.sent[place][: len(mine)], place
            for offset, value in self.acknowledged[place].items():
                assert there.get(offset) == value, (place, offset)

    def _deliver(self, fault: KafkaError | None, message: Message) -> None:
        assert fault is None, fault
        place = Place(message.topic() or "", message.partition() or 0)
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        self.acknowledged[place][offset] = value


def read_all(bootstrap: str, places: Iterable[Place], *, committed: bool = False) -> Contents:
    """Return all records that can be read now, with or without uncommitted ones."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            **CONNECTION,
        }
    )
    contents: Contents = {place: {} for place in places}
    left = set(contents)

    def read() -> set[Place]:
        for message in consumer.consume(1000, 0.02):
            place = Place(message.topic() or "", message.partition() or 0)
            fault, offset, value = message.error(), message.offset(), message.value()
            if fault is not None:
                if fault.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(fault)
                left.discard(place)
            elif offset is not None and value is not None:
                contents[place][offset] = value
        return left

    try:
        consumer.assign([TopicPartition(*place, 0) for place in contents])
        wait_until(read, "all to be read", lambda left: not left)
    finally:
        consumer.close()
    return contents
