"""The tiers: each test runs, once with the compiled core, and no failure is passed over."""

import itertools
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers

MARKERS = ("slow", "java", "spark", "connector", "alone", "client", "compiled")
ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("markers", [*itertools.product([False, True], repeat=len(MARKERS))])
def test_each_test_is_in_one_leg(markers: Sequence[bool]) -> None:
    """Whatever markers a test has, `all` runs it once with the compiled core."""
    names = dict(zip(MARKERS, markers, strict=True))
    legs = [leg for leg in tiers.TIERS["all"] if not leg.environ]

    chosen = [leg.name for leg in legs if eval(leg.markers, {}, names)]

    assert len(chosen) == 1
    assert chosen[0].startswith("rest") == any(markers[:4])
    assert chosen[0].endswith("alone") == names["alone"]


def test_the_plain_core_is_tested_at_once() -> None:
    """Both tiers have a leg without the compiled core."""
    for legs in tiers.TIERS.values():
        assert [leg.environ for leg in legs if leg.environ] == [{"SILTSTONE_KERNELS": "off"}]


@pytest.mark.parametrize(
    ("arguments", "codes", "expected"),
    [
        ([], [0, 0, 0], 0),
        ([], [1, 0, 0], 1),
        ([], [0, 5, 0], 1),
        (["-q"], [0, 5, 0], 0),
        (["-q"], [0, 5, 2], 1),
    ],
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


def test_paths_take_the_place_of_a_legs_own() -> None:
    """`make test ARGS=tests/storage` runs no other folder in any leg."""
    plain = next(leg for leg in tiers.NOW if leg.environ)
    here = "tests/test_tiers.py::test_paths_take_the_place_of_a_legs_own"

    assert plain.command([])[-4:] == list(tiers.PLAIN_FOLDERS)
    assert plain.command(["-q", here])[-2:] == ["-q", here]


def test_ci_runs_every_tier() -> None:
    """What CI runs holds each leg."""
    assert "make test-all\n" in (ROOT / ".ci/run").read_text()
    assert all(leg in tiers.TIERS["all"] for leg in (*tiers.NOW, *tiers.REST))
