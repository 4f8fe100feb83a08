"""The write into a coordinator's journal, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.coordination._coordinator_kernels import COMPILED, Journal
else:
    _coordinator = choose("siltstone.broker.coordination._coordinator_kernels")
    COMPILED = _coordinator.COMPILED
    Journal = _coordinator.Journal

__all__ = ["COMPILED", "Journal"]
