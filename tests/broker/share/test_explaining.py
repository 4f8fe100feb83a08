"""Explanations of queues: locks, limits, and records that no member has fetched."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from siltstone.broker.commands.explain_text import explanation_lines
from siltstone.broker.share.explaining import explain_queue, explain_queues
from siltstone.broker.share.key import ShareKey
from siltstone.broker.share.partition import Limits, SharePartition, Stored, Wish
from siltstone.broker.share.state import DeliveryState, ShareState, StateBatch

NOW_MS, STEADY_MS = 1_700_000_000_000, 5_000.0
LIMITS = Limits()
KEY = ShareKey("g", UUID(int=1), 0)


def alive(queue: SharePartition, end: int) -> Any:
    """Return a queue of a log that ends at an offset."""
    return SimpleNamespace(key=KEY, queue=queue, log=SimpleNamespace(high_watermark=end))


def explain(queue: SharePartition, end: int, limits: Limits = LIMITS) -> dict[str, Any]:
    """Explain a queue of a log that ends at an offset."""
    return explain_queue(alive(queue, end), limits, NOW_MS, STEADY_MS)


def locked(limits: Limits = LIMITS) -> SharePartition:
    """Return a queue of which a member has the first ten records."""
    queue = SharePartition(0)
    assert queue.acquire(Wish("m", 100), 0, [Stored(0, 9)], limits, STEADY_MS)
    return queue


def test_locked_records_are_named_with_their_member_and_time() -> None:
    """All that is left is locked: no other member gets anything until then."""
    told = explain(locked(), 10)

    assert told["because"] == "all that is left, 10 records, is locked by members"
    assert told["locked"] == [
        {
            "first_offset": 0,
            "last_offset": 9,
            "member": "m",
            "deliveries": 1,
            "until_ms": NOW_MS + 30_000,
        }
    ]


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        (LIMITS, "5 new records wait for a member to fetch them"),
        (
            Limits(max_in_flight=10),
            (
                "10 records are in flight, as many as share.partition.max.record.locks allows, and "
                "10 of them are locked by members"
            ),
        ),
    ],
)
def test_new_records_wait_for_room(limits: Limits, because: str) -> None:
    """A queue with all of its locks given out reads no further."""
    told = explain(locked(limits), 15, limits)

    assert (told["because"], told["not_fetched"]) == (because, 5)


def test_a_record_before_its_last_delivery_is_named() -> None:
    """After the next failure it is archived."""
    batch = StateBatch(0, 3, DeliveryState.AVAILABLE, 4)

    told = explain(SharePartition.load(ShareState(1, 0, 0, (batch,)), 0), 4)

    assert told["because"] == "4 records in flight wait for a member to fetch them"
    assert told["last_tries"] == [{"first_offset": 0, "last_offset": 3, "deliveries": 4}]
    assert explain(SharePartition(0), 0)["because"] == "all records are done"


def test_queues_are_found_by_partition_and_printed() -> None:
    """Below the partition, with the time in words."""
    host: Any = SimpleNamespace(
        live={KEY: alive(locked(), 10)},
        timers=SimpleNamespace(now_ms=lambda: STEADY_MS),
        limits_of=lambda _group_id: LIMITS,
    )
    queues = [*explain_queues(host, NOW_MS)[KEY.topic_id, 0]]
    facts = {"topic": "t", "partition": 0, "rule": "x", "eligible": False, "because": "so"}
    facts |= {"next_eligible_ms": None, "queues": queues}

    lines = [*explanation_lines([facts], NOW_MS, in_detail=True)]

    assert (
        "  queue     of g, from offset 0: all that is left, 10 records, is locked by members"
        in (lines)
    )
    assert any(line.startswith("    locked  0 to 9 by m until 2023-11-14") for line in lines)
