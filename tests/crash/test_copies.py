"""SIGKILL under exactly-once copies: nothing lost, doubled or torn, no offset goes back.

`CRASH_COPIES` sets how often the broker dies (default 50), `CRASH_SEED` repeats a run's random
choices; `make crash` runs more. Copiers die as well, and their zombies try to commit.
"""

import contextlib
import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.crash.copier import Copier
from tests.crash.follower import Follower
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.folders import batches
from tests.support.kafka import KafkaBroker
from tests.support.ledger import Ledger
from tests.support.load import CONNECTION, Auditor, Load
from tools.checker.events import Marker, Partition

ROUNDS = int(os.environ.get("CRASH_COPIES") or 50)
ROUNDS_AT_A_TIME = 100
"""Each audit reads the whole history, so that a new one is begun now and then."""

ENOUGH = 50
"""So many rounds have seen everything that copiers do, whatever the seed."""

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300 + 8 * ROUNDS)]

Broker = SiltstoneProcess | KafkaBroker
PARTITIONS = 3
SETTINGS = {
    # Clients of the lot before still poll, and the system may give this one their broker's port.
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "5",
    "log.flush.interval.messages": "400",
    "log.flush.offset.checkpoint.interval.ms": "200",
}


class Copies:
    """A topic that is written to, two copiers to another one, its follower, and kills."""

    def __init__(self, broker: Broker, seed: int) -> None:
        self.broker = broker
        self.random = random.Random(seed)
        self.ledger = Ledger()
        admin = Confluent(broker.bootstrap, CONNECTION)
        for topic in ("in", "out"):
            admin.create(topic, PARTITIONS, {})
        sources = [Partition("in", number) for number in range(PARTITIONS)]
        self.targets = [Partition("out", number) for number in range(PARTITIONS)]
        self.partitions = [*sources, *self.targets]
        where = (broker.bootstrap, self.ledger)
        self.load = Load("source", *where, "in", PARTITIONS, exact=True, codec="lz4")
        self.copiers = [
            Copier(*where, "one", sources[:2], self.targets, self.random),
            Copier(*where, "two", sources[2:], self.targets, self.random),
        ]
        self.follower = Follower(*where, self.targets)
        patient = isinstance(broker, KafkaBroker)
        self.auditor = Auditor(*where, patient=patient)
        self.committed_auditor = Auditor(*where, patient=patient, committed=True)

    def run(self, rounds: int) -> None:
        """Copy through so many deaths of the broker, then prove that each record has one copy."""
        with ThreadPoolExecutor(1) as pool:
            for _ in range(rounds):
                delay, again = self.random.uniform(0.02, 0.25), self.random.random() < 0.2
                is_back = threading.Event()
                work = pool.submit(self._work, is_back)
                try:
                    self._kill_and_start(delay, again=again)
                finally:
                    is_back.set()
                work.result()
                if self.random.random() < 0.1:
                    self.follower.replace()
                self.auditor.audit(self.partitions)
                self.committed_auditor.audit(self.targets)
        self._finish()

    def _work(self, is_back: threading.Event) -> None:
        """Write and copy until the broker is back, and once more."""
        is_last = False
        while not is_last:
            is_last = is_back.is_set()
            self.load.send(self.random.randint(1, 20), self.random)
            for copier in self.copiers:
                copier.step()
            self.follower.step()

    def _kill_and_start(self, delay: float, *, again: bool) -> None:
        time.sleep(delay)
        self.broker.kill()
        if again:
            with contextlib.suppress(TimeoutError):
                self.broker.start(timeout=delay)
            self.broker.kill()
        self.broker.start()

    def _finish(self) -> None:
        self.load.finish(60)
        self.auditor.audit(self.partitions)
        ends = {each: log.end or 0 for each, log in self.ledger.checker.logs.items()}
        for copier in self.copiers:
            copier.finish(ends)
        self.follower.close()
        self.auditor.audit_all(self.partitions)
        self.committed_auditor.audit_all(self.partitions)
        for each in self.partitions:
            for batch in batches(self.broker.folder / f"{each.topic}-{each.number}"):
                if batch.is_control:
                    self.ledger.checker.take(Marker(each, batch.base_offset))
        self.ledger.checker.finish()
        self.ledger.judge()


@pytest.fixture(scope="module")
def campaigns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Copies]:
    """Copies that have lived through it all, and were judged; a broker for each lot of rounds."""
    seed = int(os.environ.get("CRASH_SEED") or time.time_ns() % 2**32)
    capture = request.config.pluginmanager.getplugin("capturemanager")
    began = time.monotonic()
    ran: list[Copies] = []
    try:
        for start in range(0, ROUNDS, ROUNDS_AT_A_TIME):
            with contextlib.closing(_make_broker(request, tmp_path_factory)) as broker:
                broker.start()
                ran.append(Copies(broker, seed + start))
                ran[-1].run(min(ROUNDS_AT_A_TIME, ROUNDS - start))
                assert broker.stop() == 0
    except BaseException:
        with capture.global_and_fixture_disabled():
            print(f"\ncopies failed; repeat them with CRASH_SEED={seed}")  # noqa: T201
        raise
    with capture.global_and_fixture_disabled():
        took = f"{time.monotonic() - began:.0f} s"
        print(f"\n{ROUNDS} kills, {_summary(ran)}, seed {seed}, {took}")  # noqa: T201
    return ran


def _make_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Broker:
    root = tmp_path_factory.mktemp("copies")
    if request.config.getoption("--broker") == "kafka":
        return KafkaBroker(request.getfixturevalue("kafka_jars"), root, SETTINGS)
    return SiltstoneProcess(root, SETTINGS)


def _summary(ran: list[Copies]) -> str:
    counts = {deed: _total(ran, deed) for deed in ("committed", "aborted", "deaths", "fenced")}
    sent = sum(each.load.sent for each in ran)
    commits = sum(each.follower.commits for each in ran)
    resumed = sum(each.follower.resumed for each in ran)
    follower = f"{commits} commits, {resumed} assignments of a group"
    return f"{sent} records copied once, copiers: {counts}, {follower}"


def _total(ran: list[Copies], deed: str) -> int:
    """Return how often copiers did a deed."""
    return sum(getattr(copier, deed) for each in ran for copier in each.copiers)


def test_each_record_is_copied_once(campaigns: list[Copies]) -> None:
    """No kill tears a transaction, shows an aborted one, loses or doubles a copy or a commit.

    The campaigns audit that as they go; here they have come to their end with work done.
    """
    for each in campaigns:
        assert all(copier.committed > 1 for copier in each.copiers)
        assert each.follower.commits > 1
        assert each.load.acknowledged == each.load.sent > 0
        assert sum(copier.copied for copier in each.copiers) >= each.load.sent
    assert sum(each.load.sent for each in campaigns) > ROUNDS
    for deed in ("aborted", "deaths", "fenced"):
        assert _total(campaigns, deed) or ROUNDS < ENOUGH
