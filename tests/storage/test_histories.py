"""Random histories of the storage, whose disk fails and whose process ends in every way.

`HISTORIES` says how many, `HISTORIES_SEED` with which they begin; `HISTORIES_STEPS` leaves of one
history only these steps. A failure is cut down and says how to repeat it. `make histories` plays
thousands.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.storage import files
from siltstone.storage.segment.index import ActiveIndexes
from tests.support.histories.partition import Found
from tests.support.histories.plan import make_steps
from tests.support.histories.playing import choose, play, tell

COUNT = int(os.environ.get("HISTORIES") or 300)
FIRST = int(os.environ.get("HISTORIES_SEED") or 0)
STEPS = os.environ.get("HISTORIES_STEPS") or ""
LOT = 25
TOLD = 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, LOT))
def test_histories(memory_path: Path, first: int) -> None:
    """Whatever fails, everything acknowledged is read from every offset and by every timestamp."""
    failures: list[tuple[int, Found]] = []
    for seed in range(first, min(first + LOT, FIRST + COUNT)):
        found, _ = play(memory_path, seed, choose(seed, STEPS))
        if found is not None:
            failures.append((seed, found))

    told = [tell(memory_path, seed, choose(seed, STEPS), found) for seed, found in failures[:TOLD]]
    assert not failures, "\n".join([*told, *(f"seed {seed}: {error}" for seed, error in failures)])


def _lose_last_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ActiveIndexes, "add_time", lambda *_: None)


def _lie_about_records(patch: pytest.MonkeyPatch) -> None:
    fsync = files.fsync

    def lie(fd: int) -> None:
        if not os.readlink(f"/proc/self/fd/{fd}").endswith(files.LOG):  # noqa: PTH115
            fsync(fd)

    patch.setattr(files, "fsync", lie)


def _lie_about_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(files, "fsync_directory", lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "rules"),
    [
        (_lose_last_time, {"a lookup by every time", "the greatest time"}),
        (_lie_about_records, {"a batch is lost", "an offset is given out again"}),
        (_lie_about_names, {"what was created exists", "what was deleted is gone"}),
    ],
)
def test_planted_faults_are_found(
    memory_path: Path, plant: "Callable[[pytest.MonkeyPatch], None]", rules: set[str]
) -> None:
    """A fault that is planted is reported by a rule that it breaks, in few histories."""
    told = set()
    for seed in range(60):
        found, _ = play(memory_path, seed, make_steps(seed), plant)
        if found is not None:
            told.add(found.rule)
        if told & rules:
            break

    assert told & rules, told
