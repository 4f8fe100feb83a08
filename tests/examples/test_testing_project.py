"""The example project, as its owner has it: a fresh environment, the wheel, the clients."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.built import build_wheel
from tests.support.programs import run_to_end

pytestmark = [pytest.mark.client, pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "examples" / "testing"
CLIENTS = ("aiokafka", "confluent-kafka", "kafka-python", "pytest", "pytest-asyncio")


def constraints() -> str:
    """Return the versions that all tests here have, without the hashes."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    return "\n".join(line.rstrip(" \\") for line in lines if re.match(r"\S+==", line)) + "\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel of this tree and the clients, and nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    (folder / "constraints.txt").write_text(constraints())
    wheel = build_wheel(tmp_path_factory.mktemp("dist"))
    place = folder / "venv"
    made = str(place / "bin" / "python")
    options = ("--quiet", "--disable-pip-version-check", "--constraint", "constraints.txt")
    for command in (
        (sys.executable, "-m", "venv", str(place)),
        (made, "-m", "pip", "install", *options, str(wheel), *CLIENTS),
    ):
        done = run_to_end(command, cwd=folder)
        assert done.returncode == 0, done.stderr
    return place


def test_its_ten_tests_pass(environment: Path, tmp_path: Path) -> None:
    """With nothing of this repository on any path."""
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    variables = {name: value for name, value in os.environ.items() if "PYT" not in name.upper()}

    done = run_to_end(
        [str(environment / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env=variables,
    )

    assert "10 passed" in done.stdout, done.stdout + done.stderr


def test_its_page_says_how_to_run_it() -> None:
    """The packages that the page has one install are those of the project."""
    (install,) = re.findall(
        r"^\$ pip install \.\./\.\. (.+)$", (PROJECT / "README.md").read_text(), re.MULTILINE
    )

    assert tuple(install.split()) == CLIENTS
