"""``siltstone version``: what is installed here."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from siltstone import VERSION
from siltstone.broker.process.kernels import tell_kernels

if TYPE_CHECKING:
    import argparse


def run_version(options: argparse.Namespace) -> int:
    """Print the version and whether the kernels are compiled."""
    kernels = tell_kernels()
    if options.json:
        sys.stdout.write(json.dumps({"version": VERSION, "kernels": kernels}) + "\n")
    else:
        sys.stdout.write(f"siltstone {VERSION}, kernels {kernels}\n")
    return 0
