"""Commits of a request: in one batch of the journal, and remembered only when it is written."""

from collections.abc import Sequence

import pytest

from siltstone.broker.groups.offsets import Offsets
from siltstone.protocol.coordinator.group_records import read_key, read_offset
from siltstone.protocol.errors import NotCoordinator
from siltstone.protocol.messages.consumer_offsets import OffsetCommitKey, OffsetCommitValue
from siltstone.protocol.records.journal import NO_PRODUCER, Producer, Row
from tests.support.committed import new_offsets

PARTITION = 3
MANY = 100


class Journal:
    """Keeps what is written, a list of rows for each batch; or refuses it."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Row]] = []
        self.refuses = False

    def append(self, partition: int, rows: Sequence[Row], producer: Producer) -> int:
        """Take a batch."""
        assert (partition, producer) == (PARTITION, NO_PRODUCER)
        if self.refuses:
            raise NotCoordinator
        self.batches.append(rows)
        return 0


def offsets(*indexes: int, expiry: int = -1) -> list[tuple[str, int, OffsetCommitValue]]:
    """Return what is committed for these partitions of orders."""
    return [
        ("orders", index, OffsetCommitValue(index * 10, 4, f"läuft {index}", 1_000, expiry))
        for index in indexes
    ]


@pytest.mark.parametrize("expiry", [-1, 5_000])
def test_all_offsets_of_a_request_are_one_batch(expiry: int) -> None:
    """As many records as there are partitions, which read as what was committed."""
    journal = Journal()
    table = Offsets(journal.append)
    new = offsets(*range(MANY), expiry=expiry)

    table.append("g", PARTITION, new_offsets(*new))

    [rows] = journal.batches
    assert [(read_key(key), read_offset(value or b"")) for key, value in rows] == [
        (
            OffsetCommitKey("g", topic, index),
            committed if expiry < 0 else committed._replace(leader_epoch=-1),
        )
        for topic, index, committed in new
    ]
    assert table.topics("g") == {"orders": {i: rows[i][1] for i in range(MANY)}}
    assert (table.count, table.commit_count) == (MANY, MANY)


def test_a_commit_of_the_same_partition_counts_once() -> None:
    """The later one is served, also within a request."""
    table = Offsets(Journal().append)

    later = ("orders", 1, OffsetCommitValue(77, -1, "", 1_000))

    table.append("g", PARTITION, new_offsets(*offsets(1, 2)))
    table.append("g", PARTITION, new_offsets(*offsets(2), later))

    committed = table.find("g", "orders", 1)
    assert committed is not None
    assert committed.offset == 77
    assert (table.count, table.commit_count) == (2, 4)


def test_what_the_journal_refuses_is_not_remembered() -> None:
    """Nothing of it, and the refusal is the caller's."""
    journal = Journal()
    journal.refuses = True
    table = Offsets(journal.append)

    with pytest.raises(NotCoordinator):
        table.append("g", PARTITION, new_offsets(*offsets(1, 2)))

    assert "g" not in table
    assert (table.count, table.commit_count) == (0, 0)


def test_an_offset_that_cannot_be_written_keeps_out_all() -> None:
    """A size that is said wrongly would be the end of the journal."""
    journal = Journal()
    table = Offsets(journal.append)
    long = ("orders", 2, OffsetCommitValue(1, -1, "x" * 0x8000, 0))

    with pytest.raises(OverflowError, match="metadata"):
        table.append("g", PARTITION, new_offsets(*offsets(1), long))

    assert journal.batches == []
    assert table.count == 0
