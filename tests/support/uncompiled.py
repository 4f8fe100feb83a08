"""Kernels as the plain Python they are, whatever lies compiled beside them."""

import importlib.util
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[2]


def load_uncompiled(module: str) -> Any:
    """Return another copy of a module, made of its source; nobody else imports it."""
    source = _ROOT.joinpath(*module.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{module}_uncompiled", source)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
