"""Offsets of very many groups."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from broker.groups.offsets import Offsets
from protocol.records.journal import EntryKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from protocol.records.journal import Producer, Row

GROUPS = 100_000
LARGEST_BYTES = 1 << 18
"""A dict of this size grows in less than a millisecond; one of all groups has 5 MiB."""


def write(partition: int, rows: Sequence[Row], producer: Producer) -> int:
    """Take everything."""
    del partition, rows, producer
    return 0


def test_no_group_is_added_at_the_price_of_all_others() -> None:
    """Groups are kept in many dicts, since one has to grow at once, whoever waits meanwhile."""
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
