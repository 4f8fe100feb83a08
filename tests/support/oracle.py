"""The broker that client tests talk to: ours, or with ``--broker=kafka`` Apache Kafka in its place.

A test that fails with Apache Kafka is wrong, or expects something that ours should not do.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker

Broker = SiltstoneProcess | KafkaBroker
AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
"""A group waits for no more members; by default it does for 3 s. `KafkaBroker` has the same."""


def is_kafka(request: pytest.FixtureRequest) -> bool:
    """Tell whether this run tests Apache Kafka."""
    return bool(request.config.getoption("--broker") == "kafka")


def make_broker(
    request: pytest.FixtureRequest, root: Path, settings: Mapping[str, str] | None = None
) -> Broker:
    """Return the broker of this run, not yet started."""
    if is_kafka(request):
        return KafkaBroker(request.getfixturevalue("kafka_jars"), root, settings)
    return SiltstoneProcess(root, {**AT_ONCE, **(settings or {})})


@contextmanager
def serving(
    request: pytest.FixtureRequest, root: Path, settings: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Run the broker of this run; at the end it must stop cleanly, without a traceback."""
    running = make_broker(request, root, settings)
    try:
        running.start()
        yield running
        code = running.stop()
    finally:
        running.close()

    assert code == 0
    assert "Traceback" not in running.daemon.printed()
