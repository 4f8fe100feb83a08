"""Kafka's tools in one JVM behave as in one of their own."""

import pytest

from tests.support.kafka import KafkaTools

pytestmark = [pytest.mark.client, pytest.mark.java]

STORAGE = "kafka.tools.StorageTool"


def test_each_tool_has_its_own_output(kafka_tools: KafkaTools) -> None:
    """Twice the same tool, whose answers differ."""
    first, second = (kafka_tools.run(STORAGE, "random-uuid").strip() for _ in range(2))

    assert len(first) == len(second) == 22
    assert first != second


def test_a_tool_that_fails_does_not_end_the_others(kafka_tools: KafkaTools) -> None:
    """Its code and its complaint are told; the next tool runs as if nothing had been."""
    failed = kafka_tools.try_run(STORAGE, "format")
    after = kafka_tools.try_run(STORAGE, "random-uuid")

    assert failed.returncode == 1
    assert "--config" in failed.stdout + failed.stderr
    assert (after.returncode, after.stderr) == (0, "")
