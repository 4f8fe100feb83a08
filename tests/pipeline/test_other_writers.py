"""Jobs beside other writers of the same table, which commit at any of their steps.

The second writer is delta-rs or pyiceberg itself. A table must equal a dictionary that follows all
commits in their order, or the job is refused with one sentence. `make table-histories HISTORIES=…`
plays more of them, from seed ``FIRST`` on.
"""

import os
import random
from pathlib import Path

import pytest

from siltstone.pipeline.errors import Refused
from tests.support.meddling import JOBS, LAKES, MEDDLING, Schedule, Watched, meddle

FIRST = int(os.environ.get("TABLE_FIRST") or 0)
HISTORIES = range(FIRST, FIRST + int(os.environ.get("TABLE_HISTORIES") or 20))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "job"),
    [
        *((how, "increment") for how in MEDDLING),
        ("rewrite", "stream"),
        ("upsert", "stream"),
        ("upsert", "whole"),
    ],
)
@pytest.mark.parametrize("target", LAKES)
def test_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, how: str, job: str
) -> None:
    """A commit of another writer at any step of a job: the job goes through, the table is right."""
    watched = Watched(tmp_path, target, monkeypatch, seed=5)
    chance = random.Random(f"{how} {job}")
    watched.log.write(300)
    watched.snapshot()
    watched.log.write(40)
    watched.steps.clear()
    JOBS[job](watched)
    assert watched.found() == watched.expected

    for number, name in enumerate(list(watched.steps)):
        watched.log.write(20)
        left = [number]

        def at_its_turn(_: str, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                meddle(watched, how, chance)

        watched.meddle = at_its_turn
        JOBS[job](watched)
        watched.meddle = lambda _: None

        assert watched.found() == watched.expected, f"{how}, {name}"


def test_a_writer_that_is_always_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tries have an end: the job says so, and the table is the other writer's."""
    watched = Watched(tmp_path, LAKES[0], monkeypatch, seed=5)
    watched.log.write(300)
    watched.snapshot()
    watched.log.write(20)
    before = dict(watched.expected)
    chance = random.Random(1)

    def at_each_commit(name: str) -> None:
        if name == "a commit begins":
            meddle(watched, "rewrite", chance)

    watched.meddle = at_each_commit
    with pytest.raises(Refused, match="that was so 12 times, so run the job again"):
        watched.snapshot(incremental=True)

    assert watched.found() == watched.expected == before


@pytest.mark.slow
@pytest.mark.parametrize("seed", HISTORIES)
def test_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A random schedule: even seeds on Delta, odd ones on Iceberg."""
    watched = Watched(tmp_path, LAKES[seed % len(LAKES)], monkeypatch, seed=seed)

    Schedule(watched, random.Random(seed)).play()
