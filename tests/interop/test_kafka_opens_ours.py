"""Apache Kafka, started on a copy of our partition folders."""

import shutil

import pytest
from confluent_kafka import KafkaException

from tests.clients.conftest import settle
from tests.interop.conftest import TOPICS, Broker, messages
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.folders import segments
from tests.support.kafka import KafkaBroker
from tests.support.messages import stored
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.timeout(180)]

KEPT = {"log.retention.bytes": "-1", "log.retention.ms": "-1"}


@pytest.fixture
def kafka_on_ours(lived_in: Broker, kafka_broker: KafkaBroker) -> KafkaBroker:
    """Kafka with our folders in the place of its own, and no mark of a clean stop."""
    if not isinstance(lived_in, SiltstoneProcess):
        pytest.skip("siltstone: this run is against Apache Kafka alone")
    kafka_broker.settings.update(KEPT)
    kafka_broker.start()
    client = Confluent(kafka_broker.bootstrap)
    for topic in TOPICS:
        client.create(topic, 1, {"cleanup.policy": TOPICS[topic].get("cleanup.policy", "delete")})
        settle(kafka_broker, topic, 1)
    kafka_broker.stop()
    for topic in TOPICS:
        theirs = kafka_broker.folder / f"{topic}-0"
        identity = (theirs / "partition.metadata").read_bytes()
        shutil.rmtree(theirs)
        shutil.copytree(lived_in.folder / theirs.name, theirs)
        (theirs / "partition.metadata").write_bytes(identity)
    (kafka_broker.folder / ".kafka_cleanshutdown").unlink()
    # Kafka reads recovery and start offsets from its own checkpoints: it must recover everything.
    for checkpoint in kafka_broker.folder.glob("*-offset-checkpoint"):
        checkpoint.unlink()
    kafka_broker.start()
    for topic in TOPICS:
        _wait_for_leader(kafka_broker, topic)
    return kafka_broker


def _wait_for_leader(broker: KafkaBroker, topic: str) -> None:
    """Give Kafka, which says that it serves before it does, the time to lead a partition."""
    client = Confluent(broker.bootstrap)
    wait_until(lambda: client.bounds(topic), f"a leader of {topic}", despite=KafkaException)


def test_kafka_serves_the_same_records(kafka_on_ours: KafkaBroker, lived_in: Broker) -> None:
    """After recovering our folders from scratch, Kafka serves what we serve, record for record."""
    files = {topic: segments(lived_in.folder / f"{topic}-0") for topic in TOPICS}
    sizes = {
        path.relative_to(lived_in.folder): path.stat().st_size
        for paths in files.values()
        for path in paths
    }
    theirs = Confluent(kafka_on_ours.bootstrap)
    lived_in.start()
    ours = Confluent(lived_in.bootstrap)

    for topic in TOPICS:
        low, high = ours.bounds(topic)
        assert theirs.bounds(topic) == (int(files[topic][0].stem), high)
        assert theirs.read(topic, low, high - low) == ours.read(topic, low, high - low)
    for path, size in sizes.items():
        assert (kafka_on_ours.folder / path).stat().st_size == size
    lived_in.stop()


def test_kafka_goes_on_writing(kafka_on_ours: KafkaBroker) -> None:
    """Kafka appends to our folders where we left off.

    Not idempotently: a new Kafka hands out producer ids that our folders know already.
    """
    client = Confluent(kafka_on_ours.bootstrap)
    records = messages()
    _, end = client.bounds("mixed")

    offsets = client.produce("mixed", records, codec="lz4")

    assert offsets == list(range(end, end + len(records)))
    assert client.read("mixed", end, len(records)) == stored(records, end)
