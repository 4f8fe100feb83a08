"""Kafka's own producers and consumer on the command line, as people type them."""

import json
import re

import pytest

from tests.clients.conftest import NewTopic
from tests.support.broker import SiltstoneProcess
from tests.support.clients.client import CODECS, Codec
from tests.support.clients.confluent import Confluent
from tests.support.folders import batches, codecs
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.messages import sample

pytestmark = [pytest.mark.client, pytest.mark.java]

Broker = SiltstoneProcess | KafkaBroker
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def consume(
    tools: KafkaTools, broker: Broker, topic: str, offset: int | str, count: int
) -> list[str]:
    """Return the lines that kafka-console-consumer prints of partition 0."""
    shown = ("offset", "timestamp", "headers", "key")
    options = [word for name in shown for word in ("--formatter-property", f"print.{name}=true")]
    return tools.run(
        CONSUMER, "--bootstrap-server", broker.bootstrap, "--topic", topic, "--partition", "0",
        "--offset", str(offset), "--max-messages", str(count), "--timeout-ms", "15000", *options,
    ).splitlines()  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
def test_console_producer_writes_what_console_consumer_reads(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic, codec: Codec
) -> None:
    """Keys, headers and values typed into kafka-console-producer come out of the consumer."""
    topic = new_topic()
    lines = [f"trace:{n},kind:é\tkey-{n}\tvalue {n} {'y' * 60}" for n in range(30)]

    kafka_tools.run(
        "ConsoleProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--compression-codec", codec, "--reader-property", "parse.key=true",
        "--reader-property", "parse.headers=true",
        stdin="\n".join(lines) + "\n",
    )  # fmt: skip
    read = consume(kafka_tools, broker, topic, "earliest", 30)

    expected = [f"Offset:{n}\t{line}" for n, line in enumerate(lines)]
    assert [re.sub(r"CreateTime:\d+\t", "", line, count=1) for line in read] == expected
    assert codecs(broker.folder / f"{topic}-0") == {codec}
    assert {batch.producer_id >= 0 for batch in batches(broker.folder / f"{topic}-0")} == {True}


def test_console_consumer_starts_at_a_partitions_offset(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """`--partition 0 --offset 13` prints offset 13 first, with the producer's timestamp."""
    topic = new_topic()
    messages = [each._replace(key=b"k", value=b"v") for each in sample(20)]
    Confluent(broker.bootstrap).produce(topic, messages, codec="snappy")

    read = consume(kafka_tools, broker, topic, 13, 7)

    assert [line.split("\t")[:2] for line in read] == [
        [f"CreateTime:{each.timestamp}", f"Offset:{offset}"]
        for offset, each in enumerate(messages[13:], 13)
    ]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_performance_tool_writes_every_record(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic, acks: str
) -> None:
    """kafka-producer-perf-test with each acks leaves exactly the records it reports."""
    topic = new_topic()
    idempotent = str(acks == "all").lower()

    said = kafka_tools.run(
        "ProducerPerformance", "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--num-records", "20000", "--record-size", "100", "--throughput", "-1",
        "--command-property", f"acks={acks}", f"enable.idempotence={idempotent}",
        "compression.type=lz4",
    )  # fmt: skip

    assert re.search(r"^20000 records sent, .*99.9th\.$", said, re.MULTILINE)
    assert Confluent(broker.bootstrap).bounds(topic) == (0, 20000)
    written = batches(broker.folder / f"{topic}-0")
    assert sum(batch.records for batch in written) == 20000


def test_verifiable_producer_is_acknowledged_in_order(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """VerifiableProducer gets an offset for each value, and each value is at its offset."""
    topic = new_topic()

    own_jvm = KafkaTools(kafka_tools.jars)  # it waits for its answers when its JVM ends
    said = own_jvm.run(
        "VerifiableProducer", "--bootstrap-server", broker.bootstrap, "--topic", topic,
        "--max-messages", "500", "--acks", "-1",
    )  # fmt: skip

    events = [json.loads(line) for line in said.splitlines()]
    sent = {e["offset"]: e["value"] for e in events if e["name"] == "producer_send_success"}
    read = Confluent(broker.bootstrap).read(topic, 0, 500)
    assert not [event for event in events if event["name"] == "producer_send_error"]
    assert sent == {each.offset: (each.message.value or b"").decode() for each in read}
    assert list(sent) == list(range(500))
