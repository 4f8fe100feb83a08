"""What nearly every Produce request is, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.handlers._produce_kernels import (
        AT_ONCE,
        COMPILED,
        append_all,
        count_once,
        handle,
        may_be_plain,
    )
else:
    _produce = choose("siltstone.broker.handlers._produce_kernels")
    AT_ONCE = _produce.AT_ONCE
    COMPILED = _produce.COMPILED
    append_all = _produce.append_all
    count_once = _produce.count_once
    handle = _produce.handle
    may_be_plain = _produce.may_be_plain

__all__ = ["AT_ONCE", "COMPILED", "append_all", "count_once", "handle", "may_be_plain"]
