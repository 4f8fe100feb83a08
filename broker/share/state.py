"""The delivery state of a queue as a value: which records were delivered how often, and their fate.

Kafka: PersisterStateBatchCombiner, ShareGroupOffset.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final, NamedTuple

from siltstone.protocol.messages.share_group_state import StateBatch

__all__ = ["NOT_SET", "DeliveryState", "ShareState", "StateBatch", "combine"]

NOT_SET: Final = -1
"""A start offset that is not known yet, or a count of deliveries that nobody has told."""


class DeliveryState(IntEnum):
    """The state of a record in a queue, as it is stored."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3  # on the way to the dead letters
    ARCHIVED = 4


class ShareState(NamedTuple):
    """The state of a queue, or a change of it.

    ``delivery_complete_count`` is how many records from the start offset on are acknowledged or
    archived. Records from the start offset on that no batch holds are available, and were never
    delivered.
    """

    state_epoch: int
    start_offset: int = NOT_SET
    delivery_complete_count: int = NOT_SET
    batches: Sequence[StateBatch] = ()


def combine(
    held: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int
) -> tuple[StateBatch, ...]:
    """Return both kinds of batches as disjoint ones in order, without what is before the start.

    Where several batches hold an offset, the highest delivery count wins, and among equal counts
    the highest state. Neighbours with the same count and state become one.
    """
    batches = [*_after(held, start_offset), *_after(new, start_offset)]
    return tuple(batches if len(batches) <= 1 else _sweep(batches))


def _after(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    for batch in batches:
        if start_offset == NOT_SET or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)


def _sweep(batches: list[StateBatch]) -> list[StateBatch]:
    """Go over all ends of batches in order; the heap has the batches there, the winner first."""
    batches.sort()
    ends = {each.first_offset for each in batches}
    ends.update(each.last_offset + 1 for each in batches)
    heap: list[tuple[int, int, int]] = []
    combined: list[StateBatch] = []
    coming = 0
    for first, after in pairwise(sorted(ends)):
        while coming < len(batches) and batches[coming].first_offset <= first:
            each = batches[coming]
            heappush(heap, (-each.delivery_count, -each.delivery_state, each.last_offset))
            coming += 1
        while heap and heap[0][2] < first:
            heappop(heap)
        if heap:
            count, state, _ = heap[0]
            _append(combined, StateBatch(first, after - 1, -state, -count))
    return combined


def _append(combined: list[StateBatch], batch: StateBatch) -> None:
    """Add a batch at the end; make the last one longer if it has the same state and count."""
    if combined:
        last = combined[-1]
        if last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            combined[-1] = last._replace(last_offset=batch.last_offset)
            return
    combined.append(batch)
