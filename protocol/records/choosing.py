"""Kernels as extensions where they could be compiled, and else as the plain Python they are.

`SILTSTONE_KERNELS=off` takes the uncompiled sources even so; tests use it, and `load_uncompiled`,
to hold the two against each other.
"""

import importlib
import importlib.util
import os
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[3]


def choose(module: str, plain: str | None = None) -> Any:
    """Import kernels by their full name, compiled if they are and nobody minds.

    ``plain`` is the module that does the same in plain Python; without one the kernels' own source
    is taken.
    """
    if os.environ.get("SILTSTONE_KERNELS") == "off":
        return load_uncompiled(module) if plain is None else importlib.import_module(plain)
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if plain is None or error.name != module:
            raise
        return importlib.import_module(plain)


def load_uncompiled(module: str) -> Any:
    """Import kernels as plain Python, whatever lies compiled beside them."""
    source = _ROOT.joinpath(*module.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{module}_uncompiled", source)
    if spec is None or spec.loader is None:
        raise ImportError(f"{source} is missing; install siltstone again")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded
