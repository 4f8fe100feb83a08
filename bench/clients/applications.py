"""The applications that are recorded: stock clients at what they mostly do, for some seconds."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer

from tests.support.clients.confluent import Confluent
from tests.support.daemon import Daemon
from tests.support.java_program import run_program
from tests.support.kafka import KafkaJars, KafkaTools
from tests.support.ports import free_ports
from tests.support.waiting import at_least, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

HELPER: Final = "bench-helper"
"""The client that makes topics and feeds them; it is not recorded."""

_SECONDS: Final = 4.0
_RECORDS_A_SECOND: Final = 4000
_VALUE: Final = bytes(range(32, 126)) + b"......"
_STRINGS: Final = "org.apache.kafka.connect.storage.StringConverter"
_TOOL_SECONDS: Final = 180
_LINES: Final = 2000
_APPENDS: Final = 40


@dataclass(frozen=True, slots=True)
class Place:
    """Where an application is recorded."""

    bootstrap: str
    folder: Path
    name: str

    def make_topic(self, partitions: int, suffix: str = "") -> str:
        """Make a topic and return its name."""
        topic = f"mix-{self.name}{suffix}"
        Confluent(self.bootstrap, {"client.id": HELPER}).create(topic, partitions, {})
        return topic

    def tools(self) -> KafkaTools:
        """Return Kafka's tools."""
        return KafkaTools(KafkaJars.find())

    @contextmanager
    def fed(
        self, topic: str, value: bytes = _VALUE, records_a_second: int = _RECORDS_A_SECOND
    ) -> Iterator[None]:
        """Have a producer write to all partitions of a topic, at a steady pace."""
        over = threading.Event()
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "client.id": HELPER, "linger.ms": 5}
        )

        def feed() -> None:
            number = 0
            while not over.wait(0.01):
                for _ in range(records_a_second // 100):
                    producer.produce(topic, value, key=str(number % 997).encode())
                    number += 1
                producer.poll(0)
            producer.flush(60)

        thread = threading.Thread(target=feed, name="feeder", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _java_producer(place: Place, partitions: int) -> None:
    topic = place.make_topic(partitions)
    payload = place.folder / "payload"
    payload.write_bytes(_VALUE + b"\n")
    place.tools().run(
        "ProducerPerformance",
        *("--topic", topic, "--num-records", str(int(_RECORDS_A_SECOND * _SECONDS))),
        *("--throughput", str(_RECORDS_A_SECOND), "--payload-file", str(payload)),
        *("--producer-props", f"bootstrap.servers={place.bootstrap}"),
        timeout=_TOOL_SECONDS,
    )


def _java_keyed_producer(place: Place, partitions: int) -> None:
    place.tools().run(
        "VerifiableProducer",
        *("--bootstrap-server", place.bootstrap, "--topic", place.make_topic(partitions)),
        *("--max-messages", str(int(_RECORDS_A_SECOND * _SECONDS))),
        *("--throughput", str(_RECORDS_A_SECOND), "--repeating-keys", "997"),
        timeout=_TOOL_SECONDS,
    )


def _java_consumer(place: Place, partitions: int) -> None:
    topic = place.make_topic(partitions)
    with place.fed(topic):
        place.tools().run(
            "ConsumerPerformance",
            *("--bootstrap-server", place.bootstrap, "--topic", topic),
            *("--num-records", str(int(_RECORDS_A_SECOND * _SECONDS)), "--group", topic),
            *("--command-property", "auto.commit.interval.ms=500"),
            *("--command-property", "heartbeat.interval.ms=1000"),
            timeout=_TOOL_SECONDS,
        )


def _librdkafka(place: Place) -> None:
    topic = place.make_topic(12)
    at = {"bootstrap.servers": place.bootstrap}
    producer = Producer({**at, "client.id": "librdkafka-producer"})
    consumer = Consumer(
        {
            **at,
            "client.id": "librdkafka-consumer",
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
            "heartbeat.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])
    end, number = time.monotonic() + _SECONDS, 0
    while time.monotonic() < end:
        for _ in range(_RECORDS_A_SECOND // 100):
            producer.produce(topic, _VALUE, key=str(number % 997).encode())
            number += 1
        producer.poll(0)
        consumer.consume(1000, timeout=0.01)
    producer.flush(60)
    consumer.close()


def _aiokafka(place: Place) -> None:
    asyncio.run(_aiokafka_runs(place, place.make_topic(12)))


async def _aiokafka_runs(place: Place, topic: str) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=place.bootstrap, client_id="aiokafka-producer", linger_ms=5
    )
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=place.bootstrap,
        client_id="aiokafka-consumer",
        group_id=topic,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=500,
        heartbeat_interval_ms=1000,
    )
    await producer.start()
    await consumer.start()
    end, number = time.monotonic() + _SECONDS, 0
    while time.monotonic() < end:
        for _ in range(_RECORDS_A_SECOND // 100):
            await producer.send(topic, _VALUE, key=str(number % 997).encode())
            number += 1
        await consumer.getmany(timeout_ms=10)
    await producer.stop()
    await consumer.stop()


def _console(place: Place) -> None:
    topics = [place.make_topic(12, f"-{number}") for number in range(8)]
    group = f"mix-{place.name}"
    helper = Consumer(
        {"bootstrap.servers": place.bootstrap, "client.id": HELPER, "group.id": group,
         "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )  # fmt: skip
    with place.fed(topics[0]):
        helper.subscribe([topics[0]])
        while not helper.consume(100, timeout=1):
            pass
        helper.commit(asynchronous=False)
    helper.close()
    tools, at = place.tools(), ("--bootstrap-server", place.bootstrap)
    for _ in range(2):
        tools.run("TopicCommand", *at, "--describe")
        tools.run("consumer.group.ConsumerGroupCommand", *at, "--describe", "--all-groups")
        tools.run("consumer.group.ConsumerGroupCommand", *at, "--list")


def _streams(place: Place) -> None:
    incoming, outgoing = (place.make_topic(12, suffix) for suffix in ("-lines", "-counts"))
    application = Daemon(place.folder / "streams.log")
    application.launch(
        run_program(
            KafkaJars.find(),
            "WordCount",
            *(place.bootstrap, f"mix-{place.name}", str(place.folder / "state")),
            *(incoming, outgoing, "at_least_once"),
        )
    )
    try:
        application.wait_for("state RUNNING", 60)
        with place.fed(incoming, b"one two", _RECORDS_A_SECOND // 10):
            time.sleep(2 * _SECONDS)
    finally:
        application.terminate(60)


def _connect(place: Place) -> None:
    topic = place.make_topic(12)
    source, sink = place.folder / "source.txt", place.folder / "sink.txt"
    source.touch()
    files = [
        _properties(place, "worker", {
            "bootstrap.servers": place.bootstrap,
            "key.converter": _STRINGS,
            "value.converter": _STRINGS,
            "offset.flush.interval.ms": "500",
            "offset.storage.file.filename": str(place.folder / "offsets"),
            "plugin.discovery": "service_load",
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        }),
        _properties(place, "source", {
            "name": f"{topic}-source", "connector.class": "FileStreamSource", "tasks.max": "1",
            "file": str(source), "topic": topic,
        }),
        _properties(place, "sink", {
            "name": f"{topic}-sink", "connector.class": "FileStreamSink", "tasks.max": "1",
            "file": str(sink), "topics": topic,
        }),
    ]  # fmt: skip
    worker = Daemon(place.folder / "connect.log")
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    worker.launch(KafkaJars.find().command("once", main, *map(str, files)))
    try:
        for _ in range(_APPENDS):
            with source.open("a", encoding="ascii") as stream:
                stream.writelines(f"{_VALUE.hex()}\n" for _ in range(_LINES // _APPENDS))
            time.sleep(_SECONDS / 10)
        wait_until(
            lambda: len(sink.read_bytes().splitlines()) if sink.exists() else 0,
            f"{_LINES} lines that Connect has copied",
            at_least(_LINES),
        )
    finally:
        worker.terminate(60)


def _properties(place: Place, name: str, values: Mapping[str, str]) -> Path:
    path = place.folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()), encoding="ascii")
    return path


APPLICATIONS: Final[dict[str, Callable[[Place], None]]] = {
    "java-producer-12": lambda place: _java_producer(place, 12),
    "java-producer-100": lambda place: _java_producer(place, 100),
    "java-producer-keyed-12": lambda place: _java_keyed_producer(place, 12),
    "java-producer-keyed-100": lambda place: _java_keyed_producer(place, 100),
    "java-consumer-12": lambda place: _java_consumer(place, 12),
    "java-consumer-100": lambda place: _java_consumer(place, 100),
    "librdkafka-12": _librdkafka,
    "aiokafka-12": _aiokafka,
    "console": _console,
    "streams-12": _streams,
    "connect-12": _connect,
}
