"""Asks bandit about our code and pip-audit about what the broker needs; ``make audit``.

Both have to be in the environment. The allowed findings of bandit, each with its reason, are in
pyproject.toml, in the tables `tool.siltstone.audit`. Any other finding is a fault, and so is an
allowed one that bandit no longer finds. pip-audit asks the index about each package of
docker/requirements.lock; a package that the index does not know is a fault, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT: Final = Path(__file__).parents[1]
CODE: Final = (
    "broker",
    "cleaner",
    "config",
    "pipeline",
    "protocol",
    "pyspark_siltstone",
    "siltstone",
    "storage",
)
LOCK: Final = "docker/requirements.lock"


class Finding(NamedTuple):
    """A fault that bandit has found: the name of its test, and where."""

    test: str
    file: str
    line: int
    text: str


def faults(findings: Iterable[Finding], exceptions: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each finding that is no exception, and for each idle exception."""
    allowed: dict[tuple[str, str], int] = {}
    for each in exceptions:
        if not each["reason"]:
            yield f"the exception for {each['test']} has no reason"
        for file in each.get("files", ("",)):  # without files it is allowed in all
            allowed[each["test"], file] = 0
    for found in findings:
        for file in (found.file, ""):
            if (found.test, file) in allowed:
                allowed[found.test, file] += 1
                break
        else:
            yield f"{found.file}:{found.line}: {found.test} {found.text}"
    for (test, file), count in allowed.items():
        if not count:
            yield f"nothing is found by {test} in {file or 'any file'}: take the exception away"


def read_findings(report: str) -> list[Finding]:
    """Return the content of a report of bandit, in JSON.

    Raises:
        ValueError: bandit could not read a file.
    """
    told = json.loads(report)
    if told["errors"]:
        raise ValueError(f"bandit could not read {told['errors']}")
    # A file may be given by the link in siltstone/ as well as by its place.
    unique = {
        Finding(
            each["test_id"],
            (ROOT / each["filename"]).resolve().relative_to(ROOT).as_posix(),
            each["line_number"],
            each["issue_text"],
        )
        for each in told["results"]
    }
    return sorted(unique)


def ask_bandit() -> Iterator[str]:
    """Yield the faults of our code."""
    command = [sys.executable, "-m", "bandit", "--quiet", "--format", "json", "--recursive", *CODE]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own words
    if done.returncode not in {0, 1}:
        raise RuntimeError(f"bandit ended {done.returncode}: {done.stderr.strip()}")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    exceptions = project["tool"]["siltstone"]["audit"]
    yield from faults(read_findings(done.stdout), exceptions)


def ask_pip_audit() -> Iterator[str]:
    """Yield what is wrong with the packages; pip-audit itself prints which."""
    command = [
        sys.executable, "-m", "pip_audit", "--requirement", LOCK, "--require-hashes",
        "--disable-pip", "--strict", "--progress-spinner", "off",
    ]  # fmt: skip
    if subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603 - our own words
        yield f"pip-audit: a package of {LOCK} has a known flaw, or could not be asked about"


def main() -> int:
    """Run both, print what they find, and return the exit code."""
    found = [*ask_bandit(), *ask_pip_audit()]
    for sentence in found:
        sys.stderr.write(f"{sentence}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
