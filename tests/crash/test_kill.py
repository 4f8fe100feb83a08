"""SIGKILL at random moments under load: what was acknowledged is there, and nothing else moved.

`CRASH_KILLS` sets the number of kills (default 100), `CRASH_SEED` repeats a run's random choices;
`make crash` runs a long campaign. The page cache outlives a killed process, so every byte that the
broker handed to the kernel must count; power loss is another test's matter.
"""

import contextlib
import os
import random
import time

import pytest
from confluent_kafka import KafkaException

from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.daemon import until
from tests.support.dump import complaints
from tests.support.kafka import KafkaBroker, KafkaTools
from tests.support.ledger import Ledger
from tests.support.load import CONNECTION, Auditor, Load

KILLS = int(os.environ.get("CRASH_KILLS") or 100)

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300 + 4 * KILLS)]

Broker = SiltstoneProcess | KafkaBroker
PARTITIONS = 3
SETTINGS = {
    "log.index.interval.bytes": "512",
    "log.flush.interval.messages": "400",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
}
BURST = 15
PAUSE = 0.01


class Campaign:
    """A broker folder, the load on it, and one kill after the other."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.ledger = Ledger()
        self.admin = Confluent(broker.bootstrap, CONNECTION)
        for topic in ("exact", "plain"):
            self.admin.create(topic, PARTITIONS, {})
        where = (broker.bootstrap, self.ledger)
        self.loads = [
            Load("raw", *where, "exact", PARTITIONS, exact=True, codec="none"),
            Load("packed", *where, "exact", PARTITIONS, exact=True, codec="zstd"),
            Load("once", *where, "plain", PARTITIONS, exact=False, codec="lz4"),
        ]
        partitions = [(topic, n) for topic in ("exact", "plain") for n in range(PARTITIONS)]
        self.auditor = Auditor(
            broker.bootstrap, self.ledger, partitions, patient=isinstance(broker, KafkaBroker)
        )
        self.made: set[str] = set()
        self.deleted: set[str] = set()

    def run_until_killed(self, number: int) -> None:
        """Put load on the broker and end it: in service, while it stops, or while it starts."""
        self._change_topics(number)
        ends = time.monotonic() + self.random.uniform(0.02, 0.4)
        while time.monotonic() < ends:
            self._send()
            time.sleep(PAUSE)
        if self.random.random() < 0.1:
            self.broker.daemon.signal(15)
            time.sleep(self.random.uniform(0, 0.15))
        self.broker.kill()
        if self.random.random() < 0.15:
            with contextlib.suppress(TimeoutError):
                self.broker.start(timeout=self.random.uniform(0, 0.4))
            self.broker.kill()

    def recover(self) -> None:
        """Start the broker again and audit it, and go on when every producer is served again."""
        before = [load.acknowledged for load in self.loads]
        self.broker.start()
        self._send()
        self.auditor.audit()
        for _ in until(30):
            if all(load.acknowledged > old for load, old in zip(self.loads, before, strict=True)):
                break
            self._send()
        else:
            raise TimeoutError("a producer is not served again")
        topics = self.admin.topics()
        assert self.made - self.deleted <= topics
        assert not self.deleted & topics

    def finish(self) -> None:
        """Stop the load: everything of the exact producers is there exactly once."""
        for load in self.loads:
            load.finish(60)
        self.auditor.audit()
        self.auditor.audit_all()
        for load in self.loads:
            held = [
                sent
                for partition in self.auditor.partitions
                for sent in self.ledger.seen[partition]
                if sent.producer == load.name
            ]
            assert len(held) == len(set(held))
            if load.exact:
                assert {sent.number for sent in held} == set(range(load.sent))

    def _send(self) -> None:
        for load in self.loads:
            load.send(BURST, self.random)

    def _change_topics(self, number: int) -> None:
        topic = f"passing-{number}"
        self.admin.create(topic, 1, {})
        self.made.add(topic)
        if number % 3 == 0:
            gone = self.random.choice(sorted(self.made - self.deleted))
            with contextlib.suppress(KafkaException):
                self.admin.delete(gone)
                self.deleted.add(gone)


@pytest.fixture(scope="module")
def campaign(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A broker that was killed again and again, audited after each kill, and then stopped."""
    root = tmp_path_factory.mktemp("crash")
    seed = int(os.environ.get("CRASH_SEED") or time.time_ns() % 2**32)
    broker: Broker
    if request.config.getoption("--broker") == "kafka":
        broker = KafkaBroker(request.getfixturevalue("kafka_jars"), root, SETTINGS)
    else:
        broker = SiltstoneProcess(root, {**SETTINGS, "log.segment.bytes": "100000"})
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        broker.start()
        ran = Campaign(broker, seed)
        for number in range(KILLS):
            ran.run_until_killed(number)
            ran.recover()
        ran.finish()
        assert broker.stop() == 0
    except BaseException:
        with capture.global_and_fixture_disabled():
            print(f"\ncrash campaign failed; repeat it with CRASH_SEED={seed}")  # noqa: T201
        raise
    finally:
        broker.close()
    records = sum(map(len, ran.ledger.acknowledged.values()))
    with capture.global_and_fixture_disabled():
        print(f"\n{KILLS} kills, {records} records acknowledged and found, seed {seed}")  # noqa: T201
    return ran


def test_nothing_acknowledged_is_lost(campaign: Campaign) -> None:
    """No kill loses an acknowledged record, reuses an offset, leaves a hole or changes an order.

    The campaign audits that after each kill; here it has come to its end with work done.
    """
    exact = [load for load in campaign.loads if load.exact]

    assert all(load.sent > BURST * KILLS for load in exact)
    assert sum(map(len, campaign.ledger.acknowledged.values())) >= sum(load.sent for load in exact)


@pytest.mark.java
def test_dump_finds_nothing_after_the_kills(campaign: Campaign, kafka_tools: KafkaTools) -> None:
    """Kafka's dump tool has no complaint about the logs, indexes and snapshots that remain."""
    folders = [campaign.broker.folder / f"{topic}-{n}" for topic, n in campaign.auditor.partitions]

    assert complaints(kafka_tools, folders) == []
