"""A tree without compiled code: every way in says so in one line, with what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.built import copy_tree
from tests.support.programs import run_to_end

pytestmark = pytest.mark.slow

SENTENCE = f"siltstone is not compiled for this Python ({sys.executable}, "
REMEDY = "install it again with this Python, in a clone by make run"


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout, in which nothing is compiled."""
    folder = tmp_path_factory.mktemp("tree")
    copy_tree(folder)
    return folder


def run(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of that tree."""
    return run_to_end(
        [sys.executable, "-m", *words], cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}
    )


@pytest.mark.parametrize("words", [("serve",), ("topics",), ("verify",), ("doctor",)])
def test_a_command_says_it_in_one_line(tree: Path, words: tuple[str, ...]) -> None:
    """And makes nothing."""
    done = run(tree, "siltstone", *words, "--set", f"log.dirs={tree}/data")

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(SENTENCE)
    assert line.endswith(REMEDY)
    assert not (tree / "data").exists()


def test_the_pipeline_says_it_too(tree: Path) -> None:
    """No job can do without, its doctor neither."""
    done = run(tree, "siltstone.pipeline", "doctor")

    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(SENTENCE)
    assert line.endswith(REMEDY)
