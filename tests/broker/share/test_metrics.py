"""Metrics of queues, and the lines of a dump."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.commands.internal_records import find_reader
from siltstone.broker.http.metrics.coordinator_metrics import QUEUE_METRICS
from siltstone.broker.share.state import ShareState, StateBatch
from siltstone.protocol.coordinator.share_state_records import (
    StateKey,
    Update,
    encode_key,
    encode_value,
)
from siltstone.protocol.messages.share_group_state import ShareUpdateStateBatch
from siltstone.protocol.names import SHARE_STATE_TOPIC, uuid_text
from tests.broker.share.test_dead_letters import AUTO, send, settle
from tests.broker.share.test_states import begun, open_home
from tests.support.metrics import make_sources, rows_of
from tests.support.services import ServicesOnDisk


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Return a broker that makes topics for dead letters."""
    one = {"share_coordinator_state_topic_num_partitions": "1"}
    home = await open_home(tmp_path, **one, **{AUTO.replace(".", "_"): "true"})
    yield home
    await home.close()


async def test_a_scrape(home: ServicesOnDisk) -> None:
    """Writes, pruning, memory, and dead letters by group."""
    states = home.services.share_states()
    key = begun(home)
    begun(home)
    states.write(key, 0, ShareState(1, 10, 3, [StateBatch(10, 12, 2, 1)]))
    await states.prune()
    await settle(home)
    await send(home, 0, 4)
    await settle(home, "other")
    await send(home, 5, 5)

    sources = replace(
        make_sources({}), topics=home.services.topics, coordinators=home.services.coordinators
    )
    values = {
        "/".join((metric.series, *labels)): value
        for metric in QUEUE_METRICS
        for labels, value in rows_of(metric, sources)
    }
    coordinator, letters = (
        "kafka_server_share_coordinator_metrics",
        "kafka_server_sharegroupmetrics_deadletterqueue",
    )
    assert values[f"{coordinator}_write_total"] == 3
    assert values[f"{coordinator}_last_pruned_offset/{SHARE_STATE_TOPIC}/0"] == 1
    assert values["siltstone_share_states"] == 1
    assert values["siltstone_share_state_bytes"] == states.size == 701 + 19
    assert values[f"{letters}recordcount_total/g"] == 5
    assert values[f"{letters}totalproducerequests_total/g"] == 1
    assert values[f"{letters}failedproducerequests_total/g"] == 1


def test_a_dump_tells_of_queues() -> None:
    """The group, the partition, and the fate of its records."""
    read = find_reader(SHARE_STATE_TOPIC)
    assert read is not None
    key = StateKey(True, "g", UUID(int=7), 3)
    told = read(
        encode_key(key), encode_value(Update(1, 0, 7, 2, (ShareUpdateStateBatch(7, 8, 4, 5),)))
    )

    assert told == {
        "about": "update of a queue",
        "group": "g",
        "topic_id": uuid_text(key.topic_id),
        "partition": 3,
        "snapshot_epoch": 1,
        "leader_epoch": 0,
        "start_offset": 7,
        "delivery_complete_count": 2,
        "state_batches": [{"offsets": "7-8", "state": "ARCHIVED", "delivery_count": 5}],
    }
    deleted = read(encode_key(key._replace(is_update=False)), None)
    assert deleted is not None
    assert deleted["deleted"] is True
