"""The tiers: each test runs once, and no failure is passed over."""

import itertools
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("markers", [*itertools.product([False, True], repeat=len(tiers.MARKERS))])
def test_each_test_is_in_one_leg(markers: Sequence[bool]) -> None:
    """Whatever markers a test has, `all` runs it once."""
    names = dict(zip(tiers.MARKERS, markers, strict=True))

    chosen = [leg.name for leg in tiers.TIERS["all"] if eval(leg.markers, {}, names)]

    assert len(chosen) == 1
    assert chosen[0].startswith("rest") == any(markers[:4])
    assert chosen[0].endswith("alone") == names["alone"]


@pytest.mark.parametrize(
    ("arguments", "codes", "expected"),
    [([], [0, 0], 0), ([], [1, 0], 1), ([], [0, 5], 1), (["-q"], [0, 5], 0), (["-q"], [5, 2], 1)],
)
def test_a_leg_that_fails_fails_the_tier_and_stops_no_other(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], codes: list[int], expected: int
) -> None:
    """An empty leg is a failure, but not in a run of a part."""
    left = list(codes)

    def run(*_: object, **__: object) -> Any:
        return SimpleNamespace(returncode=left.pop(0))

    monkeypatch.setattr(subprocess, "run", run)

    assert tiers.main("now", *arguments) == expected
    assert left == []


@pytest.fixture
def environs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The environment of each leg that a test runs."""
    given: list[dict[str, str]] = []

    def run(*_: object, env: dict[str, str], **__: object) -> Any:
        given.append(env)
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    return given


def test_bytecode_is_kept(monkeypatch: pytest.MonkeyPatch, environs: list[dict[str, str]]) -> None:
    """Also where Python is asked not to: each process of a leg would compile everything again."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    assert tiers.main("all") == 0
    assert len(environs) == len(tiers.TIERS["all"])
    assert not any("PYTHONDONTWRITEBYTECODE" in environ for environ in environs)


@pytest.mark.parametrize(("room", "is_used"), [(0, True), (1 << 62, False)])
def test_folders_lie_in_memory_where_there_is_room(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environs: list[dict[str, str]],
    room: int,
    is_used: bool,
) -> None:
    """In the leg of most tests; those that judge by a clock, or are slow, have the disk."""
    monkeypatch.delenv(tiers.FOLDERS, raising=False)
    monkeypatch.setattr(tiers, "MEMORY", tmp_path)
    monkeypatch.setattr(tiers, "ROOM", room)

    assert tiers.main("all") == 0
    first, *others = [environ.get(tiers.FOLDERS) for environ in environs]
    assert first == (str(tmp_path) if is_used else None)
    assert not any(others)


@pytest.mark.parametrize(
    ("expression", "named", "expected"),
    [
        ("alone", "", False),
        ("alone", "@pytest.mark.alone", True),
        ("alone", "@pytest.mark.slow", False),
        ("(slow or java) and not alone", "[mark.java, mark.alone]", True),
        ("(slow or java) and alone", "[mark.java]", False),
        ("not slow and not alone", "pytestmark = pytest.mark.slow", True),
        ("", "", True),
        ("parametrize", "", True),
        ("slow and", "", True),
    ],
)
def test_a_module_without_a_test_of_a_leg_is_left_out(
    tmp_path: Path, expression: str, named: str, expected: bool
) -> None:
    """A test may have any of the markers that its module names, and no other."""
    module = tmp_path / "test_it.py"
    module.write_text(named)

    assert tiers.may_have_a_test(expression, module) is expected


def test_markers_stand_where_the_tests_are() -> None:
    """No other file gives a test one of those that choose it, so its module's text tells."""
    marks = re.compile(rf"\bmark\.({'|'.join(tiers.MARKERS)})\b|add_marker|import mark\b")
    others = [path for path in (ROOT / "tests").rglob("*.py") if not path.match("test_*.py")]

    assert len(others) > 100
    assert [str(path) for path in others if marks.search(path.read_text())] == []


def test_markers_are_named_where_they_are_used() -> None:
    """No module gives `pytest.mark` another name, or looks a marker up, so its text tells."""
    hidden = re.compile(
        r"\bmark as\b|= (pytest\.)?mark$|\b(getattr|vars)\((pytest\.)?mark\b", re.MULTILINE
    )
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]

    assert len(tests) > 300
    assert [str(path) for path in tests if hidden.search(path.read_text())] == []


def test_ci_runs_every_tier() -> None:
    """The runs of CI hold each leg."""
    assert "make test-all\n" in (ROOT / ".ci/run").read_text()
    assert all(leg in tiers.TIERS["all"] for leg in (*tiers.NOW, *tiers.REST))
