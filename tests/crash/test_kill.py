"""SIGKILL at random moments under load: acknowledged records stay, and nothing else moved.

`CRASH_KILLS` sets the number of kills (default 100), `CRASH_SEED` repeats a run's random choices;
`make crash` runs a long campaign. The page cache outlives a killed process, so every byte that the
broker handed to the kernel must count; power loss is another test's matter.
"""

import os
import time
from collections import Counter

import pytest

from tests.crash.campaign import BURST, Broker, Campaign
from tests.support.broker import SiltstoneProcess
from tests.support.dump import complaints
from tests.support.kafka import KafkaBroker, KafkaTools

KILLS = int(os.environ.get("CRASH_KILLS") or 100)
ENOUGH = 100
"""So many kills come at every stage of the broker's life, whatever the seed."""
KILLS_AT_A_TIME = 250
"""So many kills have topics of their own, which bounds the disk and what the checker knows."""

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.timeout(300 + 4 * KILLS)]

SETTINGS = {
    "log.index.interval.bytes": "512",
    "log.flush.interval.messages": "400",
    "log.flush.offset.checkpoint.interval.ms": "200",
    "log.flush.start.offset.checkpoint.interval.ms": "200",
    "log.segment.delete.delay.ms": "1000",
}


@pytest.fixture(scope="module")
def campaigns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Campaign]:
    """A broker that was killed again and again, audited after each kill, and then stopped."""
    root = tmp_path_factory.mktemp("crash")
    seed = int(os.environ.get("CRASH_SEED") or time.time_ns() % 2**32)
    broker: Broker
    if request.config.getoption("--broker") == "kafka":
        broker = KafkaBroker(request.getfixturevalue("kafka_jars"), root, SETTINGS)
    else:
        broker = SiltstoneProcess(root, {**SETTINGS, "log.segment.bytes": "100000"})
    capture = request.config.pluginmanager.getplugin("capturemanager")
    began = time.monotonic()
    ran: list[Campaign] = []
    try:
        broker.start()
        for number, start in enumerate(range(0, KILLS, KILLS_AT_A_TIME)):
            if ran:
                ran[-1].close()
            ran.append(Campaign(broker, seed, number))
            ran[-1].run(min(KILLS_AT_A_TIME, KILLS - start))
        assert broker.stop() == 0
    except BaseException:
        with capture.global_and_fixture_disabled():
            print(f"\ncrash campaign failed; repeat it with CRASH_SEED={seed}")  # noqa: T201
        raise
    finally:
        broker.close()
    with capture.global_and_fixture_disabled():
        print(f"\n{_summary(ran)}, seed {seed}, {time.monotonic() - began:.0f} s")  # noqa: T201
    return ran


def _summary(ran: list[Campaign]) -> str:
    kills: Counter[str] = sum((each.kills for each in ran), Counter())
    stages = ", ".join(f"{count} in {stage}" for stage, count in sorted(kills.items()))
    records = sum(each.ledger.acknowledged for each in ran)
    changes = sum(each.passing.changes for each in ran)
    deletions = sum(each.passing.deletions for each in ran)
    return (
        f"{kills.total()} kills ({stages}), {records} records acknowledged and found, "
        f"{changes} changes of topics asked for, {deletions} of them deletions"
    )


def test_nothing_acknowledged_is_lost(campaigns: list[Campaign]) -> None:
    """No kill loses an acknowledged record or topic, reuses an offset, leaves a hole.

    The campaigns audit that after each kill; here they have come to their end with work done.
    """
    kills: Counter[str] = sum((each.kills for each in campaigns), Counter())

    assert kills.total() == KILLS
    assert KILLS < ENOUGH or set(kills) == {"service", "topics", "stop", "exec", "recovery"}
    for each in campaigns:
        exact = [load for load in each.loads if load.exact]
        rounds = sum(each.kills[stage] for stage in ("service", "topics", "stop"))
        assert all(load.sent > BURST * rounds for load in exact)
        assert each.ledger.acknowledged >= sum(load.sent for load in exact)


@pytest.mark.java
def test_dump_finds_nothing_after_the_kills(
    campaigns: list[Campaign], kafka_tools: KafkaTools
) -> None:
    """Kafka's dump tool has no complaint about the logs, indexes and snapshots that remain."""
    last = campaigns[-1]
    folders = [last.broker.folder / f"{each.topic}-{each.number}" for each in last.partitions]

    assert complaints(kafka_tools, folders) == []
