"""Run public test suites of Kafka clients against a broker, and judge each by its allow-list.

A suite has one broker for all its tests; after a test that does not pass the next one gets a broker
with an empty folder. What a test prints is kept in the cache, in ``compat/logs/SUITE/TEST.log``.
"""

import argparse
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.broker import SiltstoneProcess
from tests.support.kafka import KafkaBroker, KafkaJars
from tools.compat.apache_kafka import apache_kafka
from tools.compat.confluent_kafka_python import ConfluentKafkaPython
from tools.compat.franz_go import FranzGo
from tools.compat.franz_go_logins import FranzGoLogins
from tools.compat.kafka_python import KafkaPython
from tools.compat.librdkafka import Librdkafka
from tools.compat.suite import Outcome, Suite, cached
from tools.compat.verdict import PAGE, Verdict, is_listed, read_allowed

SUITES: tuple[Suite, ...] = (
    FranzGo(),
    FranzGoLogins(),
    Librdkafka(),
    KafkaPython(),
    ConfluentKafkaPython(),
    *apache_kafka(),
)
_ADVERTISED = {"advertised.listeners": "PLAINTEXT://127.0.0.1:0"}  # set, as in Apache Kafka


def main(arguments: Sequence[str]) -> int:
    """Run the tests that the arguments name; return 1 if a listed test did not pass."""
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="python -m tools.compat", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"of {', '.join(names)}")
    parser.add_argument("--tests", default="", metavar="REGEX", help="only tests with such names")
    parser.add_argument("--allowed", action="store_true", help="only tests on the allow-list")
    parser.add_argument("--peer", action="store_true", help="against Apache Kafka, to compare")
    parser.add_argument("--list", action="store_true", help="print the tests' names, run nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.suites) - set(names):
        parser.error(f"no such suite: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # brokers and tests end with us
    code = 0
    for suite in SUITES:
        if not options.suites or suite.name in options.suites:
            code |= _run(suite, options)
    return code


def _run(suite: Suite, options: argparse.Namespace) -> int:
    if options.peer and suite.settings is None:
        print(f"{suite.name}: left out with --peer; it starts this broker by itself")
        return 0
    try:
        suite.build()
        jars = KafkaJars.find() if options.peer else None
    except LookupError as lack:
        print(f"{suite.name}: {lack}")
        return 1
    allowed = read_allowed(suite.name)
    wanted = [
        test
        for test in suite.tests()
        if re.search(options.tests, test) and (is_listed(test, allowed) or not options.allowed)
    ]
    if options.list:
        print("\n".join(wanted))
        return 0
    outcomes = dict(_outcomes(suite, wanted, jars))
    page = PAGE.read_text()
    verdict = Verdict(outcomes=outcomes, allowed=allowed, page=page)
    for line in verdict.lines():
        print(f"{suite.name}: {line}")
    return 1 if verdict.broken else 0


def _outcomes(
    suite: Suite, tests: Sequence[str], jars: KafkaJars | None
) -> Iterator[tuple[str, Outcome]]:
    logs = cached("logs") / suite.name
    logs.mkdir(exist_ok=True)
    with ExitStack() as brokers:
        bootstrap = ""
        for test in tests:
            if not bootstrap and suite.settings is not None:
                brokers.close()
                bootstrap = brokers.enter_context(_broker(suite.settings, jars))
            started = time.monotonic()
            outcome = suite.run(test, bootstrap, logs / f"{test.replace('/', '-')}.log")
            seconds = time.monotonic() - started
            print(f"{suite.name}: {outcome.value:7} {seconds:6.1f} s  {test}", flush=True)
            if outcome is Outcome.FAILED:
                bootstrap = ""
            yield test, outcome


@contextmanager
def _broker(settings: Mapping[str, str], jars: KafkaJars | None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="compat-") as folder:
        broker: SiltstoneProcess | KafkaBroker
        if jars is None:
            broker = SiltstoneProcess(Path(folder), {**_ADVERTISED, **settings})
        else:
            broker = KafkaBroker(jars, Path(folder), settings)
        try:
            broker.start()
            yield broker.bootstrap
        finally:
            broker.close()
