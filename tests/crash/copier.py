"""An exactly-once application: it consumes, copies and commits in one transaction after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.support.load import CONNECTION
from tests.support.waiting import equals, wait_until
from tools.checker.events import (
    Aborted,
    AskCommit,
    Change,
    Committed,
    CommittedOffset,
    Partition,
    Position,
    RecordId,
    Seek,
    Shown,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from tests.support.ledger import Ledger

TIMEOUT = 4
LONG_TIMEOUT = 30
MAX_RECORDS = 40
MAX_ZOMBIES = 5  # before the last: each has four threads and polls
GROUP = "copiers"
SETTINGS = {
    **CONNECTION,
    # Else librdkafka 2.16 may wait for ever to send offsets, for a broker that it has given up
    # since all brokers, which is one, were down (its issues 5456 and 5511).
    "metadata.recovery.strategy": "none",
}


class Copier:
    """Copies some partitions for ever; whatever it cannot go on from ends it.

    A successor with the same transactional id then takes its place and goes on where the group's
    offsets say, as after a restart of its process. What it leaves behind lives on as a zombie, and
    may try to commit what it had begun.
    """

    def __init__(
        self,
        bootstrap: str,
        ledger: Ledger,
        name: str,
        sources: Sequence[Partition],
        targets: Sequence[Partition],
        random_numbers: random.Random,
    ) -> None:
        self.name = name
        self.copied = 0
        self.committed = 0
        self.aborted = 0
        self.deaths = 0
        self.fenced = 0
        self._bootstrap = bootstrap
        self._ledger = ledger
        self._sources = {(each.topic, each.number): each for each in sources}
        self._targets = targets
        self._random = random_numbers
        self._done: dict[Partition, int] = {}
        self._transactions = 0
        self._transaction = ""
        self._producer: Producer | None = None
        self._zombies: list[Producer] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
                **SETTINGS,
            }
        )

    def step(self) -> None:
        """Copy some records in a transaction, whatever becomes of it."""
        try:
            if self._producer is None:
                self._producer = self._succeed()
                self._resume()
            messages = self._consumer.consume(self._random.randint(1, MAX_RECORDS), 0.1)
            if messages:
                self._copy(self._producer, messages)
        except KafkaException as error:
            self._recover(error.args[0])

    def finish(self, ends: Mapping[Partition, int]) -> None:
        """Copy what is left, after every transaction that was left open is ended."""
        self._die()
        wanted = {each: ends[each] for each in self._sources.values()}

        def go_on() -> dict[Partition, int | None]:
            self.step()
            return {each: self._done.get(each) for each in wanted}

        wait_until(
            go_on, f"{self.name} to copy up to {wanted}", equals(wanted), timeout=2 * LONG_TIMEOUT
        )
        self._resume()
        self._zombies.clear()
        self._consumer.close()

    def _succeed(self) -> Producer:
        """Fence the one before, and have its last transaction ended."""
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": self.name,
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 20,
                "linger.ms": 1,
                **SETTINGS,
            }
        )
        producer.init_transactions(LONG_TIMEOUT)
        return producer

    def _resume(self) -> None:
        """Go on where the group's offsets say; no transaction of ours is open."""
        asked = [TopicPartition(*name) for name in self._sources]
        starts = []
        for each in self._consumer.committed(asked, LONG_TIMEOUT):
            partition = self._sources[each.topic, each.partition]
            shown = each.offset if each.offset >= 0 else None
            take = self._ledger.checker.take
            take(Shown(CommittedOffset(GROUP, partition), shown, settled=True))
            self._done[partition] = shown or 0
            starts.append(TopicPartition(each.topic, each.partition, shown or 0))
            take(Seek(self.name, partition, shown or 0, committed=True))
        self._consumer.assign(starts)
        self._ledger.judge()

    def _copy(self, producer: Producer, messages: list[Message]) -> None:
        take = self._ledger.checker.take
        self._transactions += 1
        self._transaction = f"{self.name}/{self._transactions}"
        producer.begin_transaction()
        ends: dict[Partition, int] = {}
        for message in messages:
            position = self._send_copy(producer, message)
            ends[position.partition] = position.offset + 1
        for partition, end in ends.items():
            take(Change(CommittedOffset(GROUP, partition), end, self._transaction))
        offsets = [TopicPartition(each.topic, each.number, end) for each, end in ends.items()]
        metadata = self._consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT)
        if self._random.random() < 0.1:
            self._abort(producer)
        elif self._random.random() < 0.1:
            self._freeze(producer)
        else:
            take(AskCommit(self._transaction))
            producer.commit_transaction(TIMEOUT)
            take(Committed(self._transaction))
            self._done |= ends
            self.committed += 1

    def _send_copy(self, producer: Producer, message: Message) -> Position:
        """Send a copy of what was read and return where that was."""
        if (fault := message.error()) is not None:
            raise KafkaException(fault)
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        source = self._sources[message.topic() or "", message.partition() or 0]
        position = Position(source, offset)
        self._ledger.read(self.name, source, offset, value)
        target = self._random.choice(self._targets)
        record = RecordId(self.name, self.copied)
        self.copied += 1
        copy = self._ledger.copy(record, target, position, value, self._transaction)
        producer.produce(target.topic, copy, partition=target.number, on_delivery=self._deliver)
        return position

    def _deliver(self, fault: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if fault is None and value is not None and offset is not None:
            self._ledger.acknowledge(value, offset)

    def _abort(self, producer: Producer) -> None:
        producer.abort_transaction(TIMEOUT)
        self._ledger.checker.take(Aborted(self._transaction))
        self.aborted += 1
        self._resume()

    def _freeze(self, producer: Producer) -> None:
        """Stand still until a successor begins, then commit: the fence of the epoch must hold."""
        left = self._transaction
        self._die()
        self._producer = self._succeed()
        self._resume()
        self._ledger.checker.take(AskCommit(left))
        try:
            producer.commit_transaction(TIMEOUT)
        except KafkaException as error:
            self.fenced += error.args[0].code() == KafkaError._FENCED
        else:
            self._ledger.checker.take(Committed(left))

    def _recover(self, error: KafkaError) -> None:
        """Abort if that is what the client asks for, else give up for a successor."""
        if self._producer is not None and error.txn_requires_abort():
            try:
                self._abort(self._producer)
            except KafkaException:
                self._die()
        else:
            self._die()

    def _die(self) -> None:
        if self._producer is not None:
            self._zombies = [*self._zombies[-MAX_ZOMBIES:], self._producer]
            self._producer = None
            self.deaths += 1
