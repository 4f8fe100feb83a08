"""Kafka's own tools for transactions and features, as people type them."""

import re

import pytest

from tests.clients.conftest import NewTopic
from tests.support.broker import SiltstoneProcess
from tests.support.clients.transactional import Confluent, read
from tests.support.formatters import read_formatted
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.client, pytest.mark.java]

Broker = SiltstoneProcess | KafkaBroker
TOOL = "TransactionsCommand"
STATES = ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
"""Of a transaction in its journal, as 4.4.0's formatters name them; 4.3.1's print numbers."""


def test_transactions_tool_lists_and_describes(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-transactions list, with filters; describe; describe-producers."""
    topic = new_topic(partitions=2)
    at = ("--bootstrap-server", broker.bootstrap)
    confluent = Confluent(broker.bootstrap)
    confluent.write(f"{topic}-done", topic, [([b"done"], True)])
    running = confluent.producer(f"{topic}-open")
    running.begin_transaction()
    running.produce(topic, b"open", partition=1)
    running.flush(PATIENCE)

    listed = kafka_tools.run(TOOL, *at, "list")
    described = kafka_tools.run(TOOL, *at, "describe", "--transactional-id", f"{topic}-open")
    producers = kafka_tools.run(
        TOOL, *at, "describe-producers", "--topic", topic, "--partition", "1"
    )
    running.abort_transaction(PATIENCE)
    by_pattern = kafka_tools.run(TOOL, *at, "list", "--transactional-id-pattern", f"{topic}-o.*")

    states = dict(re.findall(rf"({topic}-\w+)\s+\d+\s+\d+\s+(\w+)", listed))
    assert states[f"{topic}-done"] == "CompleteCommit"
    assert states[f"{topic}-open"] == "Ongoing"
    assert re.search(
        rf"{topic}-open\s+\d+\s+0\s+Ongoing\s+30000\s+\d+\s+\d+\s+{topic}-1", described
    )
    assert re.search(r"^\d+\s+0\s+-?\d+\s+0\s+\d+\s+0\s*$", producers, re.MULTILINE)
    assert re.findall(rf"^{topic}-\w+", by_pattern, re.MULTILINE) == [f"{topic}-open"]


def test_transactions_tool_aborts_what_hangs(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """Its abort writes the marker by the producer's id, and readers of committed records get on."""
    topic = new_topic(partitions=2)
    at = ("--bootstrap-server", broker.bootstrap)
    confluent = Confluent(broker.bootstrap)
    hanging = confluent.producer(f"{topic}-hanging")
    hanging.begin_transaction()
    hanging.produce(topic, b"hanging", partition=0)
    hanging.flush(PATIENCE)
    confluent.write(f"{topic}-done", topic, [([b"done"], True)])
    before = read(broker.bootstrap, topic, committed=True)

    kafka_tools.run(TOOL, *at, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")

    assert before == []
    shown = wait_until(lambda: read(broker.bootstrap, topic, committed=True), "a committed record")
    assert shown == [b"done"]


def test_transactions_tool_finds_no_hanging_ones_where_there_are_none(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """Its find-hanging asks for producers, transactions and ids, and gets all of them."""
    topic = new_topic(partitions=2)
    Confluent(broker.bootstrap).write(f"{topic}-done", topic, [([b"done"], True)])

    found = kafka_tools.run(
        TOOL,
        *("--bootstrap-server", broker.bootstrap, "find-hanging", "--topic", topic),
        *("--max-transaction-timeout", "1"),
    )

    assert re.search(r"Topic\s+Partition\s+ProducerId", found)
    assert topic not in found


def test_the_journal_is_read_by_kafkas_consumer(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-console-consumer with the formatter of __transaction_state."""
    topic = new_topic(partitions=2)
    Confluent(broker.bootstrap).write(topic, topic, [([b"done"], True)])

    records = read_formatted(
        kafka_tools,
        broker.bootstrap,
        "__transaction_state",
        "TransactionLog",
        lambda record: record["key"]["data"]["transactionalId"] == topic,
    )

    mine = [record["value"]["data"] for record in records]
    assert [each["transactionStatus"] for each in mine] == STATES
    assert mine[1]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]


def test_the_journal_is_read_by_kafkas_dump_tool(
    broker: Broker, kafka_tools: KafkaTools, new_topic: NewTopic
) -> None:
    """kafka-dump-log --transaction-log-decoder understands every key and value."""
    topic = new_topic(partitions=2)
    Confluent(broker.bootstrap).write(topic, topic, [([b"done"], True)])
    (journal,) = (
        path
        for path in broker.folder.glob("__transaction_state-*/*.log")
        if topic.encode() in path.read_bytes()
    )

    printed = kafka_tools.run(
        "DumpLogSegments", "--files", str(journal), "--transaction-log-decoder"
    )

    lines = [line for line in printed.splitlines() if f'"transactionalId":"{topic}"' in line]
    assert [re.findall(r'"transactionStatus":"(\w+)"', line) for line in lines] == [
        [state] for state in STATES
    ]


def test_features_tool_shows_and_changes_levels(broker: Broker, kafka_tools: KafkaTools) -> None:
    """kafka-features describe, downgrade and upgrade; what is refused has a reason."""
    at = ("--bootstrap-server", broker.bootstrap)

    def level(feature: str) -> str | None:
        described = kafka_tools.run("FeatureCommand", *at, "describe")
        found = re.search(rf"Feature: {feature}\s.*FinalizedVersionLevel: (\d+)", described)
        return found and found[1]

    before = level("transaction.version")
    kafka_tools.run("FeatureCommand", *at, "downgrade", "--feature", "transaction.version=1")
    lowered = level("transaction.version")
    kafka_tools.run("FeatureCommand", *at, "upgrade", "--feature", "transaction.version=2")
    refused = kafka_tools.try_run(
        "FeatureCommand", *at, "upgrade", "--feature", "transaction.version=9"
    )

    assert (before, lowered, level("transaction.version")) == ("2", "1", "2")
    assert refused.returncode != 0
    assert "transaction.version" in refused.stdout + refused.stderr
