"""A damaged batch under a running broker: where it is noticed, what goes on, and what heals it."""

import json
import urllib.request
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.support.batches import TIMESTAMP
from tests.support.broker import SiltstoneProcess
from tests.support.clients.confluent import Confluent
from tests.support.logs import flipped
from tests.support.messages import Message
from tests.support.waiting import PATIENCE, equals, wait_until

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(180)]

SETTINGS = {"log.cleaner.backoff.ms": "20", "log.segment.bytes": "20000"}
RECORDS = 100
EAGER = {"min.cleanable.dirty.ratio": "0.01"}


class Damage:
    """A broker with topics `bad` and `good`, none of which has been cleaned."""

    def __init__(self, broker: SiltstoneProcess) -> None:
        self.broker = broker
        self.client = Confluent(broker.bootstrap)
        for topic in ("bad", "good"):
            configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"}
            self.client.create(topic, 1, configs)
            self.write(topic)
        self.log = sorted((broker.folder / "bad-0").glob("*.log"))[1]
        self.base_offset = int(self.log.stem)

    def write(self, topic: str) -> None:
        """Write some segments of records of few keys."""
        rows = [
            Message(b"key-%d" % (number % 7), b"v" * 600, (), TIMESTAMP)
            for number in range(RECORDS)
        ]
        self.client.produce(topic, rows)

    def break_it(self) -> AbstractContextManager[None]:
        """Have a byte of a record wrong for a while: the first batch of the second segment."""
        return flipped(self.log, 80)

    def begin(self) -> None:
        """Let the cleaner take both topics."""
        for topic in ("bad", "good"):
            self.client.alter(topic, EAGER)

    def explain(self) -> dict[str, Any]:
        """Return what `siltstone explain bad --json` says of the partition."""
        code, output = self.run("explain", "bad", "--json")
        assert code == 0
        (facts,) = json.loads(output)["partitions"]
        found: dict[str, Any] = facts
        return found

    def run(self, *arguments: str) -> tuple[int, str]:
        """Return exit code and output of a command."""
        done = self.broker.run(*arguments)
        return done.returncode, done.stdout + done.stderr

    def metrics(self) -> dict[str, float]:
        """Return `/metrics` by name and labels."""
        with urllib.request.urlopen(f"http://{self.broker.http}/metrics", timeout=PATIENCE) as page:
            lines = page.read().decode().splitlines()
        pairs = [line.rpartition(" ") for line in lines if not line.startswith("#")]
        return {name: float(value) for name, _, value in pairs}

    def is_clean(self, topic: str) -> bool:
        """Tell whether nothing of a topic is dirty but what is being written."""
        return not self.metrics()[cleanable(topic)]

    def has_failed(self) -> bool:
        """Tell whether the pass over `bad` has failed."""
        return FAILURES in self.metrics()

    def await_clean(self, topic: str) -> None:
        """Wait until nothing of a topic is dirty but what is being written."""
        name = cleanable(topic)
        wait_until(lambda: self.metrics()[name], f"a clean {topic}", equals(0))

    def await_failure(self) -> None:
        """Wait until the pass over `bad` has failed."""
        wait_until(self.metrics, f"the metric {FAILURES}", lambda metrics: FAILURES in metrics)


FAILURES = 'siltstone_cleaner_partition_failures{topic="bad",partition="0",cause="CorruptSegment"}'


def cleanable(topic: str) -> str:
    """Return the name of a metric."""
    return f'siltstone_cleaner_cleanable_bytes{{topic="{topic}",partition="0"}}'


@pytest.fixture
def damage(siltstone: SiltstoneProcess) -> Damage:
    """The broker and its topics."""
    siltstone.settings.update(SETTINGS)
    return Damage(siltstone.start())


def test_damage_stops_its_partition_alone_and_is_named(damage: Damage) -> None:
    """File, position and offset are said; others are cleaned, and again; no new file has it."""
    uncleanable = (
        "kafka_log_logcleanermanager_uncleanable_partitions_count"
        f'{{logdirectory="{damage.broker.folder}"}}'
    )
    with damage.break_it():
        files = sorted(path.name for path in damage.log.parent.glob("*.log"))
        damage.begin()
        damage.await_failure()
        damage.await_clean("good")
        facts = damage.explain()

        assert facts["rule"] == "failed"
        assert facts["eligible"] is False
        assert facts["next_eligible_ms"] is not None
        for part in (str(damage.log), "position 0", f"after offset {damage.base_offset - 1}"):
            assert part in facts["because"]
            assert part in damage.broker.daemon.printed()
        assert "Traceback" not in damage.broker.daemon.printed()
        assert damage.metrics()[uncleanable] == 1
        assert sorted(path.name for path in damage.log.parent.glob("*.log")) == files
        damage.write("good")
        damage.write("bad")
        damage.await_clean("good")
        assert damage.client.read("bad", RECORDS, RECORDS)[-1].offset == 2 * RECORDS - 1
        assert damage.metrics()[cleanable("bad")] > 0


def test_changed_settings_heal_it(damage: Damage) -> None:
    """When its settings change the partition is tried at once, not after its pause."""
    with damage.break_it():
        damage.begin()
        damage.await_failure()
    damage.client.alter("bad", {"delete.retention.ms": "1000"})

    damage.await_clean("bad")

    assert not damage.has_failed()
    assert damage.metrics()['siltstone_cleaner_failures_total{cause="CorruptSegment"}'] == 1


def test_whoever_asks_heals_it(damage: Damage) -> None:
    """`siltstone clean` tries at once: it tells the reason again, and then that it is clean."""
    with damage.break_it():
        damage.begin()
        damage.await_failure()
        code, said = damage.run("clean", "bad", "--wait")
        assert code == 1
        assert damage.log.name in said

    code, said = damage.run("clean", "bad", "--wait")

    assert code == 0, said
    assert not damage.has_failed()
    assert damage.is_clean("bad")


def test_time_heals_it(damage: Damage) -> None:
    """It is tried again by itself after a quarter of a minute."""
    with damage.break_it():
        damage.begin()
        damage.await_failure()

    damage.await_clean("bad")

    assert not damage.has_failed()
