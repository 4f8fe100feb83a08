"""librdkafka: the tests in C of its own runner, by their numbers up to 0069.

The sources, with the tests, come from the package for Node.js, which has the whole release.
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.support.kafka import TOOLS, KafkaJars
from tools.compat.suite import Outcome, cached, execute, prepare, tool, unpack

VERSION = "2.15.1"
PACKAGE = "@confluentinc/kafka-javascript@1.10.1"
ARCHIVE = "confluentinc-kafka-javascript-1.10.1.tgz"
SHA256 = "ada7d703bb1d3237e2292bfabf438d663b6160c9f1ac2a2406b5dc4257c81b66"
LAST = "0069"
KIP_848 = "kip-848/"
IN_GROUPS = (  # run once more with consumers in the protocol of KIP-848
    *("0018", "0019", "0020", "0022", "0026", "0029", "0030", "0033", "0034", "0040"),
    *("0050", "0051", "0056", "0059", "0061", "0067", "0069"),
)
TIMEOUT = 600  # seconds a test: some produce for minutes
CONFIGURE = ("./configure", "--disable-gssapi", "--disable-curl")
COLOUR = re.compile("\x1b\\[[\\d;]*m")
ENDED = re.compile(r"^\| (\d{4})_\w+ +\| +(\w+) ", re.MULTILINE)  # a line of the runner's summary


class Librdkafka:
    """The program test-runner; each number stands for all functions whose names begin with it."""

    name: ClassVar[str] = "librdkafka"
    settings: ClassVar[Mapping[str, str] | None] = {
        "num.partitions": "4",  # as in the suite's own clusters
        "log.retention.ms": "-1",  # 0052 writes records of 1970
    }

    def __init__(self) -> None:
        self._tests = Path()
        self._kafka = Path()

    def build(self) -> None:
        """Unpack the sources, compile the library and the runner; needs Kafka's jars as well."""
        folder = cached(f"librdkafka-{VERSION}")
        sources = folder / "package" / "deps" / "librdkafka"
        self._tests = sources / "tests"
        self._kafka = folder / "kafka"
        _write_kafka_topics(self._kafka)
        if (self._tests / "test-runner").exists():
            return
        npm, make = tool("npm", "npm"), tool("make", "make")
        prepare([npm, "pack", "--silent", PACKAGE], cwd=folder)
        unpack(folder / ARCHIVE, SHA256, folder)
        prepare(CONFIGURE, cwd=sources)
        jobs = f"-j{os.cpu_count()}"
        prepare([make, jobs, "libs"], cwd=sources)
        prepare([make, jobs, "build"], cwd=self._tests)

    def tests(self) -> list[str]:
        """Return the runner's test numbers; ``kip-848/`` begins those that run in that protocol."""
        table = (self._tests / "test.c").read_text()
        numbers = sorted(set(re.findall(r"^ +_TEST\((\d{4})_", table, re.MULTILINE)))
        numbers = [number for number in numbers if number <= LAST]
        return numbers + [KIP_848 + number for number in IN_GROUPS]

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run the functions of the test with one number, one after the other."""
        config = log.with_suffix(".conf")
        config.write_text(f"bootstrap.servers={bootstrap}\n")
        number = test.removeprefix(KIP_848)
        code = execute(
            ["./test-runner", "-p1"],
            log,
            cwd=self._tests,
            environ={
                "TESTS": number,
                "TEST_CONSUMER_GROUP_PROTOCOL": "classic" if number == test else "consumer",
                "TEST_KAFKA_VERSION": "4.3.1",
                "KAFKA_PATH": str(self._kafka),
                "BROKERS": bootstrap,
                "RDKAFKA_TEST_CONF": str(config),
                "LD_LIBRARY_PATH": "../src:../src-cpp",
            },
            timeout=TIMEOUT,
        )
        printed = COLOUR.sub("", log.read_text(errors="replace"))
        ended = {state for of, state in ENDED.findall(printed) if of == number}
        if code != 0:
            return Outcome.FAILED
        return Outcome.PASSED if "PASSED" in ended else Outcome.SKIPPED


def _write_kafka_topics(folder: Path) -> None:
    """Write a script like that of a Kafka release, with which a test creates its topics."""
    script = folder / "bin" / "kafka-topics.sh"
    script.parent.mkdir(parents=True, exist_ok=True)
    command = KafkaJars.find().command("once", f"{TOOLS}.TopicCommand")
    script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    script.chmod(0o755)
