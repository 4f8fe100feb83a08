"""How much a micro-batch or an increment reads, and when there is enough for a batch."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import accumulate
from typing import Final

from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.manifest import Manifest, PinnedPartition
from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]
_RECORD_BYTES: Final = 1 << 10
"""How large a record counts if no file says it."""


class Pace:
    """Holds back a micro-batch until there are enough offsets, or it has waited long enough."""

    def __init__(self, options: ReadOptions, clock: Clock) -> None:
        self._least = options.min_offsets_per_trigger
        self._max_seconds = options.max_trigger_delay_ms / 1000
        self._clock = clock
        self._last = clock.monotonic()

    def is_enough(self, available: int) -> bool:
        """Tell whether so many offsets are enough for a micro-batch; then wait again."""
        now = self._clock.monotonic()
        if available < self._least and now - self._last < self._max_seconds:
            return False
        self._last = now
        return True


def within_limits(
    view: Manifest, options: ReadOptions, starts: Offsets, ends: Offsets
) -> dict[TopicPartition, int]:
    """Return ends that are within the limits of options."""
    if options.max_offsets_per_trigger:
        ends = shared_out(starts, ends, options.max_offsets_per_trigger)
    if options.max_bytes_per_trigger:
        ends = within_bytes(view, starts, ends, options.max_bytes_per_trigger)
    return ends


def shared_out(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_offsets: int
) -> dict[TopicPartition, int]:
    """Return ends for about ``max_offsets`` offsets, with a share of each partition.

    Each partition with new offsets gets at least one, so that none starves.
    """
    lengths = {key: max(0, end - starts.get(key, 0)) for key, end in ends.items()}
    total = sum(lengths.values())
    if total <= max_offsets:
        return dict(ends)
    return {
        key: starts.get(key, 0) + min(length, max(1, max_offsets * length // total))
        if length
        else end
        for (key, end), length in zip(ends.items(), lengths.values(), strict=True)
    }


def within_bytes(
    view: Manifest, starts: Offsets, ends: Offsets, max_bytes: int
) -> dict[TopicPartition, int]:
    """Return ends for about ``max_bytes``, with a share of each partition, at least one offset.

    Within a segment all offsets count as equally large.
    """
    places = {each.topic_partition: _Places(each) for each in view.partitions}
    sizes = {key: places[key].between(starts[key], ends[key]) for key in starts}
    total = sum(sizes.values())
    if total <= max_bytes:
        return ends
    most = {
        key: places[key].after(start, max_bytes * sizes[key] / total)
        for key, start in starts.items()
    }
    return {key: min(end, most.get(key, end)) for key, end in ends.items()}


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
