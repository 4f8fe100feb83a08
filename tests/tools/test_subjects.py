"""The subjects of commits: what the check refuses, and where it has nothing to check."""

from pathlib import Path

import pytest

from tests.support.programs import run_to_end
from tools.subjects import BASE, fault_of, find_faults


@pytest.mark.parametrize(
    "subject",
    [
        "storage: remove the files of a segment that failed",
        "storage, broker/net: pass what is read",
        "docs: bring the map up to date",
        "tests: need no clock",
        f"net: {'add ' + 63 * 'x'}",
    ],
)
def test_accepts(subject: str) -> None:
    """An area, an imperative verb and what it is about."""
    assert fault_of(subject) == ""


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ("storage: whoever writes waits", "'whoever' is no imperative"),
        ("storage: a batch is refused", "'a' is no imperative"),
        ("storage: removes files", "'removes' is no imperative"),
        ("storage: removed files", "'removed' is no imperative"),
        ("storage: removing files", "'removing' is no imperative"),
        ("storage: remove files.", "ends in a period"),
        ("Remove files", "has another form"),
        ("storage: remove", "has another form"),
        (f"net: {'add ' + 64 * 'x'}", "73 characters"),
    ],
)
def test_refuses(subject: str, fault: str) -> None:
    """The fault says what to write instead."""
    assert fault_of(subject).startswith(fault)


def test_reads_commits_since_the_base(tmp_path: Path) -> None:
    """Older commits are left alone; without a history, or without the base, there are none."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", *who, *words]
        return run_to_end(command, cwd=tmp_path, check=True).stdout.strip()

    without_history = find_faults(tmp_path)
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "Nothing like it.")
    base = git("rev-parse", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "net: add it", "-m", "Why.")
    git("commit", "-q", "--allow-empty", "-m", "net: added it")

    (fault,) = find_faults(tmp_path, base)

    assert "net: added it: 'added' is no imperative" in fault
    assert (without_history, find_faults(tmp_path, BASE)) == ([], [])
