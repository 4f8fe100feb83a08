"""Histories that once failed, cut down: each passes now."""

import json
import sys
from pathlib import Path

import pytest

from tests.simulator.plans import read_plan
from tests.support.programs import output_of, run_to_end

KEPT = sorted(Path(__file__).with_name("kept").glob("*.json"))


@pytest.fixture(scope="module")
def played() -> dict[str, str | None]:
    """Play all in one process; return what is wrong with each, None with most."""
    found: dict[str, str | None] = json.loads(
        output_of([sys.executable, "-m", "tests.simulator", "--kept", *KEPT])
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in KEPT])
def test_kept_history(played: dict[str, str | None], name: str) -> None:
    """The broker does right now what it did wrong when the history was kept."""
    assert played[name] is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"seed": 1, "steps": [], "version": 7}'])
def test_history_of_another_version_is_refused(tmp_path: Path, text: str) -> None:
    """In one sentence."""
    (tmp_path / "x.json").write_text(text)

    with pytest.raises(ValueError, match=r"x\.json has no history of this version"):
        read_plan(tmp_path / "x.json")


@pytest.mark.slow
def test_missing_history_is_named() -> None:
    """In one sentence, too."""
    done = run_to_end([sys.executable, "-m", "tests.simulator", "--plan", "/missing.json"])

    assert done.stderr == "simulate: /missing.json: No such file or directory\n"
    assert done.returncode == 2
