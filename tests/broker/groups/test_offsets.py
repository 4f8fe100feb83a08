"""Offsets of very many groups."""

import gc
import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest

from siltstone.broker.groups.offsets import Offsets
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import EntryKind, Producer, Row
from tests.support.committed import new_offsets
from tests.support.services import ServicesOnDisk

GROUPS = 100_000
LARGEST_BYTES = 1 << 18
"""A dict of this size grows in less than a millisecond; one of all groups has 5 MiB."""


def write(partition: int, rows: Sequence[Row], producer: Producer) -> int:
    """Take everything."""
    del partition, rows, producer
    return 0


def test_no_group_is_added_at_the_price_of_all_others() -> None:
    """Groups are kept in many dicts, since one dict grows at once, and the loop waits for it."""
    offsets = Offsets(write)
    names = [f"group-{number}" for number in range(GROUPS)]
    for name in names:
        offsets.replay(0, (name, "orders", 0), b"stored", EntryKind.PLAIN, -1)
    kept = offsets._shards

    assert max(map(sys.getsizeof, kept)) < LARGEST_BYTES
    assert sorted(offsets) == sorted(names)
    assert names[7] in offsets
    assert offsets.topics(names[7]) == {"orders": {0: b"stored"}}
    offsets.forget(names[7])
    assert names[7] not in offsets
    assert offsets.count == GROUPS - 1
    offsets.clear()
    assert list(offsets) == []


def test_bytes_are_those_of_what_is_kept() -> None:
    """An offset that is written often is kept once, whether a transaction writes it or not."""
    offsets = Offsets(write)
    key, large = ("a", "orders", 0), bytes(4000)
    sizes = []
    for _ in range(5):
        offsets.replay(0, key, large, EntryKind.PLAIN, -1)
        offsets.replay(0, key, large, EntryKind.TRANSACTIONAL, 7)
        sizes.append(offsets.size)
    assert len(set(sizes)) == 1
    assert 8000 < sizes[0] < 10_000

    offsets.replay(0, key, large, EntryKind.PLAIN, -1)  # what waits is not needed any more
    assert 4000 < offsets.size < 6000
    offsets.complete(0, 7, is_commit=True)
    assert 4000 < offsets.size < 5000
    offsets.replay(0, key, large, EntryKind.TRANSACTIONAL, 8)
    offsets.delete("a", 0, [("orders", 0)])
    assert offsets.size < 1500  # the group, and a transaction with nothing
    offsets.complete(0, 8, is_commit=True)
    offsets.forget("a")
    assert offsets.size == 0


async def test_the_collector_does_not_go_through_what_was_loaded(tmp_path: Path) -> None:
    """A collection of a million young objects would hold everybody up, and find nothing."""
    names = [f"group-{number}" for number in range(100, 200)]
    home = await ServicesOnDisk(tmp_path / "root").open()
    groups = home.services.groups()
    await groups.journal.ensure_created()
    for name in names:
        committed = new_offsets(("orders", 0, OffsetCommitValue(7, -1, "", 0)))
        groups.offsets.append(name, groups.journal.partition_for(name), committed)
    await home.close()
    again = await ServicesOnDisk(tmp_path / "root").open()
    looked_at = {id(each) for each in gc.get_objects()}
    shards = again.services.groups().offsets._shards
    loaded = {name: id(each) for shard in shards for name, each in shard.items()}
    await again.close()
    gc.unfreeze()

    assert sorted(loaded) == names
    assert looked_at.isdisjoint(loaded.values())


@pytest.mark.parametrize(
    ("groups", "partitions", "metadata", "is_transactional"),
    [
        (10, 100, "x" * 10, False),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                (1000, 1, "", False),
                (1000, 1, "x" * 10, False),
                (20, 100, "x" * 1000, False),
                (1000, 1, "x" * 10, True),
                (10, 100, "x" * 10, True),
            )
        ),
    ],
)
async def test_what_commits_take_is_counted(
    tmp_path: Path, groups: int, partitions: int, metadata: str, is_transactional: bool
) -> None:
    """Within a fifth, with the groups that are made for them."""
    home = await ServicesOnDisk(tmp_path / "root").open()
    coordinator = home.services.groups()
    await coordinator.journal.ensure_created()
    said = OffsetCommitValue(1000, -1, metadata, 1_700_000_000_000)

    def commit(number: int) -> None:
        name = f"group-{number:08}"
        rows = [
            ("orders", index, said._replace(offset=1000 + index)) for index in range(partitions)
        ]
        offsets = new_offsets(*rows)
        group = coordinator.check_commit(name, -1, "", None, 9, offsets)
        partition = coordinator.journal.partition_for(name)
        if is_transactional:
            producer = Producer(number % 10, 0)  # the log counts those by itself
            coordinator.offsets.append_transactional(name, partition, offsets, producer)
        else:
            coordinator.offsets.append(name, partition, offsets)
        coordinator.keep(group)

    def count() -> int:
        return coordinator.offsets.size + coordinator.member_bytes.size

    for number in range(200):
        commit(1_000_000 + number)
    before = count()
    gc.collect()
    tracemalloc.start()
    for number in range(groups):
        commit(number)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    counted = count() - before
    await home.close()

    assert 0.8 < taken / counted < 1.2
