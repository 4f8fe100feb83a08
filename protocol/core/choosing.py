"""The compiled form of a module of the core, or its plain twin."""

from importlib import import_module
from typing import Any


def choose(compiled: str, plain: str) -> Any:
    """Import the compiled module, and its twin where there is none; `siltstone` says when."""
    try:
        return import_module(compiled)
    except ModuleNotFoundError as error:
        if error.name != compiled:
            raise
        return import_module(plain)
