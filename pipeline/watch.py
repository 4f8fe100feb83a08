"""What a reader does now and then: tell the broker that a pin is in use, and look at the clock."""

from pathlib import Path
from typing import Final

from pipeline.errors import SnapshotExpired
from pipeline.pins import extend_pin, find_control
from pipeline.split import Split
from storage.clock import Clock

_SIGNS_PER_LEASE: Final = 3


class Watch:
    """The lease and the deadline of one split that is being read."""

    def __init__(self, split: Split, clock: Clock | None = None) -> None:
        self._split = split
        self._clock = clock or Clock()
        self._next_sign = self._clock.monotonic()

    def look(self) -> None:
        """Extend the pin if it is time.

        Raises:
            SnapshotExpired: the pin is gone, or the read took longer than tombstones stay.
        """
        lease, deadline = self._split.lease, self._split.rules.deadline_ms
        if lease is not None and self._clock.monotonic() >= self._next_sign:
            control = find_control(Path(lease.data), lease.control or None)
            extend_pin(control, lease.pin, lease.lease_ms)
            seconds = lease.lease_ms / 1000 / _SIGNS_PER_LEASE
            self._next_sign = self._clock.monotonic() + seconds
        if deadline and self._clock.now_ms() > deadline:
            raise SnapshotExpired(
                f"reading {self._split.topic_partition}, which is compacted, without a pin takes "
                "longer than half of its delete.retention.ms: a deleted key could come back; read "
                "with transport=pinned, with more tasks, or raise delete.retention.ms"
            )
