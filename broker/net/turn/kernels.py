"""A connection's turn, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.net.turn._turn_kernels import COMPILED, FRAMES_PER_TURN, Transport, Turn
else:
    _turn = choose("siltstone.broker.net.turn._turn_kernels")
    COMPILED = _turn.COMPILED
    FRAMES_PER_TURN = _turn.FRAMES_PER_TURN
    Transport = _turn.Transport
    Turn = _turn.Turn

__all__ = ["COMPILED", "FRAMES_PER_TURN", "Transport", "Turn"]
