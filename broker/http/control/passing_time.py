"""Makes the broker do at once all work that is due after a test has moved its clock.

Everything that waits for a socket uses real time: long polls, idle connections, HTTP.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.process.first_use import OnFirstUse
    from siltstone.broker.process.housekeeping import Housekeeping
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.pins import PinRoom
    from siltstone.storage.clock import ShiftedClock


@dataclass(frozen=True, slots=True)
class PassingTime:
    """Moves the clock, and runs all periodic work that depends on it (loop only)."""

    clock: ShiftedClock
    coordinators: OnFirstUse[Coordinators]
    housekeeping: Housekeeping
    pins: PinRoom
    cleaning: Cleaning
    io: IoThreads

    async def advance(self, milliseconds: int) -> None:
        """Move the clock; on return all work that is due is done, except the cleaner's passes."""
        self.clock.advance(milliseconds)
        if self.coordinators.built is not None:
            await self.coordinators.built.catch_up()
        await self.housekeeping.catch_up()
        await self.pins.look()
        await self.io.run(self.cleaning.pool.get().wake)
