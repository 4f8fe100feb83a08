"""How much a micro-batch takes: neither too much at once nor too little too often."""

from collections.abc import Mapping

from siltstone.pipeline.options import ReadOptions
from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition


class Pace:
    """Holds back a micro-batch until there are enough offsets, or it has waited long enough."""

    def __init__(self, options: ReadOptions, clock: Clock) -> None:
        self._least = options.min_offsets_per_trigger
        self._max_seconds = options.max_trigger_delay_ms / 1000
        self._clock = clock
        self._last = clock.monotonic()

    def is_enough(self, available: int) -> bool:
        """Tell whether so many offsets are a micro-batch; the wait begins anew if they are."""
        now = self._clock.monotonic()
        if available < self._least and now - self._last < self._max_seconds:
            return False
        self._last = now
        return True


def shared_out(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_offsets: int
) -> dict[TopicPartition, int]:
    """Return ends that take about ``max_offsets``, from each partition its share.

    A partition that has any gives at least one, so that none starves.
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
