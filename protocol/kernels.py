"""The kernel of the Produce layout, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol._produce_kernels import COMPILED, find_single
else:
    _produce = choose("protocol._produce_kernels")
    COMPILED = _produce.COMPILED
    find_single = _produce.find_single

__all__ = ["COMPILED", "find_single"]
