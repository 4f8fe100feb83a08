"""Whether the kernels are compiled, and what to do where nobody wanted it otherwise."""

from __future__ import annotations

import os
from typing import Final

from siltstone.protocol import core

NOT_COMPILED: Final = (
    "nothing is compiled, and plain Python takes five to nine times as long for each record; "
    "install a C compiler and Python's headers (Debian: apt-get install gcc python3-dev), then "
    "install Siltstone again, in a clone by make run"
)


def tell_kernels() -> str:
    """Return the word for it in figures and in the line of the start."""
    return "compiled" if core.COMPILED else "off"


def why_slow() -> str | None:
    """Return a sentence where plain Python runs and nobody has asked for it."""
    if core.COMPILED or os.environ.get("SILTSTONE_KERNELS") == "off":
        return None
    return NOT_COMPILED
