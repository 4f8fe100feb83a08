"""Tables of a REST catalogue, Iceberg's own of its tests, in an S3 store.

Jobs have the keys of the store from the catalogue alone, as most REST catalogues hand them out.
"""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyiceberg.catalog
import pytest
from pyiceberg.utils.config import Config

from tests.support.keyed_log import KeyedLog
from tests.support.lakes import OtherWriter, read
from tests.support.meddling import JOBS, Schedule, Watched, meddle
from tests.support.object_store import catalogue_variables, serving_catalogue
from tests.support.programs import run_to_end

SEED = int(os.environ.get("TABLE_FIRST") or 0)
JOBS_OF_HISTORY = 5
names = (f"iceberg:shop.sales.users_{number}" for number in count())
pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def catalogue(endpoint: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The settings of the catalogue."""
    with serving_catalogue(endpoint, tmp_path_factory.mktemp("catalogue")) as address:
        yield {
            "type": "rest",
            "uri": address,
            "s3.endpoint": endpoint,
            "s3.region": "us-east-1",
        }


@pytest.fixture
def target(catalogue: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """A table that does not exist yet, of a catalogue for which pyiceberg is configured."""
    for name, value in catalogue_variables("shop", catalogue).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())  # which it reads once
    return next(names)


def run(log: KeyedLog, job: str, target: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Run a job as a process of its own."""
    command = [sys.executable, "-m", "siltstone.pipeline", job, "t", "--to", target, *more]
    return run_to_end([*command, "--archive", str(log.root), "--engine", "local"], timeout=120)


def rows_of(target: str) -> dict[tuple[int, bytes], bytes]:
    """Return what a table has; no key comes twice."""
    table = read(target)
    assert table is not None
    found = {(row["partition"], row["key"]): row["value"] for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def test_snapshots(target: str, tmp_path: Path) -> None:
    """Whole and by increments a table is that of the topic."""
    log = KeyedLog(tmp_path / "log", partitions=2)
    for more in ((), ("--incremental",), ("--incremental",)):
        log.write(400)
        done = run(log, "snapshot", target, *more)

        assert done.returncode == 0, done.stderr
        assert ("increment, plan" if more else "whole, plan") in done.stderr
        assert rows_of(target) == log.live()


def test_an_export(target: str, tmp_path: Path) -> None:
    """A second one is refused without a mode; in a space of spaces, too."""
    log = KeyedLog(tmp_path / "log")
    log.write(200)
    target = target.replace("sales", "sales.north")
    assert run(log, "export", target).returncode == 0
    refused = run(log, "export", target)

    assert refused.returncode == 2
    assert "has data already; take --mode append" in refused.stderr
    assert run(log, "export", target, "--mode", "append").returncode == 0
    table = read(target)
    assert table is not None
    assert table.num_rows == 400


def test_other_writers(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream and an increment go through beside another writer, which commits first."""
    watched = Watched(tmp_path, target, monkeypatch, seed=5)
    chance = random.Random(5)
    watched.log.write(200)
    watched.snapshot()
    for how, job in (("rewrite", "stream"), ("upsert", "increment"), ("expire", "stream")):
        watched.log.write(20)
        left = [how]

        def once(name: str, left: list[str] = left) -> None:
            if name == "a commit begins" and left:
                meddle(watched, left.pop(), chance)

        watched.meddle = once
        JOBS[job](watched)
        watched.meddle = lambda _: None

        assert not left
        assert watched.found() == watched.expected, how


def test_history(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A random schedule, as on tables of folders."""
    watched = Watched(tmp_path, target, monkeypatch, seed=SEED)

    Schedule(watched, random.Random(SEED)).play(jobs=JOBS_OF_HISTORY)


def test_a_table_of_another_writer(target: str, tmp_path: Path) -> None:
    """It is refused, and stays as it is."""
    log = KeyedLog(tmp_path / "log", partitions=2)
    log.write(100)
    assert run(log, "snapshot", target).returncode == 0
    before = read(target)
    assert before is not None
    other = OtherWriter(target)
    other.make_again()
    other.create(before)
    refused = run(log, "snapshot", target, "--incremental")

    assert refused.returncode == 1
    assert "has rows, and no commit of a job of this pipeline is known" in refused.stderr
    assert read(target) == before


def test_a_catalogue_that_is_gone(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named in one sentence."""
    log = KeyedLog(tmp_path / "log")
    log.write(10)
    monkeypatch.setenv("PYICEBERG_CATALOG__SHOP__URI", "http://127.0.0.1:9")
    done = run(log, "snapshot", target)

    (said,) = [line for line in done.stderr.splitlines() if line.startswith("pipeline: ")]
    assert done.returncode == 1
    assert "see whether its store or catalogue is reached" in said
