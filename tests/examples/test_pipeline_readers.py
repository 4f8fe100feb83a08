"""The examples that read topics by Arrow: DuckDB and Polars, beside a broker and without a Java."""

import os
import sys
from pathlib import Path

import pytest

from siltstone.pipeline.client.pins import find_control
from tests.support.broker import SiltstoneProcess, a_process
from tests.support.produced import create_topic, numbered, produce
from tests.support.programs import output_of

ROOT = Path(__file__).parents[2]
DUCKDB = """
(0, 7, 6)
(1, 5, 4)
('k0', 'v0')
('k0', 'v0')
('k1', 'v1')
('k1', 'v1')
('k2', 'v2')
('k2', 'v2')
('k3', 'newer')
('k3', 'v3')
('k4', 'v4')
[(5,)]
"""
POLARS = """
0 7 6
1 5 4
k0 v0
k0 v0
k1 v1
k1 v1
k2 v2
k2 v2
k3 newer
k3 v3
k4 v4
"""
pytestmark = pytest.mark.client


def fill(bootstrap: str) -> None:
    """Write a topic of two partitions; in the first one a key has two values, another is gone."""
    create_topic(bootstrap, "users", partitions=2)
    for partition in (0, 1):
        produce(bootstrap, "users", numbered(5, partition=partition))
    produce(bootstrap, "users", [{"key": b"k3", "value": b"newer", "partition": 0}])
    produce(bootstrap, "users", [{"key": b"k4", "value": None, "partition": 0}])


served = a_process(prepare=fill)


def run(name: str, served: SiltstoneProcess) -> str:
    """Return what an example prints, which leaves no pin behind."""
    said = output_of(
        [sys.executable, f"examples/{name}.py", str(served.folder), "users"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert find_control(served.folder).ask("GET", "/v1/pins")["pins"] == []
    return said


def test_sql_by_duckdb(served: SiltstoneProcess) -> None:
    """Records by partition, the last value of each key, and the keys of the last hour."""
    assert run("pipeline_duckdb", served) == DUCKDB.lstrip()


def test_a_lazy_frame_of_polars(served: SiltstoneProcess) -> None:
    """The same, and the first records alone."""
    said = run("pipeline_polars", served)

    rows = [" ".join(line.strip("│").replace("┆", "").split()) for line in said.splitlines()]
    assert [row for row in rows if row in POLARS.split("\n")] == POLARS.split("\n")[1:-1]
    assert "shape: (3, 2)" in said
