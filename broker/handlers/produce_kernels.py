"""What nearly every Produce request is, compiled where it could be: import it from here."""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.broker.handlers._produce_kernels import (
        AT_ONCE,
        COMPILED,
        PlainProduce,
        append_all,
        count_once,
        may_be_plain,
    )
else:
    _produce = choose("siltstone.broker.handlers._produce_kernels")
    AT_ONCE = _produce.AT_ONCE
    COMPILED = _produce.COMPILED
    PlainProduce = _produce.PlainProduce
    append_all = _produce.append_all
    count_once = _produce.count_once
    may_be_plain = _produce.may_be_plain

__all__ = ["AT_ONCE", "COMPILED", "PlainProduce", "append_all", "count_once", "may_be_plain"]
