"""Apache Kafka: its own integration tests, of the test jars that its release has on Maven Central.

They start brokers through two classes of Kafka's test framework. Ours of the same names
(``java/``) precede them on the class path, and start this broker for each test or each class.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar
from zipfile import ZipFile

from tests.support.broker import siltstone
from tests.support.kafka import RELEASE_BEFORE, KafkaJars, cache_folder, copy_jars
from tools.compat.suite import Outcome, cached, execute, prepare, tool

VERSION = RELEASE_BEFORE  # the newest whose tests are on Maven Central
JAVA = Path(__file__).parent / "java"
JARS = "kafka-test-jars"
# Tests of features that are not served, or that need classes inside of the broker.
LEFT_OUT = re.compile(
    r"Streams|Sasl|CustomQuota|Authorizer|Acl|Policies|WithPolicy|BrokerMetricNames"
    r"|SocketServerMemory|Legacy|ClientRebootstrap|MetadataVersionIntegration|AllocateProducerIds"
)
LEFT_OUT_OF_STREAMS = re.compile("Telemetry|RebalanceProtocolMigration")
LEFT_OUT_OF_CONNECT = re.compile("SSL|StartAndStop|/runtime/")
TIMEOUT = 900  # seconds a class
_PLAINLY = ("--disable-banner", "--disable-ansi-colors")
_LISTED = re.compile(r"\[class:(?P<class>[\w.]+)\]/\[(test-template|method):(?P<method>\w+)\(")
_TOLD = re.compile(r"^JUnit Jupiter > [^>]+ > (\w+)\(.* :: ([A-Z]+)$", re.MULTILINE)
_WORTH = (Outcome.SKIPPED, Outcome.PASSED, Outcome.FAILED)
_ENDS = {
    "SKIPPED": Outcome.SKIPPED,
    "ABORTED": Outcome.SKIPPED,
    "SUCCESSFUL": Outcome.PASSED,
    "FAILED": Outcome.FAILED,
}


class ApacheKafka:
    """The tests of classes that ask for a cluster; a class runs whole, in one JVM.

    Args:
        name: The suite's.
        jars: Which test jars have its classes, as a pattern of the shell.
        marker: A text that the class files contain.
        left_out: Names of classes that are not run.
    """

    settings: ClassVar[Mapping[str, str] | None] = None

    def __init__(
        self, name: str, jars: str, marker: re.Pattern[bytes], left_out: re.Pattern[str]
    ) -> None:
        self.name = name
        self._pattern, self._marker, self._left_out = jars, marker, left_out
        self._outcomes: dict[str, dict[str, Outcome]] = {}
        self._java: list[str] = []

    def build(self) -> None:
        """Copy the jars, compile the class that starts our broker."""
        kafka = KafkaJars.find(VERSION)
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
            f"-Dlog4j2.configurationFile={JAVA / 'log4j2.properties'}",
            "-cp",
            f"{classes}:{JAVA}:{jars}",
            "org.junit.platform.console.ConsoleLauncher",
        ]

    @property
    def _jars(self) -> Path:
        return cache_folder().resolve() / JARS

    def tests(self) -> list[str]:
        """Return each method of each class, as ``class#method``."""
        chosen = [word for name in self._classes() for word in ("-c", name)]
        listed = prepare(
            [*self._java, "discover", *_PLAINLY, "--details=verbose", *chosen], cwd=JAVA
        )
        return [f"{test['class']}#{test['method']}" for test in _LISTED.finditer(listed)]

    def _classes(self) -> list[str]:
        found = []
        for jar in sorted(self._jars.glob(self._pattern)):
            with ZipFile(jar) as archive:
                found += [
                    name.removesuffix(".class").replace("/", ".")
                    for name in sorted(archive.namelist())
                    if name.endswith("Test.class")
                    and not self._left_out.search(name)
                    and self._marker.search(archive.read(name))
                ]
        return found

    def run(self, test: str, bootstrap: str, log: Path) -> Outcome:
        """Run the test's class at its first test; return how the test went."""
        name, _, method = test.partition("#")
        if name not in self._outcomes:
            self._outcomes[name] = self._run_class(name, log.with_name(f"{name}.log"))
        return self._outcomes[name].get(method, Outcome.FAILED)

    def _run_class(self, name: str, log: Path) -> dict[str, Outcome]:
        execute(
            [*self._java, "execute", *_PLAINLY, "--details=testfeed", "-c", name],
            log,
            cwd=JAVA,
            environ={},
            timeout=TIMEOUT,
        )
        return read_feed(log.read_text(errors="replace"))


def apache_kafka() -> tuple[ApacheKafka, ...]:
    """Return the suites of its clients and tools, of Streams, and of Connect with MirrorMaker."""
    of_cluster = re.compile(rb"org/apache/kafka/common/test/api/Cluster")
    of_streams = re.compile(rb"org/apache/kafka/streams/integration/utils/EmbeddedKafkaCluster")
    of_connect = re.compile(rb"org/apache/kafka/connect/(mirror/)?integration/")
    return (
        ApacheKafka("apache-kafka", "kafka*-test.jar", of_cluster, LEFT_OUT),
        ApacheKafka("kafka-streams", "kafka-streams-i*.jar", of_streams, LEFT_OUT_OF_STREAMS),
        ApacheKafka("kafka-connect", "connect-*-test.jar", of_connect, LEFT_OUT_OF_CONNECT),
    )


def read_feed(printed: str) -> dict[str, Outcome]:
    """Return the outcome of each method of a class from the output of the launcher.

    Of the runs of a method one must pass and none may fail. A run that began and did not end
    failed, since the class took too long.
    """
    outcomes: dict[str, Outcome] = {}
    running: set[str] = set()
    for method, word in _TOLD.findall(printed):
        if word == "STARTED":
            running.add(method)
            continue
        running.discard(method)
        outcome = _ENDS[word]
        if _WORTH.index(outcome) >= _WORTH.index(outcomes.get(method, Outcome.SKIPPED)):
            outcomes[method] = outcome
    return outcomes | dict.fromkeys(running, Outcome.FAILED)
