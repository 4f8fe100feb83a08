"""One broker folder, the load on it, and kill after kill at every stage of its life."""

import contextlib
import random
import time
from collections import Counter

from tests.crash.passing_topics import PassingTopics
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.kafka import KafkaBroker
from tests.support.ledger import Ledger
from tests.support.load import CONNECTION, Auditor, Load
from tests.support.waiting import wait_until
from tools.checker.checker import Checker
from tools.checker.events import Partition

Broker = SiltstoneProcess | KafkaBroker
PARTITIONS = 3
BURST = 15
PAUSE = 0.01


class Campaign:
    """A run of kills over topics of its own, judged after each kill and as a whole at the end.

    ``kills`` counts them by the stage of life in which they came.
    """

    def __init__(self, broker: Broker, seed: int, number: int = 0) -> None:
        self.broker = broker
        self.random = random.Random(seed + number)
        self.ledger = Ledger()
        self.kills: Counter[str] = Counter()
        self.topics = (f"exact-{number}", f"plain-{number}")
        self.admin = Confluent(broker.bootstrap, CONNECTION)
        for topic in self.topics:
            self.admin.create(topic, PARTITIONS, {})
        exact, plain = self.topics
        where = (broker.bootstrap, self.ledger)
        self.loads = [
            Load("raw", *where, exact, PARTITIONS, exact=True, codec="none"),
            Load("packed", *where, exact, PARTITIONS, exact=True, codec="zstd"),
            Load("once", *where, plain, PARTITIONS, exact=False, codec="lz4"),
        ]
        self.partitions = [Partition(each, n) for each in self.topics for n in range(PARTITIONS)]
        patient = isinstance(broker, KafkaBroker)
        self.auditor = Auditor(broker.bootstrap, self.ledger, patient=patient)
        prefix = f"passing-{number}-"
        self.passing = PassingTopics(broker.bootstrap, self.ledger, prefix, self.random)
        self._start_seconds = 0.3

    def run(self, kills: int) -> None:
        """Kill the broker so many times, then prove that nothing was lost on the way."""
        while self.kills.total() < kills:
            self._run_until_killed()
            while self.kills.total() < kills and self.random.random() < 0.5:
                self._kill_at_start()
            self._recover()
        self._finish()

    def close(self) -> None:
        """Delete the topics, and forget what the checker knows of them."""
        for topic in self.topics:
            self.admin.delete(topic)
        self.ledger.checker = Checker()

    def _run_until_killed(self) -> None:
        """Put load on the broker and end it: in service, while it changes topics, or stops."""
        if self.random.random() < 0.5:
            self.passing.begin(2)
            self.passing.settle()
        ends = time.monotonic() + self.random.uniform(0.02, 0.2)
        while time.monotonic() < ends:
            self._send()
            time.sleep(PAUSE)
        stage = self.random.choices(("service", "topics", "stop"), (3, 5, 2))[0]
        if stage == "topics":
            self.passing.begin(3)
            time.sleep(self.random.uniform(0, 0.03))
        elif stage == "stop":
            self.broker.daemon.signal(15)
            time.sleep(self.random.uniform(0, 0.15))
        self._kill(stage)

    def _kill_at_start(self) -> None:
        """Kill the broker on its way back: soon after exec, or anywhere before it is ready."""
        early = self.random.random() < 0.5
        latest = 0.15 if early else self._start_seconds
        with contextlib.suppress(TimeoutError):
            self.broker.start(timeout=self.random.uniform(0, latest))
        self._kill("exec" if early else "recovery")

    def _kill(self, stage: str) -> None:
        self.broker.kill()
        self.kills[stage] += 1

    def _recover(self) -> None:
        """Start the broker again and audit it, and go on when every producer is served again."""
        before = [load.acknowledged for load in self.loads]
        began = time.monotonic()
        self.broker.start()
        self._start_seconds = time.monotonic() - began
        self._send()
        self.passing.settle()
        self.passing.show()
        self.auditor.audit([*self.partitions, *self.passing.partitions])
        if self.random.random() < 0.3:
            self.passing.fill()

        def go_on() -> list[int]:
            self._send()
            return [load.acknowledged for load in self.loads]

        wait_until(
            go_on,
            f"more acknowledged by each producer than {before}",
            lambda now: all(new > old for new, old in zip(now, before, strict=True)),
        )

    def _finish(self) -> None:
        """Stop the load; read everything once more: each acknowledged record comes, once."""
        for load in self.loads:
            load.finish(60)
        self.passing.show()
        self.auditor.audit_all([*self.partitions, *self.passing.partitions])
        self.ledger.checker.finish()
        self.ledger.judge()
        self.passing.delete_all()

    def _send(self) -> None:
        for load in self.loads:
            load.send(BURST, self.random)
