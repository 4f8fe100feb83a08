"""Internal topics as kafka-console-consumer's formatters print them."""

import json
from collections.abc import Callable
from typing import Any

from tests.support.kafka import KafkaTools

SILENCES_MS = (4000, 25_000)
"""How long the tool waits for one more record; a busy machine may need long for the first."""

Record = dict[str, Any]


def read_formatted(
    tools: KafkaTools, bootstrap: str, topic: str, formatter: str, is_mine: Callable[[Record], bool]
) -> list[Record]:
    """Return the wanted records; wait through a longer silence if the short one ended too soon."""
    mine: list[Record] = []
    for silence in SILENCES_MS:
        printed = tools.run(
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", bootstrap, "--topic", topic, "--from-beginning"),
            *("--timeout-ms", str(silence)),
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}MessageFormatter"),
            timeout=100,
        )
        mine = [each for each in _objects(printed) if is_mine(each)]
        if mine:
            break
    return mine


def _objects(printed: str) -> list[Record]:
    """Return the JSON objects, which follow each other without line breaks."""
    found, position = [], printed.find("{")
    while position >= 0:
        each, end = json.JSONDecoder().raw_decode(printed, position)
        found.append(each)
        position = printed.find("{", end)
    return found
