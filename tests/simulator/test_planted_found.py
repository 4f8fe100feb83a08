"""A search finds planted faults, and goes on where it was ended."""

from pathlib import Path
from typing import Any

import pytest

from tests.simulator import searching
from tests.simulator.planted import PLANTED, ROOT, applied
from tests.simulator.searching import (
    Search,
    advance,
    read_found,
    search_all,
    table,
    write_found,
)

WITHIN = 100
ADVICE = (
    "{name} is not found by {count} seeds: the histories no longer do what its patch says that it "
    "needs, or a judge no longer looks there. `python -m tests.simulator.planted --search {name}` "
    "tells whether more seeds find it."
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["alter", "cut-the-end", "keep-an-aborted-offset", "reuse"])
def test_a_planted_fault_is_found(name: str, tmp_path: Path) -> None:
    """A seed is wrong with the patch that is not wrong so without it, after a few histories."""
    tree = applied(PLANTED[name], tmp_path)
    search = Search(name, "")
    while search.seed is None and search.next < WITHIN:
        search = advance(search, tree, WITHIN)

    assert search.seed is not None, ADVICE.format(name=name, count=WITHIN)


class Broker:
    """Outcomes of seeds, with a patch and without it."""

    def __init__(self, patched: dict[int, str], sound: dict[int, str]) -> None:
        self.played: list[tuple[int, int]] = []
        self._patched = patched
        self._sound = sound

    def play(self, tree: Path, first: int, end: int) -> list[dict[str, Any]]:
        """Return the outcomes of seeds up to the first wrong one."""
        wrong = self._sound if tree == ROOT else self._patched
        if tree != ROOT:
            self.played.append((first, end))
        outcomes = []
        for seed in range(first, end):
            outcomes.append({"seed": seed, "fault": wrong.get(seed), "seconds": 1.0})
            if seed in wrong:
                break
        return outcomes


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(searching, "KEPT", tmp_path / "kept" / "planted.jsonl")
    monkeypatch.setattr(searching, "FOUND", tmp_path / "found.tsv")
    searching.FOUND.write_text("alter\t12\n")


def _search(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, seeds: int, **found: int
) -> list[Search]:
    monkeypatch.setattr(searching, "play_seeds", broker.play)
    monkeypatch.setattr(searching, "applied", lambda _patch, into: into)
    return list(search_all([PLANTED["reuse"]], seeds, 1, found))


def test_a_seed_that_is_wrong_without_the_patch_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its sentence may name other offsets."""
    broker = Broker({3: "ends at 8", 50: "ends at 9"}, {3: "ends at 7"})
    (found,) = _search(monkeypatch, broker, 100)

    assert (found.seed, found.fault, found.next) == (50, "ends at 9", 51)
    assert found.also == {"3": "ends at 8"}
    assert found.seconds == 51.0


def test_a_search_goes_on_where_it_was_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """More seeds are played behind those that were; what was found is told again."""
    broker = Broker({90: "ends at 9"}, {})
    (given_up,) = _search(monkeypatch, broker, 60)
    (found,) = _search(monkeypatch, broker, 100)
    (again,) = _search(monkeypatch, broker, 100)

    assert (given_up.seed, given_up.next) == (None, 60)
    assert found == again
    assert broker.played == [(0, 40), (40, 60), (60, 100)]


@pytest.mark.parametrize(("seed", "played"), [(50, [(50, 51)]), (9, [(9, 10), (0, 40), (40, 80)])])
def test_the_seed_that_found_it_before_comes_first(
    monkeypatch: pytest.MonkeyPatch, seed: int, played: list[tuple[int, int]]
) -> None:
    """If it no longer does, the search begins with the first seed."""
    broker = Broker({50: "ends at 9"}, {})
    (found,) = _search(monkeypatch, broker, 100, reuse=seed)

    assert (found.seed, broker.played) == (50, played)


def test_what_was_found_is_noted_beside_what_was_before() -> None:
    """A fault that was not found keeps its seed."""
    write_found([Search("reuse", "", 51, 50), Search("alter", "", 100)])

    assert read_found() == {"alter": 12, "reuse": 50}


def test_the_table_names_what_was_not_found() -> None:
    """It comes last."""
    rows = table([Search("b", "", 60), Search("c", "", 8, 7, "ends at 9", 2.4)]).splitlines()

    assert rows[2:] == ["| `c` | 7 | 2 | ends at 9 |", "| `b` | not in 60 | 0 |  |"]


def test_a_seed_that_ends_its_process_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last line of what the process has said stands for the fault."""
    monkeypatch.setattr(searching, "_PLAY", 'print(\'{"begins": 4}\'); raise SystemExit("no more")')

    assert searching.play_seeds(tmp_path, 4, 9) == [{"seed": 4, "fault": "no more", "seconds": 0.0}]


def test_a_tree_in_which_nothing_can_be_played_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the reason."""
    monkeypatch.setattr(searching, "_PLAY", 'raise SystemExit("no kernels")')

    with pytest.raises(ValueError, match=r"no seed can be played in .*: no kernels"):
        searching.play_seeds(tmp_path, 4, 9)
