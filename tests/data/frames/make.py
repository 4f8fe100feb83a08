"""Records what five client libraries say to Apache Kafka, and what it answers.

``python -m tests.data.frames.make`` from the root writes the files beside this one; it needs a JDK,
Maven and Go, which fetches franz-go. README.md says what lies in them.
"""

import asyncio
import json
import lzma
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import confluent_kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from bench.clients.recorder import Exchange, Recorder
from tests.support.clients.aiokafka_client import Aiokafka
from tests.support.clients.client import Client
from tests.support.clients.confluent import Confluent
from tests.support.clients.kafka_python import KafkaPython
from tests.support.kafka import KafkaBroker, KafkaJars, KafkaTools
from tests.support.messages import sample
from tests.support.ports import address_of
from tests.support.waiting import wait_until
from tools.compat.franz_go import MODULE, VERSION

HERE: Final = Path(__file__).parent
_JVM_SECONDS: Final = 120
_GO_SECONDS: Final = 600
_RECORDS: Final = 200
_KAFKAS_OWN: Final = (b"AddPartitionsManager", b"broker-")
"""Clients that Kafka's broker is itself, of its own transaction coordinator and log."""


def _talk(client: Client, topic: str) -> None:
    """Do with a topic what every client library can."""
    client.create(topic, 2, {"segment.bytes": "2000000"})
    client.produce(topic, sample(20), codec="none", acks=1)
    client.produce(topic, sample(20), codec="gzip", idempotent=True)
    client.read(topic, 0, 40)
    client.read_from_time(topic, sample(20)[10].timestamp, 10)
    client.bounds(topic)
    client.partitions(topic)
    client.add_partitions(topic, 3)
    client.topics()
    client.alter(topic, {"max.message.bytes": "2000000"})
    client.configs(topic)


def _end_talk(client: Client, topic: str) -> None:
    client.delete_records(topic, 10)
    client.delete(topic)


def librdkafka(bootstrap: str) -> None:
    """Speak as librdkafka: a group of each protocol, and a transaction."""
    topic, client = "librdkafka", Confluent(bootstrap)
    _talk(client, topic)
    for protocol in ("classic", "consumer"):
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-{protocol}",
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **({"heartbeat.interval.ms": 300} if protocol == "classic" else {}),
            }
        )
        consumer.subscribe([topic])
        wait_until(partial(consumer.consume, 10, timeout=1), "the first records")
        time.sleep(1)
        consumer.commit(asynchronous=False)
        consumer.committed(consumer.assignment(), timeout=10)
        consumer.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for is_good in (True, False):
        producer.begin_transaction()
        producer.produce(topic, b"sure", b"key")
        producer.flush(30)
        (producer.commit_transaction if is_good else producer.abort_transaction)(30)
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    admin.list_consumer_groups().result()
    admin.describe_consumer_groups([f"{topic}-classic"])[f"{topic}-classic"].result()
    admin.describe_cluster().result()
    admin.delete_consumer_groups([f"{topic}-classic"])[f"{topic}-classic"].result()
    _end_talk(client, topic)


def kafka_python(bootstrap: str) -> None:
    """Speak as kafka-python: a group, and a transaction."""
    topic, client = "kafka-python", KafkaPython(bootstrap)
    _talk(client, topic)
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
    )
    wait_until(lambda: consumer.poll(500), "the first records")
    consumer.poll(1000)
    consumer.commit()
    consumer.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    producer.init_transactions()
    for is_good in (True, False):
        producer.begin_transaction()
        producer.send(topic, b"sure", b"key").get(30)
        (producer.commit_transaction if is_good else producer.abort_transaction)()
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.describe_cluster()
    admin.close()
    _end_talk(client, topic)


def aiokafka(bootstrap: str) -> None:
    """Speak as aiokafka: a group, and a transaction."""
    topic, client = "aiokafka", Aiokafka(bootstrap)
    _talk(client, topic)
    asyncio.run(_aiokafka_group(bootstrap, topic))
    _end_talk(client, topic)


async def _aiokafka_group(bootstrap: str, topic: str) -> None:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=300,
    )
    await consumer.start()
    await consumer.getmany(timeout_ms=5000)
    await asyncio.sleep(1)
    await consumer.commit()
    await consumer.stop()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=topic)
    await producer.start()
    for is_good in (True, False):
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"sure", b"key")
        await (producer.commit_transaction() if is_good else producer.abort_transaction())
    await producer.stop()


def franz_go(bootstrap: str) -> None:
    """Speak as franz-go: talk.go."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(HERE / "talk.go", folder / "main.go")
        for command in (
            ("go", "mod", "init", "talk"),
            ("go", "mod", "edit", f"-require={MODULE}@{VERSION}"),
            ("go", "mod", "tidy"),
            ("go", "run", ".", bootstrap),
        ):
            subprocess.run(command, cwd=folder, check=True, timeout=_GO_SECONDS)


def java(bootstrap: str) -> None:
    """Speak as Kafka's own tools."""
    tools, topic, at = KafkaTools(KafkaJars.find()), "java", ("--bootstrap-server", bootstrap)

    def run(tool: str, *arguments: str) -> None:
        tools.run(tool, *arguments, timeout=_JVM_SECONDS)

    run("TopicCommand", *at, "--create", "--topic", topic, "--partitions", "2")
    run(
        "VerifiableProducer",
        *(*at, "--topic", topic, "--max-messages", str(_RECORDS), "--repeating-keys", "7"),
    )
    run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(_RECORDS), "--throughput", "-1"),
        *("--record-size", "50", "--transactional-id", topic, "--transaction-duration-ms", "100"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "compression.type=lz4"),
    )
    for protocol in ("classic", "consumer"):
        run(
            "ConsumerPerformance",
            *(*at, "--topic", topic, "--num-records", str(_RECORDS)),
            *("--group", f"{topic}-{protocol}"),
            *("--command-property", f"group.protocol={protocol}"),
        )
    groups = "consumer.group.ConsumerGroupCommand"
    run(groups, *at, "--describe", "--all-groups")
    run(
        groups,
        *(*at, "--reset-offsets", "--group", f"{topic}-classic", "--to-earliest"),
        *("--topic", topic, "--execute"),
    )
    run(groups, *at, "--delete", "--group", f"{topic}-classic")
    run("TopicCommand", *at, "--alter", "--topic", topic, "--partitions", "3")
    run("TopicCommand", *at, "--describe")
    run(
        "org.apache.kafka.tools.ConfigCommand",
        *(*at, "--alter", "--topic", topic, "--add-config", "retention.ms=10000000"),
    )
    run("GetOffsetShell", *at, "--topic", topic)
    run("LogDirsCommand", *at, "--describe", "--topic-list", topic)
    run("TransactionsCommand", *at, "list")
    run("TransactionsCommand", *at, "describe", "--transactional-id", topic)
    run("TransactionsCommand", *at, "describe-producers", "--topic", topic, "--partition", "0")
    run("MetadataQuorumCommand", *at, "describe", "--status")
    run("FeatureCommand", *at, "describe")
    run("TopicCommand", *at, "--delete", "--topic", topic)


CLIENTS: Final[dict[str, Callable[[str], None]]] = {
    "java": java,
    "librdkafka": librdkafka,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "franz-go": franz_go,
}


def kept(exchanges: Iterable[Exchange]) -> list[dict[str, Any]]:
    """Return the first and the largest exchange of each version of each API, in their order."""
    first: dict[tuple[int, int], Exchange] = {}
    largest: dict[tuple[int, int], Exchange] = {}
    for each in exchanges:
        if not each.answer or each.request[14:].startswith(_KAFKAS_OWN):
            continue
        key = (int.from_bytes(each.request[4:6], "big"), int.from_bytes(each.request[6:8], "big"))
        first.setdefault(key, each)
        if key not in largest or _size(each) > _size(largest[key]):
            largest[key] = each
    chosen = {id(each): each for each in (*first.values(), *largest.values())}
    return [
        {"request": each.request.hex(), "answer": each.answer.hex()}
        for each in sorted(chosen.values(), key=lambda each: each.at)
    ]


def _size(exchange: Exchange) -> int:
    return len(exchange.request) + len(exchange.answer)


def main() -> None:
    """Record each client on a broker of its own, or those that are named."""
    for name in sys.argv[1:] or CLIENTS:
        with tempfile.TemporaryDirectory() as folder, Recorder() as recorder:
            address = f"PLAINTEXT://{recorder.bootstrap}"
            settings = {"advertised.listeners": address, "offsets.topic.num.partitions": "4"}
            broker = KafkaBroker(KafkaJars.find(), Path(folder), settings)
            try:
                broker.start(_JVM_SECONDS)
                recorder.upstream = address_of(broker.bootstrap)
                CLIENTS[name](recorder.bootstrap)
            finally:
                broker.close()
            lines = [json.dumps(each) for each in kept(recorder.exchanges)]
        (HERE / f"{name}.jsonl.xz").write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


if __name__ == "__main__":
    main()
