"""The demonstration of compaction, on a repository made here."""

import re
import sys
from pathlib import Path

import pytest

from tests.support.programs import run_to_end
from tests.support.repositories import ENVIRONMENT, make_repository

ROOT = Path(__file__).parents[2]


@pytest.mark.client
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_demo_proves_what_it_shows(tmp_path: Path) -> None:
    """It explains, compacts, shows and proves, and leaves no broker and no folder behind."""
    repository = make_repository(tmp_path / "repository")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    done = run_to_end(
        [sys.executable, "-m", "examples.demo", str(repository)],
        cwd=ROOT,
        env={**ENVIRONMENT, "TMPDIR": str(scratch)},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "not eligible (ratio-below)" in done.stdout
    passes = r"^\$ siltstone history history\n.* history-0  cleaned"
    assert re.search(passes, done.stdout, re.MULTILINE), done.stdout
    assert "as predicted" in done.stdout
    assert "history-0: fine" in done.stdout
    assert done.stdout.rstrip().endswith("proven")
    assert "\x1b" not in done.stdout
    assert list(scratch.iterdir()) == []
