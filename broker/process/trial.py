"""The options of ``siltstone serve`` with which tests move the clock and make requests fail.

Only programs on the same machine may do so: a broker with these options listens only on loopback.
"""

from typing import NamedTuple

from siltstone.config.server import ServerConfig
from siltstone.storage.clock import Clock, ShiftedClock

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Trial(NamedTuple):
    """The values of these options; by default all are off."""

    moves_clock: bool = False
    makes_faults: bool = False

    def make_clock(self) -> Clock:
        """Return the clock of the broker."""
        return ShiftedClock() if self.moves_clock else Clock()

    def find_fault(self, server: ServerConfig) -> str | None:
        """Return why these settings do not go with the options; None if they do."""
        option = "--test-clock" if self.moves_clock else "--test-faults"
        if not (self.moves_clock or self.makes_faults):
            return None
        bound = {each.name: each.host for each in server.bound_listeners}
        bound["http.listener"] = server.http_address[0]
        for name, host in bound.items():
            if host.lower() not in _LOOPBACK:
                return (
                    f"{option} is refused: {name} listens on {host or 'every interface'}, where "
                    f"others reach it; listen on 127.0.0.1, or leave {option} out"
                )
        return None


NO_TRIAL = Trial()
