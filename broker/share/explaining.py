"""Explains why a queue stands still: which records a member has locked, and which limit is reached.

It is a function of the queue's state; `siltstone explain` prints it below the partition.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from siltstone.broker.share.live import LiveQueue
from siltstone.broker.share.partition import Limits, Run
from siltstone.broker.share.partitions import SharePartitions
from siltstone.broker.share.state import DeliveryState

_MAX_ROWS: Final = 20


def explain_queues(
    queues: SharePartitions, now_ms: int
) -> Mapping[tuple[UUID, int], Iterator[dict[str, Any]]]:
    """Return the explanations of queues in use, by topic id and partition, made when asked for."""
    found: dict[tuple[UUID, int], list[LiveQueue]] = {}
    for key, live in queues.live.items():
        found.setdefault((key.topic_id, key.partition), []).append(live)
    steady_ms = queues.timers.now_ms()
    return {
        place: (
            explain_queue(live, queues.limits_of(live.key.group_id), now_ms, steady_ms)
            for live in some
        )
        for place, some in found.items()
    }


def explain_queue(live: LiveQueue, limits: Limits, now_ms: int, steady_ms: float) -> dict[str, Any]:
    """Return the facts of a queue as JSON values; ``steady_ms`` is the time of its locks."""
    queue = live.queue
    runs = [*queue.runs()]
    locked = [run for run in runs if run.state is DeliveryState.ACQUIRED]
    available = [run for run in runs if run.state is DeliveryState.AVAILABLE]
    last_tries = [run for run in available if run.deliveries + 1 >= limits.max_deliveries]
    waiting = max(0, live.log.high_watermark - (queue.end_offset + bool(runs)))
    return {
        "group": live.key.group_id,
        "because": _reason(live, limits, _count(locked), _count(available), waiting),
        "start_offset": queue.start_offset,
        "in_flight": queue.in_flight_count,
        "available": _count(available),
        "not_fetched": waiting,
        "locked": [
            {
                "first_offset": run.first,
                "last_offset": run.last,
                "member": run.member,
                "deliveries": run.deliveries,
                "until_ms": now_ms + int(run.deadline - steady_ms),
            }
            for run in locked[:_MAX_ROWS]
        ],
        "last_tries": [
            {"first_offset": run.first, "last_offset": run.last, "deliveries": run.deliveries}
            for run in last_tries[:_MAX_ROWS]
        ],
    }


def _reason(live: LiveQueue, limits: Limits, locked: int, available: int, waiting: int) -> str:
    in_flight = live.queue.in_flight_count
    if available:
        return f"{available} records in flight wait for a member to fetch them"
    if in_flight >= limits.max_in_flight:
        return (
            f"{in_flight} records are in flight, as many as share.partition.max.record.locks "
            f"allows, and {locked} of them are locked by members"
        )
    if waiting:
        return f"{waiting} new records wait for a member to fetch them"
    if locked:
        return f"all that is left, {locked} records, is locked by members"
    return "all records are done"


def _count(runs: list[Run]) -> int:
    return sum(run.last - run.first + 1 for run in runs)
