"""Kafka Streams: a word count that is right whatever happens to the application and its folder."""

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.clients.conftest import NewTopic
from tests.support import produced
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.daemon import Daemon
from tests.support.java_program import run_program
from tests.support.kafka import KafkaBroker, KafkaJars, KafkaTools
from tests.support.oracle import Broker
from tests.support.waiting import equals, wait_until

pytestmark = [pytest.mark.client, pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(150)]

WORDS = ["silt", "sand", "clay", "loam", "peat"]


class Application:
    """The word count, with a state folder of its own, on two topics of the test."""

    def __init__(
        self,
        jars: KafkaJars,
        broker: SiltstoneProcess | KafkaBroker,
        root: Path,
        lines: str,
        *protocol: str,
    ) -> None:
        """``protocol`` is the guarantee of processing and the group protocol, or the defaults."""
        self.lines = lines
        self.counts = f"{lines}-counts"
        self.state = root / "state"
        self.broker = broker
        self.said: Counter[str] = Counter()
        root.mkdir(exist_ok=True)
        self._daemon = Daemon(root / "streams.log")
        self._command = run_program(
            jars,
            "WordCount",
            *(broker.bootstrap, f"{lines}-app", str(self.state), lines, self.counts),
            *protocol,
        )

    def start(self) -> None:
        """Start, and return when it processes."""
        self._daemon.launch(self._command)
        self._daemon.wait_for(r"^state RUNNING$")

    def stop(self) -> None:
        """Close it as an operator does."""
        self._daemon.terminate(60)

    def kill(self) -> None:
        """End it at once, in the middle of a transaction if there is one."""
        self._daemon.kill()

    def close(self) -> None:
        """Leave no process behind."""
        if self._daemon.running:
            self._daemon.kill()

    def restored(self) -> int:
        """Return how many records its store has got back from the changelog since the start."""
        found = re.findall(r"^restored counts \S+ (\d+)$", self._daemon.printed(), re.MULTILINE)
        return sum(map(int, found))

    def say(self, *words: str) -> None:
        """Write lines, of one word each, to the topic that is counted."""
        produced.produce(self.broker.bootstrap, self.lines, [{"value": word} for word in words])
        self.said.update(words)

    def wait(self) -> None:
        """Read the counts until they say what was said, and see that each came exactly once."""
        reader = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
            }
        )
        reader.assign([TopicPartition(self.counts, 0, 0)])
        last: dict[str, int] = {}

        def poll() -> dict[str, int]:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                word = (message.key() or b"").decode()
                count = int.from_bytes(message.value() or b"", "big")
                assert count == last.get(word, 0) + 1, f"{word} was counted twice, or not at all"
                last[word] = count
            return last

        wait_until(poll, f"the counts {dict(self.said)}", equals(dict(self.said)))
        reader.close()


@pytest.fixture
def application(
    kafka_jars: KafkaJars,
    broker: SiltstoneProcess | KafkaBroker,
    new_topic: NewTopic,
    tmp_path: Path,
) -> Iterator[Application]:
    """The word count over a topic of the test, not started."""
    try:
        made = Application(kafka_jars, broker, tmp_path, new_topic(2))
        Confluent(broker.bootstrap).create(made.counts, 1, {})
    except LookupError as lack:
        pytest.skip(str(lack))
    yield made
    made.close()


def test_a_word_count_is_right_and_its_store_comes_back(application: Application) -> None:
    """Exactly once over a kill, and the changelog gives the store back when its folder is gone."""
    application.start()
    application.say(*WORDS * 4)
    application.wait()
    application.say(*WORDS * 20)
    application.kill()
    application.say("silt", "new")

    application.start()
    application.wait()
    application.stop()
    shutil.rmtree(application.state)
    application.say(*WORDS)

    application.start()
    application.wait()
    assert application.restored() >= len(application.said) - 1
    application.stop()


STREAMS = ("exactly_once_v2", "streams")
QUICK = {
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.session.timeout.ms": "5000",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
}


def test_the_broker_assigns_tasks_and_moves_them_when_an_instance_dies(
    kafka_jars: KafkaJars, kafka_tools: KafkaTools, own_broker: Broker, tmp_path: Path
) -> None:
    """With group.protocol=streams: topics made by the broker, a kill, and a second instance."""
    own_broker.settings.update(QUICK)
    own_broker.start()
    for name, partitions in (("lines", 2), ("lines-counts", 1)):
        Confluent(own_broker.bootstrap).create(name, partitions, {})
    first = Application(kafka_jars, own_broker, tmp_path / "1", "lines", *STREAMS)
    second = Application(kafka_jars, own_broker, tmp_path / "2", "lines", *STREAMS)
    second.said = first.said
    try:
        first.start()
        first.say(*WORDS * 4)
        first.wait()
        second.start()
        first.say(*WORDS * 4)
        first.wait()
        first.kill()
        second.say(*WORDS * 4)
        second.wait()

        described = kafka_tools.run(
            "streams.StreamsGroupCommand",
            *("--bootstrap-server", own_broker.bootstrap, "--describe", "--group", "lines-app"),
            *("--members", "--verbose"),
        )
        second.stop()
    finally:
        first.close()
        second.close()
    assert "ACTIVE: 0:[0,1]; 1:[0,1]; TARGET-ACTIVE: 0:[0,1]; 1:[0,1]" in described
