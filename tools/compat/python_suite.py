"""The suites of Python clients: pytest in a virtual environment of the suite's own."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.compat.suite import Outcome, execute, prepare

TIMEOUT = 180  # seconds a test
_PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore")
_SKIPPED = re.compile(r"^1 skipped[ ,]", re.MULTILINE)  # pytest's summary of one such test


def make_environment(folder: Path, packages: Sequence[str]) -> Path:
    """Return the interpreter of a virtual environment with these packages; create it if need be.

    Raises:
        LookupError: a package cannot be installed.
    """
    python = folder / "venv" / "bin" / "python"
    complete = folder / "venv" / ".complete"
    if not complete.exists():
        prepare([sys.executable, "-m", "venv", "--clear", "venv"], cwd=folder)
        prepare([str(python), "-m", "pip", "install", "--quiet", *packages], cwd=folder)
        complete.touch()
    return python


def collect(python: Path, *paths: str, cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the names of the tests below some paths, as pytest spells them.

    Raises:
        LookupError: pytest cannot import them.
    """
    command = [str(python), *_PYTEST, "--collect-only", *paths]
    printed = prepare(command, cwd=cwd, environ=environ)
    return [line for line in printed.splitlines() if "::" in line]


def run_one(
    python: Path, test: str, log: Path, *, cwd: Path, environ: Mapping[str, str]
) -> Outcome:
    """Run the test of a name in a process of its own."""
    command = [str(python), *_PYTEST, "-rs", test]
    if execute(command, log, cwd=cwd, environ=environ, timeout=TIMEOUT) != 0:
        return Outcome.FAILED
    skipped = _SKIPPED.search(log.read_text(errors="replace"))
    return Outcome.SKIPPED if skipped else Outcome.PASSED
