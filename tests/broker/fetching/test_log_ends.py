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
from siltstone.storage.segment.end import SegmentEnd
from tests.support.clock import FakeClock


def make_log(start: int, stable: int, end: int) -> Any:
    """Return a log of leader epoch 3, whose records are all of epoch 2."""
    found: Any = SimpleNamespace(
        folder=SimpleNamespace(directory=None, config=TopicConfig()),
        segments=(SimpleNamespace(size=0, end=SegmentEnd(0, 0, 0)),),
        epochs=SimpleNamespace(latest=3),
        producers=SimpleNamespace(first_unstable_offset=stable),
        log_start_offset=start,
        log_end_offset=end,
        recovery_point=start,
    )
    epochs = LeaderEpochs(Path(), [EpochStart(2, start)])
    return SimpleNamespace(end=LogEnd(found, FakeClock(), Appends()), epochs=epochs)


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


def test_where_one_log_keeps_its_end_says_nothing_of_the_next() -> None:
    """In a slot, in another slot, in a dictionary, nowhere; and the class may change."""

    class Slotted:
        __slots__ = ("end", "epochs")

    class Wider:
        __slots__ = ("before", "end", "epochs")

    first, last = LOGS[0], LOGS[2]
    slotted: Any = Slotted()
    wider: Any = Wider()
    slotted.end = wider.end = first.end
    asked = [ListOffsetsPartition(0, -1, -1)]

    def ends_of(log: Any) -> Any:
        return log_ends.list_ends(asked, (log,), False)

    for log in (slotted, slotted, wider, slotted, first, first, wider, wider):
        assert ends_of(log) == ([(0, 0, -1, 7, 3)], [])
    del slotted.end
    for _ in range(2):
        with pytest.raises(AttributeError):
            ends_of(slotted)
    slotted.end = last.end
    assert ends_of(slotted) == ([(0, 0, -1, 1 << 42, 3)], [])
    Wider.end = property(lambda _: last.end)  # type: ignore[attr-defined]
    assert ends_of(wider) == ([(0, 0, -1, 1 << 42, 3)], [])
