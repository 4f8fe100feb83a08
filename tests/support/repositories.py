"""Git repositories with a history, made for a test."""

import os
import subprocess
from pathlib import Path

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
