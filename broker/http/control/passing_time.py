"""Makes the broker do at once all work that is due after a test has moved its clock.

Everything that waits for a socket uses real time: long polls, idle connections, HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.broker.coordinators import Coordinators
    from siltstone.broker.process.first_use import OnFirstUse
    from siltstone.broker.process.housekeeping import Housekeeping
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.cleaning import Cleaning
    from siltstone.broker.topics.pins import PinRoom
    from siltstone.storage.clock import ShiftedClock


class PassingTime:
    """Moves the clock, and runs all periodic work that depends on it (loop only)."""

    def __init__(
        self,
        clock: ShiftedClock,
        coordinators: OnFirstUse[Coordinators],
        housekeeping: Housekeeping,
        pins: PinRoom,
        cleaning: Cleaning,
        io: IoThreads,
    ) -> None:
        self.clock = clock
        self._coordinators = coordinators
        self._housekeeping = housekeeping
        self._pins = pins
        self._cleaning = cleaning
        self._io = io

    async def advance(self, milliseconds: int) -> None:
        """Move the clock; on return all work that is due is done, except the cleaner's passes."""
        self.clock.advance(milliseconds)
        if self._coordinators.built is not None:
            await self._coordinators.built.catch_up()
        await self._housekeeping.catch_up()
        await self._pins.look()
        await self._io.run(self._cleaning.pool.get().wake)
