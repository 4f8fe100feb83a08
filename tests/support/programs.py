"""Programs that a test runs to their end, and the text that they print."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def run_to_end(
    command: Sequence[str | Path], *, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program; it may fail, unless it is to be checked."""
    return subprocess.run(command, capture_output=True, text=True, check=check, **options)


def output_of(command: Sequence[str | Path], **options: Any) -> str:
    """Return what a program prints, which must not fail."""
    done = run_to_end(command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
