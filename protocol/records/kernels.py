"""The byte loops, compiled where they could be: import them from here.

`SILTSTONE_KERNELS=off` takes the uncompiled sources even so; tests use it, and `load_uncompiled`,
to hold the two against each other.
"""

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protocol.records._kernels import (
        COMPILED,
        check_batch,
        crc32c,
        list_bad_records,
        rewrite_records,
        walk_records,
    )
    from protocol.records._segment_kernels import find_batch, find_end, scan_batches

RECORDS = "_kernels"
SEGMENTS = "_segment_kernels"


def load_uncompiled(name: str) -> Any:
    """Return kernels (RECORDS, SEGMENTS) as plain Python, whatever lies compiled beside them."""
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
    _records = _choose(RECORDS)
    _segments = _choose(SEGMENTS)
    COMPILED = _records.COMPILED and _segments.COMPILED
    check_batch = _records.check_batch
    crc32c = _records.crc32c
    list_bad_records = _records.list_bad_records
    rewrite_records = _records.rewrite_records
    walk_records = _records.walk_records
    find_batch = _segments.find_batch
    find_end = _segments.find_end
    scan_batches = _segments.scan_batches

__all__ = [
    "COMPILED",
    "RECORDS",
    "SEGMENTS",
    "check_batch",
    "crc32c",
    "find_batch",
    "find_end",
    "list_bad_records",
    "load_uncompiled",
    "rewrite_records",
    "scan_batches",
    "walk_records",
]
