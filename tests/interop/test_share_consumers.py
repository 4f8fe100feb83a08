"""Java's share consumers work a topic off: each record is accepted once, also if one is killed."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaJars
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]

COUNT: Final = 100_000
SECONDS: Final = 150
MOST_UNTOLD: Final = 2_000
"""Records that a killed consumer has acknowledged without telling: what one poll returns."""
TOOL: Final = "org.apache.kafka.tools.VerifiableShareConsumer"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SiltstoneProcess]:
    """A broker with a topic of many records; locks run out soon."""
    settings = {
        "group.share.min.record.lock.duration.ms": "1000",
        "group.share.record.lock.duration.ms": "5000",
        "share.coordinator.state.topic.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
    }
    process = SiltstoneProcess(tmp_path / "broker", settings).start()
    Confluent(process.bootstrap).create("jobs", 2, {})
    producer = Producer({"bootstrap.servers": process.bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(COUNT):
        producer.produce("jobs", b"%d" % number, partition=number % 2)
        producer.poll(0)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()
    yield process
    process.close()


@pytest.mark.parametrize(("count", "killed"), [(1, 0), (4, 0), (4, 1)])
def test_each_record_is_accepted_once(
    kafka_jars: KafkaJars, tmp_path: Path, broker: SiltstoneProcess, count: int, killed: int
) -> None:
    """A killed consumer may have had an acknowledgement accepted of which it could not tell."""
    outputs = [tmp_path / f"{number}.json" for number in range(count)]
    with ExitStack() as stack:
        consumers = [
            stack.enter_context(_consumer(kafka_jars, broker, output)) for output in outputs
        ]
        if killed:
            first = wait_until(lambda: _find_busy(outputs), "a consumer with records", bool)[0]
            consumers[first].kill()
        known = wait_until(
            lambda: Counter(each for output in outputs for each in _accepted(output)),
            f"{COUNT} records",
            lambda found: len(found) + killed * MOST_UNTOLD >= COUNT,
            timeout=SECONDS,
        )

    assert max(known.values()) == 1
    assert killed or len(known) == COUNT


@contextmanager
def _consumer(
    jars: KafkaJars, broker: SiltstoneProcess, output: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    arguments = ("--bootstrap-server", broker.bootstrap, "--topic", "jobs", "--group-id", "g")
    command = jars.command(
        "once",
        TOOL,
        *arguments,
        "--acknowledgement-mode",
        "sync",
        "--offset-reset-strategy",
        "earliest",
    )
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _accepted(output: Path) -> list[tuple[int, int]]:
    """Return the records that a consumer says it has acknowledged."""
    found: list[tuple[int, int]] = []
    for line in output.read_text().splitlines():
        event = _read(line)
        if event.get("name") == "offsets_acknowledged" and event["success"]:
            found += [
                (each["partition"], offset)
                for each in event["partitions"]
                for offset in each["offsets"]
            ]
    return found


def _read(line: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:  # its end is not written yet
        return {}
    return found


def _find_busy(outputs: Sequence[Path]) -> list[int]:
    """Return the numbers of the consumers that have acknowledged anything."""
    return [number for number, output in enumerate(outputs) if _accepted(output)]
