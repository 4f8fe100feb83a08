"""How long the phases of a pass take."""

from collections.abc import Iterator
from contextlib import contextmanager

from siltstone.storage.clock import Clock


class PassClock:
    """Seconds by phase: map, copy, swap. Waits for the throttle are in them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.phase = "map"
        self.seconds: dict[str, float] = {}

    def begin(self) -> None:
        """Start at zero."""
        self.phase = "map"
        self.seconds = {"map": 0.0, "copy": 0.0, "swap": 0.0}

    @contextmanager
    def phase_of(self, phase: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        self.phase = phase
        began = self._clock.monotonic()
        try:
            yield
        finally:
            self.seconds[phase] += self._clock.monotonic() - began
