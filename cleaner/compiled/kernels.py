"""The cleaner's loops, compiled where they could be: import them from here.

Uncompiled they compute with the GIL held: run a pass in a process of its own then, never in a
thread.
"""

from typing import TYPE_CHECKING

from siltstone.protocol.records.choosing import choose

if TYPE_CHECKING:
    from siltstone.cleaner.compiled._emit_kernels import emit_batches, index_batches
    from siltstone.cleaner.compiled._kernels import (
        COMPILED,
        add_keys,
        count_records,
        map_keys,
        move_slots,
        plan_batches,
    )

READING = "siltstone.cleaner.compiled._kernels"
WRITING = "siltstone.cleaner.compiled._emit_kernels"

if not TYPE_CHECKING:
    _reading = choose(READING)
    _writing = choose(WRITING)
    COMPILED = _reading.COMPILED and _writing.COMPILED
    add_keys = _reading.add_keys
    count_records = _reading.count_records
    emit_batches = _writing.emit_batches
    index_batches = _writing.index_batches
    map_keys = _reading.map_keys
    move_slots = _reading.move_slots
    plan_batches = _reading.plan_batches

__all__ = [
    "COMPILED",
    "READING",
    "WRITING",
    "add_keys",
    "count_records",
    "emit_batches",
    "index_batches",
    "map_keys",
    "move_slots",
    "plan_batches",
]
