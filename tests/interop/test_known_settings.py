"""The table of Apache Kafka's settings, `known.tsv`, beside the settings of its own jars."""

import pytest

from siltstone.config.known import known_settings
from tests.support.java_program import run_program
from tests.support.kafka import KafkaJars
from tests.support.programs import run_to_end

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow]


def test_every_broker_setting_is_known_as_kafka_has_it(kafka_jars: KafkaJars) -> None:
    """Each name comes with its type and default, and whether it can be altered live."""
    command = run_program(kafka_jars, "BrokerSettings")
    printed = run_to_end(command, check=True).stdout

    kafkas = {line.partition("\t")[0]: line for line in printed.splitlines()}
    ours = {
        known.name: "\t".join(
            (
                known.name,
                known.kind.name,
                "null" if known.default is None else known.default,
                known.status,
                "fixed" if known.alterable == "-" else "alterable",
            )
        )
        for known in known_settings("broker").values()
        if known.name in kafkas
    }

    assert len(kafkas) > 300
    assert ours == kafkas
