"""Series of producers and transactions in a scrape."""

from dataclasses import replace

import pytest

from siltstone.broker.http.metrics.coordinator_metrics import TRANSACTION_METRICS
from siltstone.protocol.errors import TransactionAbortable
from tests.support.metrics import make_sources, rows_of
from tests.support.services import ServicesOnDisk
from tests.support.transactional import TIMEOUT_MS, end, following, init, produce

HOUR_MS = 3_600_000


def scrape(home: ServicesOnDisk) -> dict[str, object]:
    """Return values by name, and by label where there is one."""
    sources = replace(
        make_sources({}), topics=home.services.topics, coordinators=home.services.coordinators
    )
    values: dict[str, object] = {}
    sources, walk = sources.begin()
    assert all(step is None for step in walk)
    for metric in TRANSACTION_METRICS:
        for labels, value in rows_of(metric, sources):
            values["/".join((metric.series, *labels))] = value
    return values


async def test_transactions_are_counted_by_their_end(home: ServicesOnDisk) -> None:
    """Committed, aborted, timed out; those that are open; ids."""
    producer = await init(home)
    produce(home, producer)
    producer = following(end(home, producer))
    produce(home, producer)
    producer = following(end(home, producer, commit=False))
    produce(home, producer)
    during = scrape(home)
    home.clock.advance(TIMEOUT_MS + 1)
    await home.services.transactions().abort_timed_out()
    after = scrape(home)

    assert during["siltstone_transactional_ids"] == 1
    assert during["siltstone_transactions_open"] == 1
    assert after["siltstone_transactions_open"] == 0
    assert [
        after[f"siltstone_transactions_ended_total/{how}"] for how in ("commit", "abort", "timeout")
    ] == [1, 1, 1]
    assert after["kafka_server_replicamanager_produceridcount"] == 1


async def test_batches_that_belong_to_nothing_are_counted(home: ServicesOnDisk) -> None:
    """They would have opened a transaction that nobody ends."""
    producer = await init(home)
    with pytest.raises(TransactionAbortable):
        produce(home, producer, version=11)

    name = "kafka_server_addpartitionstotxnmanager_verificationfailures_total"
    assert scrape(home)[name] == 1


async def test_a_partition_with_a_hanging_transaction_is_late(home: ServicesOnDisk) -> None:
    """One that was open for longer than any time-out; the coordinator would have ended it."""
    producer = await init(home)
    produce(home, producer)
    name = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    before = scrape(home)[name]
    home.clock.advance(HOUR_MS)
    late = scrape(home)[name]
    await home.services.transactions().abort_timed_out()

    assert (before, late, scrape(home)[name]) == (0, 1, 0)
