"""Stock clients push their metrics when a subscription asks for them (KIP-714)."""

import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaTools
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow]


@pytest.fixture
def asking(tmp_path: Path, kafka_tools: KafkaTools) -> Iterator[SiltstoneProcess]:
    """A broker that asks each client for all metrics, each second."""
    made = SiltstoneProcess(tmp_path / "broker").start()
    at = ("--bootstrap-server", made.bootstrap, "--name", "all")
    try:
        kafka_tools.run(
            "ClientMetricsCommand", *at, "--alter", "--metrics", "*", "--interval", "1000"
        )
        assert "interval.ms=1000" in kafka_tools.run("ClientMetricsCommand", *at, "--describe")
        yield made
    finally:
        made.close()


def pushed(broker: SiltstoneProcess, name: str) -> list[str]:
    """Return the series of the page whose names begin so."""
    with urllib.request.urlopen(f"http://{broker.http}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return [line for line in lines if line.startswith(f"siltstone_client_{name}")]


def test_librdkafka_pushes(asking: SiltstoneProcess) -> None:
    """Its name of the client is a label."""
    producer = Producer({"bootstrap.servers": asking.bootstrap, "client.id": "shop-7"})
    producer.produce("orders", b"value")
    assert producer.flush(50) == 0

    lines = wait_until(lambda: pushed(asking, "producer"), "series of the producer")

    assert any('client_id="shop-7"' in line for line in lines)


def test_the_java_client_pushes(asking: SiltstoneProcess, kafka_tools: KafkaTools) -> None:
    """A consumer that waits for a record pushes meanwhile."""
    arguments = (
        "--bootstrap-server", asking.bootstrap, "--topic", "orders", "--group", "billing",
        "--timeout-ms", "15000",
    )  # fmt: skip
    with ThreadPoolExecutor(1) as beside:
        ended = beside.submit(kafka_tools.try_run, "consumer.ConsoleConsumer", *arguments)
        lines = wait_until(lambda: pushed(asking, "consumer"), "series of the consumer")
        ended.result()

    assert any('group_id="billing"' in line for line in lines)
