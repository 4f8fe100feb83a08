"""Producers that go on through the death of their broker, and the reader that audits it."""

import random
from collections.abc import Collection, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from tests.support.ledger import Ledger
from tests.support.waiting import PATIENCE, wait_until
from tools.checker.events import Bounds, Partition, Reached, RecordId, Seek

# Without sparse connections a producer is back within milliseconds of its broker, not a second.
CONNECTION: dict[str, str | int | bool] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "log_level": 0,
    "enable.sparse.connections": False,
    "broker.address.family": "v4",
}


class Load:
    """One librdkafka producer that spreads numbered records over a topic's partitions.

    An exact one is idempotent and must get every record acknowledged in the end; the other is not,
    sends each record once, and may lose what was not acknowledged.
    """

    def __init__(
        self,
        name: str,
        bootstrap: str,
        ledger: Ledger,
        topic: str,
        partitions: int,
        *,
        exact: bool,
        codec: str,
    ) -> None:
        self.name = name
        self.topic = topic
        self.partitions = partitions
        self.exact = exact
        self.ledger = ledger
        self.sent = 0
        self.acknowledged = 0
        settings = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "retry.backoff.ms": 5,
            "retry.backoff.max.ms": 20,
            "message.timeout.ms": 120_000 if exact else 2_000,
            **({"enable.idempotence": True} if exact else {"acks": 1, "retries": 0}),
            **CONNECTION,
        }
        self.producer = Producer(settings)

    def send(self, count: int, random_numbers: random.Random) -> None:
        """Hand records to the producer and take the acknowledgements that have come."""
        for _ in range(count):
            number = random_numbers.randrange(self.partitions)
            record = RecordId(self.name, self.sent)
            value = self.ledger.send(record, Partition(self.topic, number))
            self.producer.produce(self.topic, value, partition=number, on_delivery=self._deliver)
            self.sent += 1
        self.producer.poll(0)

    def finish(self, timeout: float) -> None:
        """Wait for every acknowledgement that can still come."""
        left = self.producer.flush(timeout)
        assert left == 0, f"{self.name}: {left} records neither acknowledged nor refused"
        assert not self.exact or self.acknowledged == self.sent

    def _deliver(self, fault: KafkaError | None, message: Delivered) -> None:
        if fault is not None:
            assert not self.exact, f"{self.name} lost a record: {fault}"
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        self.acknowledged += 1
        self.ledger.acknowledge(value, offset)


class Auditor:
    """Reads on from where it was after each restart, and once from the beginning at the end.

    A patient one lets a broker say for a while that it does not yet lead its partitions. A
    ``committed`` one reads under read_committed and says nothing of where a log ends.
    """

    def __init__(
        self, bootstrap: str, ledger: Ledger, *, patient: bool, committed: bool = False
    ) -> None:
        self.name = "committed auditor" if committed else "auditor"
        self.ledger = ledger
        self.patient = patient
        self.committed = committed
        self._read_to: dict[Partition, int] = {}
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,
            **CONNECTION,
        }

    def audit(self, partitions: Collection[Partition]) -> None:
        """Note the ends, and read what is new."""
        self._read({each: self._read_to.get(each, 0) for each in partitions})

    def audit_all(self, partitions: Collection[Partition]) -> None:
        """Read everything once more."""
        self._read(dict.fromkeys(partitions, 0))

    def _read(self, starts: Mapping[Partition, int]) -> None:
        consumer = Consumer(self._settings)
        try:
            ends = {each: self._bound(consumer, each) for each in starts}
            waiting: dict[tuple[str, int], Partition] = {}
            for each, start in starts.items():
                self.ledger.checker.take(Seek(self.name, each, start, self.committed))
                if start < ends[each]:
                    waiting[each.topic, each.number] = each
            consumer.assign([TopicPartition(*name, starts[each]) for name, each in waiting.items()])

            def read() -> dict[tuple[str, int], Partition]:
                if waiting:
                    for message in consumer.consume(1000, 0.02):
                        self._take(message, waiting, ends)
                return waiting

            wait_until(read, f"all to have read up to {ends}", lambda left: not left)
        finally:
            consumer.close()
        for each, end in ends.items():
            self.ledger.checker.take(Reached(self.name, each, end))
            self._read_to[each] = end
        self.ledger.judge()

    def _bound(self, consumer: Consumer, partition: Partition) -> int:
        """Note where a partition begins and ends; return the end, or the last stable offset."""
        where = TopicPartition(partition.topic, partition.number)
        start, end = wait_until(
            lambda: consumer.get_watermark_offsets(where, PATIENCE),
            f"a leader of {partition}",
            despite=KafkaException if self.patient else (),
        )
        if not self.committed:
            self.ledger.checker.take(Bounds(partition, start, end))
        return end

    def _take(
        self,
        message: Delivered,
        waiting: dict[tuple[str, int], Partition],
        ends: Mapping[Partition, int],
    ) -> None:
        """Note a message; what comes behind the end that was asked for is the next audit's."""
        fault = message.error()
        if fault is not None and fault.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(fault)
        name = (message.topic() or "", message.partition() or 0)
        offset, value = message.offset(), message.value()
        partition = waiting.get(name)
        if partition is None:
            return
        assert offset is not None
        end = ends[partition]
        if fault is None and offset < end:
            assert value is not None
            self.ledger.read(self.name, partition, offset, value)
            offset += 1
        if offset >= end:
            del waiting[name]
