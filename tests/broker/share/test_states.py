"""The share coordinator on a real folder: its answers, its journal, a restart, and pruning."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.state import NOT_SET, ShareState, StateBatch
from siltstone.broker.share.states import ShareStates, Summary
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.names import SHARE_STATE_TOPIC
from tests.support.services import ServicesOnDisk
from tests.support.waiting import give_turns_until

DONE = StateBatch(10, 12, 2, 1)
HOUR_MS = 3_600_000
Call = Callable[[ShareStates, ShareKey], object]


async def open_home(root: Path, **settings: Any) -> ServicesOnDisk:
    """Open a broker with the journal of queues and a topic."""
    settings = {"share_coordinator_state_topic_num_partitions": "3"} | settings
    home = await ServicesOnDisk(root, **settings).open()
    if "t" not in home.services.topics.topics:
        await home.services.topics.create("t", 4, {})
    await home.services.share_states().ensure_created()
    return home


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[ServicesOnDisk]:
    """Return such a broker."""
    home = await open_home(tmp_path)
    yield home
    await home.close()


def key_of(home: ServicesOnDisk, partition: int = 0, group_id: str = "g") -> ShareKey:
    """Return the queue of a group in a partition of the topic."""
    return ShareKey(group_id, home.services.topics.topics["t"].id, partition)


def begun(home: ServicesOnDisk, partition: int = 0, group_id: str = "g") -> ShareKey:
    """Begin a queue at offset 10."""
    key = key_of(home, partition, group_id)
    home.services.share_states().initialize(key, 1, 10)
    return key


def ends(home: ServicesOnDisk) -> list[tuple[int, int]]:
    """Return the first and the next offset of each partition of the journal that has records."""
    logs = home.services.topics.topics[SHARE_STATE_TOPIC].logs
    return [
        (log.log_start_offset, log.log_end_offset)
        for log in logs
        if log is not None and log.log_end_offset
    ]


async def test_the_topic_is_kafkas(home: ServicesOnDisk) -> None:
    """Its settings are those of ShareCoordinatorService.shareGroupStateTopicConfigs."""
    topic = home.services.topics.topics[SHARE_STATE_TOPIC]

    assert topic.partitions == 3
    assert topic.overrides == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }


async def test_a_queue_has_what_was_written(home: ServicesOnDisk) -> None:
    """A start, then changes; the summary has the start and the count."""
    states = home.services.share_states()
    key = begun(home)
    states.write(key, 0, ShareState(1, 10, 3, [DONE]))
    states.write(key, 0, ShareState(1, 11, 2, [StateBatch(20, 20, 0, 1)]))

    expected = (StateBatch(11, 12, 2, 1), StateBatch(20, 20, 0, 1))
    assert states.read(key, 0) == ShareState(1, 11, 2, expected)
    assert states.summary(key) == Summary(1, 0, 11, 2)
    assert states.summary(key_of(home, 1)) == Summary(0, 0, NOT_SET, NOT_SET)


async def test_a_restart_reads_the_journal(tmp_path: Path) -> None:
    """Snapshots, updates and deletions of many queues; leaders stay fenced."""
    home = await open_home(tmp_path, share_coordinator_snapshot_update_records_per_snapshot="2")
    states = home.services.share_states()
    keys = [begun(home, partition, f"g{number}") for number in range(5) for partition in range(4)]
    for key in keys:
        for offset in range(10, 15):
            states.write(key, 0, ShareState(1, 10, 1, [StateBatch(offset, offset, 2, offset)]))
    states.read(keys[1], 7)
    states.delete(keys[2])
    before = [states.summary(key) for key in keys]
    read = [states.read(key, 7) for key in keys if key is not keys[2]]
    size = states.size
    home.crash()

    again = await ServicesOnDisk(tmp_path).open()
    states = again.services.share_states()

    assert [states.summary(key)[2:] for key in keys] == [each[2:] for each in before]
    assert [states.read(key, 7) for key in keys if key is not keys[2]] == read
    assert len(states) == len(keys) - 1
    assert states.size == size
    with pytest.raises(errors.FencedLeaderEpoch):
        states.read(keys[1], 6)
    await again.close()


async def test_a_new_leader_is_written(home: ServicesOnDisk) -> None:
    """A read by a leader that is known writes nothing; an older leader is fenced."""
    states = home.services.share_states()
    key = begun(home)
    states.read(key, 0)
    [(_, before)] = ends(home)
    states.read(key, 5)
    states.read(key, 5)

    assert ends(home) == [(0, before + 1)]
    assert states.summary(key).leader_epoch == 5
    with pytest.raises(errors.FencedLeaderEpoch):
        states.write(key, 4, ShareState(1, 10, 0))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda states, key: states.read(key._replace(partition=-1), 0), errors.InvalidRequest),
        (lambda states, key: states.read(key, -1), errors.InvalidRequest),
        (lambda states, key: states.read(key._replace(group_id="h"), 0), errors.InvalidRequest),
        (lambda states, key: states.write(key, -1, ShareState(1)), errors.InvalidRequest),
        (lambda states, key: states.write(key, 0, ShareState(-1)), errors.InvalidRequest),
        (lambda states, key: states.write(key, 0, ShareState(0)), errors.FencedStateEpoch),
        (lambda states, key: states.initialize(key, -1, 0), errors.InvalidRequest),
        (lambda states, key: states.initialize(key, 0, 0), errors.FencedStateEpoch),
        (lambda states, key: states.initialize(key._replace(partition=4), 0, 0),
         errors.UnknownTopicOrPartition),
        (lambda states, key: states.delete(key._replace(topic_id=UUID(int=9))),
         errors.UnknownTopicOrPartition),
        (lambda states, key: states.summary(key._replace(partition=-1)), errors.InvalidRequest),
    ],
)  # fmt: skip
async def test_refusals(
    home: ServicesOnDisk,
    call: Call,
    error: type[KafkaError],
) -> None:
    """As ShareCoordinatorShard checks, and nothing is written."""
    key = begun(home)
    before = ends(home)

    with pytest.raises(error):
        call(home.services.share_states(), key)
    assert ends(home) == before


async def test_a_queue_that_begins_again_has_no_batches(home: ServicesOnDisk) -> None:
    """With a newer state epoch; a writer with the old one is fenced."""
    states = home.services.share_states()
    key = begun(home)
    states.write(key, 0, ShareState(1, 10, 3, [DONE]))
    states.initialize(key, 2, 0)

    assert states.read(key, 0) == ShareState(2, 0, 0, ())
    with pytest.raises(errors.FencedStateEpoch):
        states.write(key, 0, ShareState(1, 0, 0))


async def test_old_records_are_pruned(tmp_path: Path) -> None:
    """Up to the oldest snapshot that counts; the rest gives the same state after a restart."""
    home = await open_home(
        tmp_path,
        share_coordinator_state_topic_num_partitions="1",
        share_coordinator_snapshot_update_records_per_snapshot="3",
    )
    states = home.services.share_states()
    first, second = begun(home, 0), begun(home, 1)
    for number in range(10):
        states.write(first, 0, ShareState(1, 10, 0, [StateBatch(10, 10 + number, 2, 1)]))
    await states.prune()
    assert ends(home) == [(1, 12)]  # the other queue has the oldest snapshot

    states.write(second, 0, ShareState(1, 10, 2, [DONE]))
    home.clock.advance(HOUR_MS)
    await states.snapshot_cold()
    await states.prune()
    assert ends(home) == [(13, 15)]
    assert states.read(first, 0).batches == (StateBatch(10, 19, 2, 1),)
    await home.close()

    again = await ServicesOnDisk(tmp_path).open()
    assert again.services.share_states().read(first, 0).batches == (StateBatch(10, 19, 2, 1),)
    assert again.services.share_states().read(second, 0).batches == (DONE,)
    await again.close()


async def test_quiet_queues_get_one_snapshot(home: ServicesOnDisk) -> None:
    """Of all that a partition of the journal has; when all are quiet, nothing more is written."""
    states = home.services.share_states()
    key = begun(home)
    await states.snapshot_cold()
    assert ends(home) == [(0, 1)]  # the first snapshot is new
    home.clock.advance(HOUR_MS)
    for _ in range(3):
        await states.snapshot_cold()
        home.clock.advance(HOUR_MS)

    assert ends(home) == [(0, 2)]
    assert states.read(key, 0).start_offset == 10


async def test_the_queues_of_a_deleted_topic_are_forgotten(home: ServicesOnDisk) -> None:
    """Their tombstones are in the journal, and are pruned with all before."""
    states = home.services.share_states()
    for partition in range(4):
        begun(home, partition)
    await home.services.topics.delete(home.services.topics.topics["t"])
    await give_turns_until(lambda: not len(states), "the queues are gone")
    await states.prune()

    assert states.size == 0
    assert sum(end for _, end in ends(home)) == 8
    assert all(end - start == 1 for start, end in ends(home))


async def test_queues_of_a_topic_that_is_gone_at_a_start(tmp_path: Path) -> None:
    """A crash between the deletion of a topic and the tombstones leaves nothing for ever."""
    home = await open_home(tmp_path)
    begun(home)
    states: ShareStates = home.services.share_states()
    states.loaded.clear()  # so the deletion is not noticed
    await home.services.topics.delete(home.services.topics.topics["t"])
    assert len(states) == 1
    home.crash()

    again = await ServicesOnDisk(tmp_path).open()
    assert len(again.services.share_states()) == 0
    await again.close()


async def test_a_deleted_journal_is_an_empty_one(home: ServicesOnDisk) -> None:
    """Nothing of it stays in memory."""
    states = home.services.share_states()
    key = begun(home)
    await home.services.topics.delete(home.services.topics.topics[SHARE_STATE_TOPIC])

    assert (len(states), states.size) == (0, 0)
    with pytest.raises(errors.NotCoordinator):
        states.summary(key)
    await states.ensure_created()
    assert states.summary(key) == Summary()


async def test_states_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """New queues and longer states are refused; a start that moves on is not."""
    home = await open_home(tmp_path, share_states_max_bytes="2000")
    states = home.services.share_states()
    key = begun(home)
    begun(home, 1)
    with pytest.raises(errors.PolicyViolation, match=r"share\.states\.max\.bytes"):
        begun(home, 2)
    many = [StateBatch(offset, offset, 2 * (offset % 2), 1) for offset in range(10, 60)]
    with pytest.raises(errors.PolicyViolation):
        states.write(key, 0, ShareState(1, 10, 0, many))
    states.write(key, 0, ShareState(1, 11, 0, many))

    assert states.read(key, 0).batches == tuple(many[1:])
    await home.close()
