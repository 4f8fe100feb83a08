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
    from cleaner._kernels import (
        COMPILED,
        count_records,
        emit_batches,
        index_batches,
        map_keys,
        move_slots,
        plan_batches,
    )

_NAME = "_kernels"


def load_uncompiled() -> Any:
    """Return the kernels as plain Python, whatever lies compiled beside them."""
    source = Path(__file__).with_name(f"{_NAME}.py")
    spec = importlib.util.spec_from_file_location(f"{__package__}.{_NAME}_uncompiled", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is missing; install siltstone again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _choose() -> Any:
    if os.environ.get("SILTSTONE_KERNELS") == "off":
        return load_uncompiled()
    return importlib.import_module(f"{__package__}.{_NAME}")


if not TYPE_CHECKING:
    _kernels = _choose()
    COMPILED = _kernels.COMPILED
    count_records = _kernels.count_records
    emit_batches = _kernels.emit_batches
    index_batches = _kernels.index_batches
    map_keys = _kernels.map_keys
    move_slots = _kernels.move_slots
    plan_batches = _kernels.plan_batches

__all__ = [
    "COMPILED",
    "count_records",
    "emit_batches",
    "index_batches",
    "load_uncompiled",
    "map_keys",
    "move_slots",
    "plan_batches",
]
