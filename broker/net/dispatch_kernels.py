"""What every request passes, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import (
        AT_ONCE,
        BOUNDS_SECONDS,
        COMPILED,
        Caller,
        Gate,
        Histogram,
        RequestContext,
        Route,
    )
else:
    _dispatch = choose("siltstone.broker.net._dispatch_kernels")
    AT_ONCE = _dispatch.AT_ONCE
    BOUNDS_SECONDS = _dispatch.BOUNDS_SECONDS
    COMPILED = _dispatch.COMPILED
    Caller = _dispatch.Caller
    Gate = _dispatch.Gate
    Histogram = _dispatch.Histogram
    RequestContext = _dispatch.RequestContext
    Route = _dispatch.Route

__all__ = [
    "AT_ONCE",
    "BOUNDS_SECONDS",
    "COMPILED",
    "Caller",
    "Gate",
    "Histogram",
    "RequestContext",
    "Route",
]
