"""The demonstration of compaction, on a repository made here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {
    **os.environ,
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


def make_repository(folder: Path) -> Path:
    """Return a repository of forty files, each of them changed in six commits, then half gone."""
    folder.mkdir()
    files = [folder / f"file-{number}.txt" for number in range(40)]
    git(folder, "init", "--quiet")
    for commit in range(6):
        for file in files:
            file.write_text(f"{commit}\n")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"commit {commit}")
    git(folder, "rm", "--quiet", *(file.name for file in files[::2]))
    git(folder, "commit", "--quiet", "-m", "half of it goes")
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git in the repository."""
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=ENVIRONMENT)


@pytest.mark.client
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_demo_proves_what_it_shows(tmp_path: Path) -> None:
    """It explains, compacts, shows and proves, and leaves no broker and no folder behind."""
    repository = make_repository(tmp_path / "repository")
    scratch = tmp_path / "scratch"
    scratch.mkdir()

    done = subprocess.run(
        [sys.executable, "-m", "examples.demo", str(repository)],
        cwd=ROOT,
        env={**ENVIRONMENT, "TMPDIR": str(scratch)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "not eligible (ratio-below)" in done.stdout
    assert "as predicted" in done.stdout
    assert "history-0: fine" in done.stdout
    assert done.stdout.rstrip().endswith("proven")
    assert "\x1b" not in done.stdout
    assert list(scratch.iterdir()) == []
