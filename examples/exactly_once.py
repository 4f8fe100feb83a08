"""Copy a topic exactly once with confluent-kafka, kill the copier meanwhile, and prove it.

    python examples/exactly_once.py fill   --topic orders --count 1000
    python examples/exactly_once.py copy   --topic orders --to invoices
    python examples/exactly_once.py verify --topic orders --to invoices

``copy`` reads a topic as a member of a group, writes what it makes of each record to another topic,
and commits both together, output and how far it has read, in one transaction for each handful
(KIP-98, KIP-447). Kill it whenever you like, with -9 if you must, and start it again: what it had
not committed is taken back, by the epoch of the next producer with the same transactional id, and
read again. It ends when it has read all that the topic had at its start.

``verify`` reads both topics as a reader of committed records does: every record of the source must
have come out once, none twice, in the order of its partition. It ends with exit code 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from typing import TYPE_CHECKING

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

PARTITIONS = 3
HANDFUL = 10
SECONDS = 30.0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the three commands; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("command", choices=("fill", "copy", "verify"))
    parser.add_argument("--bootstrap-server", default="127.0.0.1:9092")
    parser.add_argument("--topic", required=True, help="what is copied")
    parser.add_argument("--to", default="", help="where it is copied to")
    parser.add_argument("--count", type=int, default=1000, help="how many records to fill in")
    options = parser.parse_args(arguments)
    match options.command:
        case "fill":
            fill(options.bootstrap_server, options.topic, options.count)
        case "copy":
            copy(options.bootstrap_server, options.topic, options.to)
        case _:
            return verify(options.bootstrap_server, options.topic, options.to)
    return 0


def fill(bootstrap: str, topic: str, count: int) -> None:
    """Write numbered records, over all partitions in turn."""
    _create(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    producer.flush(SECONDS)
    print(f"filled {topic} with {count} records")


def copy(bootstrap: str, topic: str, to: str) -> None:
    """Copy the topic, exactly once, however often this is killed and started again."""
    _create(bootstrap, to)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-to-{to}"})
    # Takes back what a copier before this one left open, and keeps it from committing any more.
    producer.init_transactions(SECONDS)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-to-{to}",
            "group.instance.id": "copier",  # the next one takes over at once (KIP-345)
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([topic])
    ended: set[int | None] = set()
    copied = 0
    while len(ended) < PARTITIONS:
        messages = []
        for message in consumer.consume(HANDFUL, 1.0):
            if _is_end(message):
                ended.add(message.partition())
            else:
                messages.append(message)
        if messages:
            _copy_together(producer, consumer, messages, to)
            copied += len(messages)
            print(f"copied {copied}", flush=True)
    consumer.close()
    print("done")


def _copy_together(
    producer: Producer, consumer: Consumer, messages: list[Message], to: str
) -> None:
    """Write what is made of a handful, and how far the group has come: both or neither."""
    producer.begin_transaction()
    for message in messages:
        producer.produce(to, _transform(message), message.key(), partition=message.partition() or 0)
    producer.send_offsets_to_transaction(
        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SECONDS
    )
    producer.commit_transaction(SECONDS)


def verify(bootstrap: str, topic: str, to: str) -> int:
    """Compare the two topics, partition by partition; return the exit code."""
    faults = 0
    total = 0
    for partition in range(PARTITIONS):
        expected = [_transform(each) for each in _read(bootstrap, topic, partition)]
        found = [each.value() or b"" for each in _read(bootstrap, to, partition)]
        total += len(found)
        doubled = sorted(value for value, times in Counter(found).items() if times > 1)
        lost = sorted(set(expected) - set(found))
        strange = sorted(set(found) - set(expected))
        for what, values in (("lost", lost), ("doubled", doubled), ("strange", strange)):
            if values:
                faults += 1
                print(f"partition {partition}: {len(values)} {what}, such as {values[0]!r}")
        if found != expected and not (doubled or lost or strange):
            faults += 1
            print(f"partition {partition}: the order is not that of {topic}")
    if faults:
        return 1
    print(f"every record of {topic} is in {to} once and in order: {total} records")
    return 0


def _transform(message: Message) -> bytes:
    """Return what is made of a record."""
    return b"invoice for " + (message.value() or b"")


def _create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def _is_end(message: Message) -> bool:
    """Tell whether a partition has ended instead of giving a record.

    Raises:
        KafkaException: It has a fault instead.
    """
    fault = message.error()
    if fault is None:
        return False
    if fault.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # it has no other name
        return True
    raise KafkaException(fault)


def _read(bootstrap: str, topic: str, partition: int) -> Iterator[Message]:
    """Yield the committed records of a partition up to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "verify",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    while (message := consumer.poll(SECONDS)) is not None and not _is_end(message):
        yield message
    consumer.close()
    if message is None:
        raise TimeoutError(f"partition {partition} of {topic} has no end")


if __name__ == "__main__":
    sys.exit(main())
