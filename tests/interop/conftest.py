"""A folder of our broker with a past: mixed load, rolls, retention, deletion and a kill."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import CODECS, Codec
from tests.support.clients.confluent import Confluent
from tests.support.folders import segments
from tests.support.kafka import KafkaBroker
from tests.support.load import CONNECTION, Load, read_all
from tests.support.messages import Message, sample
from tests.support.waiting import wait_until

Broker = SiltstoneProcess | KafkaBroker
SETTINGS = {
    # What compaction makes of a folder is the cleaner's tests' to judge.
    "log.cleaner.enable": "false",
    "log.index.interval.bytes": "512",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "200",
}
SMALL = {"log.segment.bytes": "20000"}
TOPICS = {
    "mixed": {},
    "keyed": {"cleanup.policy": "compact"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "packed": {"compression.type": "zstd"},
    "limited": {"retention.bytes": "10000"},
    "beheaded": {},
}


@pytest.fixture(scope="session")
def lived_in(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A stopped broker whose folder went through all that a folder goes through."""
    root = tmp_path_factory.mktemp("lived-in")
    broker: Broker
    if request.config.getoption("--broker") == "kafka":
        broker = KafkaBroker(request.getfixturevalue("kafka_jars"), root, SETTINGS)
    else:
        broker = SiltstoneProcess(root, {**SETTINGS, **SMALL})
    try:
        broker.start()
        live(broker)
        assert broker.stop() == 0
        assert "Traceback" not in broker.daemon.output.read_text()
        yield broker
    finally:
        broker.close()


def partition_folders(broker: Broker) -> list[Path]:
    """Return the folders of the topics above."""
    return [broker.folder / f"{topic}-0" for topic in TOPICS]


def live(broker: Broker) -> None:
    """Load every topic in rounds, kill the broker in the middle of the second."""
    client = Confluent(broker.bootstrap, CONNECTION)
    for topic, configs in TOPICS.items():
        client.create(topic, 1, configs)
    written = dict.fromkeys(TOPICS, 0)
    for topic in TOPICS:
        for number, codec in enumerate(CODECS * 2):
            written[topic] += produce(client, topic, codec, idempotent=number % 5 == 0)
    kill_under_load(broker)
    assert client.delete_records("beheaded", 333) == 333
    for topic in TOPICS:
        for codec in CODECS:
            written[topic] += produce(client, topic, codec, idempotent=codec == "lz4")
    for topic in set(TOPICS) - {"mixed", "limited"}:
        assert client.bounds(topic) == (333 if topic == "beheaded" else 0, written[topic])
    if isinstance(broker, SiltstoneProcess):
        await_retention(client, broker.folder / "limited-0")


def produce(client: Confluent, topic: str, codec: Codec, *, idempotent: bool) -> int:
    """Write 60 keyed records with a codec."""
    records = messages()
    client.produce(topic, records, codec=codec, idempotent=idempotent)
    return len(records)


def messages() -> list[Message]:
    """Return the sample with a key on every record."""
    return [each._replace(key=each.key or b"key") for each in sample()]


def kill_under_load(broker: Broker) -> None:
    """Kill the broker while a producer writes to `mixed`, start it, and finish the load."""
    loads = [Load(codec, broker.bootstrap, "mixed", 1, codec) for codec in ("none", "zstd", "gzip")]
    numbers = Random(3)
    for _ in range(10):
        for load in loads:
            load.send(30, numbers)
    assert loads[0].producer.flush(30) == 0
    for load in loads:
        load.send(300, numbers)
    broker.kill()
    broker.start()
    for load in loads:
        load.finish()
    there = read_all(broker.bootstrap, loads[0].places)
    for load in loads:
        load.check(there)


def await_retention(client: Confluent, folder: Path) -> None:
    """Wait until size retention has cut the oldest segments and unlinked them."""
    wait_until(
        lambda: (client.bounds("limited")[0], list(folder.glob("*.deleted"))),
        "a start offset that has moved, and no deleted file that is left",
        lambda seen: seen[0] > 0 and not seen[1],
    )
    assert sum(path.stat().st_size for path in segments(folder)) < 30_000
