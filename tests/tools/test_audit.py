"""A finding of bandit is an exception with a reason, or a fault."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import Finding

ROOT = Path(__file__).parents[2]
PICKLE = Finding("B301", "storage/manager.py", 7, "pickle")
ASSERT = Finding("B101", "storage/manager.py", 8, "assert")


def exceptions() -> list[dict[str, Any]]:
    """Return those of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = project["tool"]["siltstone"]["audit"]
    return found


def test_a_finding_without_an_exception_is_a_fault() -> None:
    """Also where the exception is for another file, or for another test."""
    given: list[dict[str, Any]] = [
        {"test": "B301", "files": ["storage/clock.pyx"], "reason": "one"},
        {"test": "B101", "reason": "another"},
    ]
    there = Finding("B301", "storage/clock.pyx", 1, "pickle")

    assert list(audit.faults([PICKLE, ASSERT, there], given)) == [
        "storage/manager.py:7: B301 pickle"
    ]


def test_an_exception_of_which_nothing_is_found_is_a_fault() -> None:
    """Else the list would outlive what it excuses."""
    given = [{"test": "B301", "files": ["storage/manager.py"], "reason": "one"}]

    assert list(audit.faults([PICKLE], given)) == []
    assert list(audit.faults([], given)) == [
        "nothing is found by B301 in storage/manager.py: take the exception away"
    ]


def test_an_exception_needs_a_reason() -> None:
    """One without is a fault, though it has something to excuse."""
    assert list(audit.faults([ASSERT], [{"test": "B101", "reason": ""}])) == [
        "the exception for B101 has no reason"
    ]


def test_the_exceptions_name_files_of_ours() -> None:
    """Each has a reason, and files that exist."""
    for each in exceptions():
        assert each["reason"]
        for file in each.get("files", ()):
            assert (ROOT / file).is_file(), file
            assert file.startswith(audit.CODE)


def test_a_file_is_told_once_and_by_its_place() -> None:
    """Siltstone/ has links to the other folders, by which bandit finds a file again."""
    rows = [
        {"test_id": "B101", "filename": name, "line_number": 3, "issue_text": "assert"}
        for name in ("siltstone/storage/manager.py", "./storage/manager.py")
    ]

    assert audit.read_findings(json.dumps({"errors": [], "results": rows})) == [
        Finding("B101", "storage/manager.py", 3, "assert")
    ]


def test_a_file_that_bandit_can_not_read_is_a_fault() -> None:
    """It would be found to be clean."""
    with pytest.raises(ValueError, match="could not read"):
        audit.read_findings(json.dumps({"errors": [{"filename": "a.py"}], "results": []}))
