"""Knows the batches of aborted transactions."""

from bisect import bisect_right
from collections.abc import Iterable

from siltstone.storage.producers.transaction_index import AbortedTransaction


class AbortedIndex:
    """Aborted transactions by producer id: those of one producer do not overlap."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._lasts: dict[int, list[int]] = {}
        self._firsts: dict[int, list[int]] = {}
        for each in sorted(aborted, key=lambda each: each.first_offset):
            self._firsts.setdefault(each.producer_id, []).append(each.first_offset)
            self._lasts.setdefault(each.producer_id, []).append(each.last_offset)

    def __call__(self, producer_id: int, offset: int) -> bool:
        """Tell whether the batch of a producer id at a base offset was aborted."""
        firsts = self._firsts.get(producer_id)
        if firsts is None:
            return False
        at = bisect_right(firsts, offset) - 1
        return at >= 0 and offset <= self._lasts[producer_id][at]
