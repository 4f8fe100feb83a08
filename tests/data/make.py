"""Lets Apache Kafka write the partition folders that are committed beside this file.

`python -m tests.data.make` from the root, with a JDK and Maven; README.md says what lies in them.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.clients.conftest import settle
from tests.support.clients.client import CODECS
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker, KafkaJars
from tests.support.messages import Message, Stored

HERE = Path(__file__).parent
START = 1_700_000_000_000
DAY = 86_400_000
METADATA = "__cluster_metadata-0"
PARTITIONS = {"customers": 1, "orders": 2, "again": 1}
SETTINGS = {"log.retention.ms": "-1", "log.index.interval.bytes": "512"}


def message(number: int, timestamp: int) -> Message:
    """Return a message that says its number and compresses."""
    return Message(
        key=f"key-{number % 17}".encode(),
        value=None if number % 11 == 0 else f"value {number} ".encode() * (5 + number % 20),
        headers=(("number", str(number).encode()),) if number % 2 else (),
        timestamp=timestamp,
    )


def write_mixed(broker: KafkaBroker) -> None:
    """Write every codec, by idempotent and plain producers, over four segments and two epochs."""
    client = Confluent(broker.bootstrap)
    client.create("mixed", 1, {"segment.ms": "3600000"})
    settle(broker, "mixed", 1)
    number = 0
    for day in range(4):
        for codec in CODECS:
            messages = [message(number + n, START + day * DAY + 1000 * n) for n in range(25)]
            number += len(messages)
            client.produce("mixed", messages, codec=codec, idempotent=day % 2 == 0)
        if day == 1:
            broker.restart()


def write_transactions(broker: KafkaBroker) -> None:
    """Write two committed transactions around an aborted one."""
    Confluent(broker.bootstrap).create("transactions", 1, {})
    settle(broker, "transactions", 1)
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "maker", "linger.ms": 20}
    )
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for n in range(10):
            each = message(10 * number + n, START + 1000 * (10 * number + n))
            producer.produce(
                "transactions", key=each.key, value=each.value, headers=list(each.headers),
                timestamp=each.timestamp, partition=0,
            )  # fmt: skip
        producer.flush(30)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)


def write_settings(broker: KafkaBroker) -> None:
    """Make topics, alter their settings, and delete and make one of them again."""
    client = Confluent(broker.bootstrap)
    own = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25", "retention.ms": "-1"}
    client.create("customers", 1, own)
    client.create("orders", 2, {})
    client.create("again", 1, {"retention.ms": "1000"})
    alter(broker, "customers", "retention.ms", None)
    altered = {
        "message.timestamp.type": "LogAppendTime",
        "retention.ms": "86400000",
        "unclean.leader.election.enable": "true",
    }
    for name, value in altered.items():
        alter(broker, "orders", name, value)
    settle(broker, "again", 1)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["again"])["again"].result(30)
    client.create("again", 1, {"segment.ms": "7200000"})
    for name, partitions in PARTITIONS.items():
        settle(broker, name, partitions)


def alter(broker: KafkaBroker, topic: str, name: str, value: str | None) -> None:
    """Give a topic a setting of its own, or take it away."""
    kind = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(name, value, incremental_operation=kind)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def copy_settings(broker: KafkaBroker) -> None:
    """Copy logs and names of what a log directory consists of, without what each start makes."""
    target = HERE / "settings"
    shutil.rmtree(target, ignore_errors=True)
    folders = [f"{name}-{at}" for name, count in PARTITIONS.items() for at in range(count)]
    for folder in folders:
        (target / folder).mkdir(parents=True)
        shutil.copy(broker.folder / folder / "partition.metadata", target / folder)
    for folder in (*folders, METADATA):
        (target / folder).mkdir(exist_ok=True)
        for log in (broker.folder / folder).glob("*.log"):
            shutil.copy(log, target / folder)


def as_json(record: Stored) -> str:
    """Return a record as one line; everything in it is ASCII."""

    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode("ascii")

    message = record.message
    return json.dumps(
        {
            "offset": record.offset,
            "timestamp": message.timestamp,
            "key": text(message.key),
            "value": text(message.value),
            "headers": [[name, text(value)] for name, value in message.headers],
        }
    )


def main() -> int:
    """Write the folders and what Kafka's own broker serves of them."""
    with tempfile.TemporaryDirectory() as scratch:
        broker = KafkaBroker(KafkaJars.find(), Path(scratch), SETTINGS).start()
        try:
            write_mixed(broker)
            write_transactions(broker)
            client = Confluent(broker.bootstrap)
            served = {
                "mixed": client.read("mixed", 0, 500),
                "transactions": client.read("transactions", 0, 20),
            }
            broker.stop()
        finally:
            broker.close()
        others = KafkaBroker(KafkaJars.find(), Path(scratch) / "settings", {}).start()
        try:
            write_settings(others)
            others.stop()
            copy_settings(others)
        finally:
            others.close()
        for topic, records in served.items():
            target = HERE / f"{topic}-0"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(broker.folder / target.name, target)
            lines = (f"{as_json(record)}\n" for record in records)
            (HERE / f"{topic}.jsonl").write_text("".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
