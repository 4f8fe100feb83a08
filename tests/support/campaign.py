"""A broker that is killed again and again under load, and the checks after each kill."""

import contextlib
import logging
import time
from random import Random

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.clients.confluent import Confluent
from tests.support.load import CONNECTION, Contents, Load, Place, read_all
from tests.support.oracle import Broker
from tests.support.waiting import PATIENCE, wait_until

PARTITIONS = 3
ENDS, COPIES = "ends", "copies"
SETTINGS = {
    "log.index.interval.bytes": "512",
    "log.flush.interval.messages": "400",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}
TRY = 4.0
_fences = logging.getLogger("fences")
_fences.addHandler(logging.NullHandler())
_fences.propagate = False
"""Drops librdkafka's lines: a producer that its successor has fenced is no news here."""


class Copier:
    """Copies a topic in one transaction after another; a successor goes on after what fails."""

    def __init__(self, bootstrap: str, places: list[Place]) -> None:
        self.bootstrap = bootstrap
        self.places = places
        self.producer: Producer | None = None
        self.consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "copiers",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                **CONNECTION,
            }
        )

    def succeed(self) -> dict[Place, int]:
        """End an open transaction, and go on at the group's offsets; return the offsets."""
        self.producer = None
        settings = {"bootstrap.servers": self.bootstrap, "transactional.id": "copier", **CONNECTION}
        producer = Producer(settings, logger=_fences)
        producer.init_transactions(PATIENCE)
        found = self.consumer.committed([TopicPartition(*each) for each in self.places], PATIENCE)
        ends = {Place(each.topic, each.partition): max(each.offset, 0) for each in found}
        self.consumer.assign([TopicPartition(*place, end) for place, end in ends.items()])
        self.producer = producer
        return ends

    def step(self, chance: Random) -> None:
        """Copy some records in a transaction, which is sometimes aborted or left open."""
        with contextlib.suppress(KafkaException):
            if self.producer is None:
                self.succeed()
            messages = self.consumer.consume(chance.randint(1, 40), 0.05)
            if messages:
                self._copy(messages, chance)
            return
        self.producer = None

    def _copy(self, messages: list[Message], chance: Random) -> None:
        producer = self.producer
        assert producer is not None
        producer.begin_transaction()
        ends = {}
        for message in messages:
            place, offset = Place(message.topic() or "", message.partition() or 0), message.offset()
            assert message.error() is None
            assert offset is not None
            ends[place] = offset + 1
            producer.produce(COPIES, message.value(), partition=chance.randrange(PARTITIONS))
        offsets = [TopicPartition(*place, end) for place, end in ends.items()]
        producer.send_offsets_to_transaction(offsets, self.consumer.consumer_group_metadata(), TRY)
        way = chance.random()
        if way < 0.1:
            producer.abort_transaction(TRY)
        if way < 0.2:  # a successor fences this producer: a commit would make a second copy
            self.succeed()
        if way >= 0.1:
            producer.commit_transaction(TRY)


class Campaign:
    """A broker, two loads on a topic, a copier of the topic, and kill after kill."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.chance = Random(seed)
        self.start_seconds = 0.3
        for topic in (ENDS, COPIES):
            Confluent(broker.bootstrap, CONNECTION).create(topic, PARTITIONS, {})
        self.loads = [
            Load(codec, broker.bootstrap, ENDS, PARTITIONS, codec) for codec in ("none", "zstd")
        ]
        self.places = self.loads[0].places
        self.copies = [Place(COPIES, number) for number in range(PARTITIONS)]
        self.copier = Copier(broker.bootstrap, self.places)

    def live(self) -> int:
        """Put load on the broker and kill it, in service or while it stops, and in its starts."""
        for _ in range(self.chance.randint(1, 8)):
            self.send()
        if self.chance.random() < 0.2:
            self.broker.daemon.signal(15)
            time.sleep(self.chance.uniform(0, 0.15))
        self.broker.kill()
        kills = 1
        while self.chance.random() < 0.5:
            latest = 0.15 if self.chance.random() < 0.5 else self.start_seconds
            with contextlib.suppress(TimeoutError):
                self.broker.start(timeout=self.chance.uniform(0, latest))
            self.broker.kill()
            kills += 1
        began = time.monotonic()
        self.broker.start()
        self.start_seconds = time.monotonic() - began
        return kills

    def send(self) -> None:
        """Send some records, and copy some."""
        for load in self.loads:
            load.send(15, self.chance)
        self.copier.step(self.chance)

    def _settle(self) -> dict[Place, int]:
        """Leave no transaction open; retry, since coordinators may be loading after the kill."""
        return wait_until(
            self.copier.succeed, "a successor", lambda _: True, despite=KafkaException
        )

    def judge(self) -> Contents:
        """Compare what can be read with what was acknowledged and copied; return the records."""
        ends = self._settle()
        there = read_all(self.broker.bootstrap, self.places)
        for load in self.loads:
            load.check(there)
        for place, values in there.items():
            assert list(values) == list(range(len(values))), place
        copied = read_all(self.broker.bootstrap, self.copies, committed=True)
        below = [each for place, end in ends.items() for each in list(there[place].values())[:end]]
        assert sorted(below) == sorted(each for found in copied.values() for each in found.values())
        return there

    def finish(self) -> None:
        """Wait until all is acknowledged and copied, and check the result."""
        for load in self.loads:
            load.finish()
        everything = {place: len(values) for place, values in self.judge().items()}
        assert sum(everything.values()) == sum(load.count for load in self.loads)

        def go_on() -> dict[Place, int]:
            self.copier.step(self.chance)
            self.copier.step(self.chance)
            return self._settle()

        ends = self._settle()
        while ends != everything:  # a busy machine takes long, but it gets further each time
            ends = wait_until(go_on, "copies of more", ends.__ne__)
        self.judge()
        self.copier.consumer.close()
