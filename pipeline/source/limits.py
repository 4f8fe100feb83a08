"""How much a micro-batch or an increment reads."""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate
from typing import Final

from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.storage.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]
_RECORD_BYTES: Final = 1 << 10
"""How large a record counts if no file says it."""


def within_limits(
    view: Manifest, options: ReadOptions, starts: Offsets, ends: Offsets
) -> dict[TopicPartition, int]:
    """Return ends that are within the limits of options."""
    if options.max_offsets_per_trigger:
        most = options.max_offsets_per_trigger * _RECORD_BYTES
        alike = [replace(each, segments=()) for each in view.partitions]
        ends = shared_out(alike, starts, ends, most)
    if options.max_bytes_per_trigger:
        ends = shared_out(view.partitions, starts, ends, options.max_bytes_per_trigger)
    return ends


def shared_out(
    partitions: Iterable[PinnedPartition], starts: Offsets, ends: Offsets, most: int
) -> dict[TopicPartition, int]:
    """Return ends for about ``most`` bytes, with a share of each partition, at least one offset.

    Within a segment all offsets count as equally large.
    """
    places = {each.topic_partition: _Places(each) for each in partitions}
    sizes = {key: places[key].between(starts[key], ends[key]) for key in starts}
    total = sum(sizes.values())
    if total <= most:
        return ends
    furthest = {
        key: places[key].after(start, most * sizes[key] / total) for key, start in starts.items()
    }
    return {key: min(end, furthest.get(key, end)) for key, end in ends.items()}


class _Places:
    """Where the offsets of a partition are, in bytes from the start of its first segment."""

    def __init__(self, partition: PinnedPartition) -> None:
        segments = partition.segments
        self._offsets = [each.base_offset for each in segments] or [partition.log_start_offset]
        self._offsets.append(max(partition.end_offset, self._offsets[-1] + 1))
        length = self._offsets[-1] - self._offsets[0]
        self._bytes = [0, *accumulate(each.size for each in segments or ())]
        if not segments:
            self._bytes.append(length * _RECORD_BYTES)

    def between(self, start: int, end: int) -> float:
        """Return how many bytes are between two offsets."""
        return max(0.0, self._at(end) - self._at(start))

    def after(self, start: int, size: float) -> int:
        """Return the offset that is so many bytes after another one, which it is not itself."""
        found = _interpolated(self._at(start) + size, self._bytes, self._offsets)
        return max(start + 1, int(found))

    def _at(self, offset: int) -> float:
        return _interpolated(offset, self._offsets, self._bytes)


def _interpolated(value: float, known: list[int], wanted: list[int]) -> float:
    at = min(max(bisect_right(known, value), 1), len(known) - 1)
    part = (value - known[at - 1]) / max(1, known[at] - known[at - 1])
    return wanted[at - 1] + part * (wanted[at] - wanted[at - 1])
