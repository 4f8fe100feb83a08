"""The work of a sender thread, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.net.sending._sending_kernels import COMPILED, serve
else:
    _sending = choose("siltstone.broker.net.sending._sending_kernels")
    COMPILED = _sending.COMPILED
    serve = _sending.serve

__all__ = ["COMPILED", "serve"]
