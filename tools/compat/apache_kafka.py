"""Apache Kafka: its own integration tests, of the test jars that its release has on Maven Central.

They start brokers through a class of Kafka's test framework. Ours stands before it on the class
path (``java/``) and starts this broker as a process, anew for each test.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from xml.etree import ElementTree as ET
from zipfile import ZipFile

from tests.support.broker import siltstone
from tests.support.kafka import KafkaJars, cache_folder, copy_jars
from tools.compat.suite import Outcome, cached, execute, prepare, tool

VERSION = "4.3.1"
JAVA = Path(__file__).parent / "java"
JARS = "kafka-test-jars"
STARTS_BROKERS = b"org/apache/kafka/common/test/api/Cluster"
# What is not served here, and what needs classes of the test's own inside of the broker.
LEFT_OUT = re.compile(
    r"Share|Streams|Sasl|CustomQuota|Authorizer|Acl|Policies|WithPolicy|BrokerMetricNames"
    r"|SocketServerMemory|Legacy|ClientRebootstrap|MetadataVersionIntegration|AllocateProducerIds"
)
TIMEOUT = 900  # seconds a class
_PLAINLY = ("--disable-banner", "--disable-ansi-colors", "--details=verbose")
_LISTED = re.compile(r"\[class:(?P<class>[\w.]+)\]/\[(test-template|method):(?P<method>\w+)\(")
_BADNESS = (Outcome.PASSED, Outcome.SKIPPED, Outcome.FAILED)


class ApacheKafka:
    """The tests of classes that ask for a cluster; a class runs whole, in one JVM."""

    name: ClassVar[str] = "apache-kafka"
    settings: ClassVar[Mapping[str, str] | None] = None

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, Outcome]] = {}
        self._java: list[str] = []

    def build(self) -> None:
        """Copy the jars, compile the class that starts our broker."""
        kafka = KafkaJars.find()
        copy_jars(JAVA, JARS)
        javac = tool("javac", "default-jdk-headless")
        jars = f"{self._jars}/*:{kafka.folder}/*"
        classes = cached(f"apache-kafka-{VERSION}") / "classes"
        sources = [str(path) for path in JAVA.rglob("*.java")]
        prepare([javac, "-d", str(classes), "-cp", jars, *sources], cwd=JAVA)
        self._java = [
            kafka.java,
            "-Xmx700m",
            "-XX:TieredStopAtLevel=1",
            f"-Dsiltstone={siltstone()}",
            "-Djunit.jupiter.extensions.autodetection.enabled=true",
            f"-Dlog4j2.configurationFile={kafka.folder / 'log4j2.properties'}",
            "-cp",
            f"{classes}:{jars}",
            "org.junit.platform.console.ConsoleLauncher",
        ]

    @property
    def _jars(self) -> Path:
        return cache_folder().resolve() / JARS

    def tests(self) -> list[str]:
        """Return each method of each class, as ``class#method``."""
        chosen = [word for name in self._classes() for word in ("-c", name)]
        listed = prepare([*self._java, "discover", *_PLAINLY, *chosen], cwd=JAVA)
        return [f"{test['class']}#{test['method']}" for test in _LISTED.finditer(listed)]

    def _classes(self) -> list[str]:
        found = []
        for jar in sorted(self._jars.glob("kafka*-test.jar")):
            with ZipFile(jar) as archive:
                found += [
                    name.removesuffix(".class").replace("/", ".")
                    for name in sorted(archive.namelist())
                    if name.endswith("Test.class")
                    and not LEFT_OUT.search(name)
                    and STARTS_BROKERS in archive.read(name)
                ]
        return found

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run the test's class if none of its tests was asked for yet; return how the test went."""
        name, _, method = test.partition("#")
        if name not in self._outcomes:
            self._outcomes[name] = self._run_class(name, log.with_name(f"{name}.log"))
        return self._outcomes[name].get(method, Outcome.FAILED)

    def _run_class(self, name: str, log: Path) -> dict[str, Outcome]:
        reports = cached(f"apache-kafka-{VERSION}") / "reports" / name
        report = reports / "TEST-junit-jupiter.xml"
        report.unlink(missing_ok=True)
        execute(
            [*self._java, "execute", "--disable-banner", "-c", name, f"--reports-dir={reports}"],
            log,
            cwd=JAVA,
            environ={},
            timeout=TIMEOUT,
        )
        return _read_report(report) if report.exists() else {}


def _read_report(report: Path) -> dict[str, Outcome]:
    """Return the outcome of each method: the worst of its runs, each with other settings."""
    outcomes: dict[str, Outcome] = {}
    for run in ET.parse(report).iter("testcase"):
        method = re.split(r"\W", run.get("name", ""), maxsplit=1)[0]
        outcome = Outcome.PASSED
        if run.find("skipped") is not None:
            outcome = Outcome.SKIPPED
        if run.find("failure") is not None or run.find("error") is not None:
            outcome = Outcome.FAILED
        if _BADNESS.index(outcome) >= _BADNESS.index(outcomes.get(method, Outcome.PASSED)):
            outcomes[method] = outcome
    return outcomes
