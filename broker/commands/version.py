"""``siltstone version``: what is installed here."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from siltstone import VERSION

if TYPE_CHECKING:
    import argparse


def run_version(options: argparse.Namespace) -> int:
    """Print the version."""
    if options.json:
        sys.stdout.write(json.dumps({"version": VERSION}) + "\n")
    else:
        sys.stdout.write(f"siltstone {VERSION}\n")
    return 0
