"""Producers that go on through the death of their broker, and the reader that audits it."""

import random

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from tests.support.daemon import until
from tests.support.ledger import Ledger, Partition, Sent

# Without sparse connections a producer is back within milliseconds of its broker, not a second.
CONNECTION: dict[str, str | int | bool] = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "log_level": 0,
    "enable.sparse.connections": False,
    "broker.address.family": "v4",
}
AUDIT_TIMEOUT = 30


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
        self.lost: list[str] = []
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
            sent = Sent(self.name, self.sent)
            partition = random_numbers.randrange(self.partitions)
            self.producer.produce(
                self.topic, sent.value, partition=partition, on_delivery=self._deliver
            )
            self.sent += 1
        self.producer.poll(0)

    def finish(self, timeout: float) -> None:
        """Wait for every acknowledgement that can still come."""
        left = self.producer.flush(timeout)
        assert left == 0, f"{self.name}: {left} records neither acknowledged nor refused"

    def _deliver(self, fault: KafkaError | None, message: Delivered) -> None:
        if fault is not None:
            assert not self.exact, f"{self.name} lost a record: {fault}"
            self.lost.append(str(fault))
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        self.acknowledged += 1
        partition = (self.topic, message.partition() or 0)
        self.ledger.acknowledge(partition, offset, Sent.read(value))


class Auditor:
    """Reads on from where it was after each restart, and once from the beginning at the end.

    A patient one lets a broker say for a while that it does not yet lead its partitions.
    """

    def __init__(
        self, bootstrap: str, ledger: Ledger, partitions: list[Partition], *, patient: bool
    ) -> None:
        self.ledger = ledger
        self.partitions = partitions
        self.patient = patient
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": "never-joined",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 20,
            **CONNECTION,
        }

    def audit(self) -> None:
        """Compare the ends, and read what is new."""
        self._read({each: len(self.ledger.seen[each]) for each in self.partitions}, again=False)

    def audit_all(self) -> None:
        """Read everything once more and compare it with what was read before."""
        self._read(dict.fromkeys(self.partitions, 0), again=True)

    def _read(self, starts: dict[Partition, int], *, again: bool) -> None:
        consumer = Consumer(self._settings)
        try:
            ends: dict[Partition, int] = {}
            for each in self.partitions:
                low, end = self._bounds(consumer, each)
                assert low == 0, f"{each} begins at {low}"
                self.ledger.end(each, end)
                ends[each] = end
            waiting = {each for each in self.partitions if starts[each] < ends[each]}
            consumer.assign([TopicPartition(*each, starts[each]) for each in waiting])
            for _ in until(AUDIT_TIMEOUT):
                if not waiting:
                    return
                for message in consumer.consume(1000, 0.02):
                    partition, offset = self._take(message, again=again)
                    if offset + 1 >= ends[partition]:
                        waiting.discard(partition)
            raise TimeoutError(f"{waiting} do not reach {ends} in {AUDIT_TIMEOUT} s")
        finally:
            consumer.close()

    def _bounds(self, consumer: Consumer, partition: Partition) -> tuple[int, int]:
        for _ in until(AUDIT_TIMEOUT):
            try:
                return consumer.get_watermark_offsets(TopicPartition(*partition), AUDIT_TIMEOUT)
            except KafkaException:
                if not self.patient:
                    raise
        raise TimeoutError(f"{partition} has no leader")

    def _take(self, message: Delivered, *, again: bool) -> tuple[Partition, int]:
        if (fault := message.error()) is not None:
            raise KafkaException(fault)
        partition = (message.topic() or "", message.partition() or 0)
        offset, value = message.offset(), message.value()
        assert offset is not None
        assert value is not None
        if again and offset < len(self.ledger.seen[partition]):
            self.ledger.check_again(partition, offset, value)
        else:
            self.ledger.see(partition, offset, value)
        return partition, offset
