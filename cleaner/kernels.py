"""The cleaner's loops, compiled where they could be: import them from here.

`SILTSTONE_KERNELS=off` takes the uncompiled source even so; tests use it, and `load_uncompiled`, to
hold the two against each other. Uncompiled they compute with the GIL held: run a pass in a process
of its own then, never in a thread.
"""

import importlib
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cleaner._emit_kernels import emit_batches, index_batches
    from cleaner._kernels import (
        COMPILED,
        add_keys,
        count_records,
        map_keys,
        move_slots,
        plan_batches,
    )

READING = "_kernels"
WRITING = "_emit_kernels"


def load_uncompiled(name: str) -> Any:
    """Return kernels (READING, WRITING) as plain Python, whatever lies compiled beside them."""
    source = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"{__package__}.{name}_uncompiled", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is missing; install siltstone again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _choose(name: str) -> Any:
    if os.environ.get("SILTSTONE_KERNELS") == "off":
        return load_uncompiled(name)
    return importlib.import_module(f"{__package__}.{name}")


if not TYPE_CHECKING:
    _reading = _choose(READING)
    _writing = _choose(WRITING)
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
    "load_uncompiled",
    "map_keys",
    "move_slots",
    "plan_batches",
]
