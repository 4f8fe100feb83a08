"""The work of a sender thread, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from broker.net.sending._sending_kernels import COMPILED, serve
else:
    _sending = choose("broker.net.sending._sending_kernels")
    COMPILED = _sending.COMPILED
    serve = _sending.serve

__all__ = ["COMPILED", "serve"]
