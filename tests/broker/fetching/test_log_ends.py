"""Offsets and epochs that consumers ask for."""

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.fetching import log_ends
from siltstone.config.topic import TopicConfig
from siltstone.protocol.messages.list_offsets import ListOffsetsPartition
from siltstone.protocol.messages.offset_for_leader_epoch import OffsetForLeaderPartition
from siltstone.storage.log.end import Appends, LogEnd
from siltstone.storage.log.epochs import EpochStart, LeaderEpochs
from siltstone.storage.log.reads import LogParts
from siltstone.storage.segment.end import SegmentEnd
from tests.support.clock import FakeClock


def make_log(start: int, stable: int, end: int) -> Any:
    """Return a log of leader epoch 3, whose records are all of epoch 2."""
    found: Any = SimpleNamespace(
        folder=SimpleNamespace(directory=None, config=TopicConfig()),
        segments=(SimpleNamespace(size=0, end=SegmentEnd(0, 0, 0)),),
        epochs=SimpleNamespace(latest=3),
        producers=SimpleNamespace(open_transactions={1: stable}),
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=start,
    )
    epochs = LeaderEpochs(Path(), [EpochStart(2, start)])
    log = LogParts()
    log.end = LogEnd(found, FakeClock(), Appends())
    log.epochs = epochs
    return log


LOGS = (make_log(0, 5, 7), None, make_log(1 << 40, 1 << 41, 1 << 42))


@pytest.mark.parametrize(
    ("asked", "is_committed", "row"),
    [
        ((0, -1, -1), False, (0, 0, -1, 7, 3)),
        ((0, -1, -1), True, (0, 0, -1, 5, 3)),
        ((2, 3, -1), False, (2, 0, -1, 1 << 42, 3)),
        ((2, 3, -2), True, (2, 0, -1, 1 << 40, 2)),
        ((0, 2, -1), False, None),
        ((0, 4, -2), False, None),
        ((0, -1, -3), False, None),
        ((0, -1, 0), False, None),
        ((1, -1, -1), False, None),
        ((3, -1, -1), False, None),
        ((-1, -1, -1), False, None),
        ((-(1 << 31), -1, -2), False, None),
    ],
)
def test_ends_that_need_no_search(
    asked: tuple[int, int, int], is_committed: bool, row: tuple[int, ...] | None
) -> None:
    """The latest and the earliest offset, of partitions that are here, of a known leader."""
    rows, left = log_ends.list_ends([ListOffsetsPartition(*asked)], LOGS, is_committed)

    assert left == ([] if row else [0])
    assert rows[0] == (row or (0,) * 5)


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        ((0, -1, 2), (0, 0, 2, 7)),
        ((2, 3, 2), (0, 2, 2, 1 << 42)),
        ((2, -1, 1), (0, 2, 1, 1 << 40)),
        ((0, -1, 3), (0, 0, -1, -1)),
        ((0, -1, -1), (0, 0, -1, -1)),
        ((0, 2, 2), None),
        ((0, 4, 2), None),
        ((1, -1, 2), None),
        ((3, -1, 2), None),
        ((-1, -1, 2), None),
    ],
)
def test_ends_of_epochs(asked: tuple[int, int, int], row: tuple[int, ...] | None) -> None:
    """Of partitions that are here, for a client that knows the leader."""
    rows, left = log_ends.list_epoch_ends([OffsetForLeaderPartition(*asked)], LOGS)

    assert left == ([] if row else [0])
    assert rows[0] == (row or (0,) * 4)


def test_partitions_that_are_named_twice_are_seen() -> None:
    """Wherever the second one stands."""
    rng = random.Random(1)
    for _ in range(200):
        indexes = [rng.randrange(20) for _ in range(rng.randrange(8))]
        asked = [ListOffsetsPartition(index) for index in indexes]
        assert log_ends.are_distinct(asked) is (len(set(indexes)) == len(indexes))


def test_what_is_no_log_is_refused() -> None:
    """Parts of a log are read as fields of C, which no other object has."""
    log: Any = LOGS[0]
    other: Any = SimpleNamespace(end=log.end, epochs=log.epochs)
    asked = [ListOffsetsPartition(0, -1, -1)]

    rows, left = log_ends.list_ends(asked, (log,), False)
    assert (rows[0], left) == ((0, 0, -1, 7, 3), [])
    with pytest.raises(TypeError):
        log_ends.list_ends(asked, (other,), False)
