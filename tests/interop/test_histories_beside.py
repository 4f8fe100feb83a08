"""Random histories are answered by our broker as by Apache Kafka, request for request.

`BESIDE` says how many, `BESIDE_SEED` with which they begin. `make beside` plays more.
"""

import os

import pytest

from tests.simulator.beside.__main__ import play
from tests.support.kafka import KafkaJars

COUNT = int(os.environ.get("BESIDE") or 4)
FIRST = int(os.environ.get("BESIDE_SEED") or 0)

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(600)]


def test_histories_beside_kafka(kafka_jars: KafkaJars) -> None:
    """All that clients of a history are told, and all that is readable at its end."""
    played = list(play(kafka_jars, range(FIRST, FIRST + COUNT)))

    assert [(seed, each) for seed, _, found in played for each in found] == []
    assert sum(requests for _, requests, _ in played) > 100 * COUNT
