"""Siltstone: a Kafka broker in one Python process, by its only name for imports.

The folders beside this file are links to those at the root of the repository. What is installed has
the folders themselves.

A compiled module lies beside its source and has its name, so Python takes it where there is one.
`SILTSTONE_KERNELS=off` has it take the source even so.
"""

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

VERSION = "0.1.0"
"""A constant: asking the installed package takes a twelfth of the time to the first ack."""


def _find_sources_only() -> None:
    """Make Python ignore compiled modules in the packages below this one."""
    below = os.path.join(__path__[0], "")  # noqa: PTH118  # pathlib is not imported for this alone

    def find_below(folder: str) -> FileFinder:
        if not folder.startswith(below) or not os.path.isdir(folder):  # noqa: PTH112  # likewise
            raise ImportError(folder)
        return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, find_below)


if os.environ.get("SILTSTONE_KERNELS") == "off":
    _find_sources_only()
