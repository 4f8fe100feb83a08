"""The examples of the pipeline: the demonstration, and ten lines of PySpark."""

import os
import sys
from pathlib import Path

import pytest

from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.spark.java import find_java
from tests.support.broker import SiltstoneProcess
from tests.support.produced import create_topic, numbered, produce
from tests.support.programs import output_of
from tests.support.repositories import make_repository

ROOT = Path(__file__).parents[2]
PROOFS = (
    "delta equals git ls-tree -r: 40 paths",
    "iceberg equals git ls-tree -r: 40 paths",
    "delta equals git ls-tree -r: 20 paths",
    "iceberg equals git ls-tree -r: 20 paths",
)
SECONDS = 250.0
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]


def run(*arguments: str, scratch: Path) -> str:
    """Run Python in the checkout and return what it prints; skip the test without Java."""
    try:
        find_java()
    except PipelineError as lack:
        pytest.skip(f"java: {lack}")
    scratch.mkdir()
    return output_of(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(scratch), "NO_COLOR": "1"},
        timeout=SECONDS,
    )


def test_tables_equal_the_tree(tmp_path: Path) -> None:
    """Both tables do after each of two snapshots, and the older one can still be read."""
    repository = make_repository(tmp_path / "repository")

    said = run("-m", "examples.pipeline_demo", str(repository), scratch=tmp_path / "scratch")

    proofs = [line for line in said.splitlines() if "equals git ls-tree -r" in line]
    assert tuple(proofs[:4]) == PROOFS
    assert proofs[4].startswith("snapshot ")
    assert proofs[4].endswith("equals git ls-tree -r: 40 paths")
    assert len(proofs) == 5


def test_ten_lines(siltstone: SiltstoneProcess, tmp_path: Path) -> None:
    """They show the topic's partitions and the last value of each key."""
    siltstone.start()
    create_topic(siltstone.bootstrap, "users", partitions=2)
    for partition in (0, 1):
        produce(siltstone.bootstrap, "users", numbered(5, partition=partition))
    produce(siltstone.bootstrap, "users", [{"key": b"k3", "value": b"newer", "partition": 0}])
    produce(siltstone.bootstrap, "users", [{"key": b"k4", "value": None, "partition": 0}])

    said = run("examples/pipeline.py", str(siltstone.folder), "users", scratch=tmp_path / "scratch")

    rows = [line.replace(" ", "") for line in said.splitlines()]
    assert "|0|7|6|" in rows
    assert "|1|5|4|" in rows
    assert rows.count("|k3|newer|") == 1
    assert rows.count("|k3|v3|") == 1
    assert rows.count("|k4|v4|") == 1
