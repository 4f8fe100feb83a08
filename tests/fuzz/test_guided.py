"""Inputs that atheris makes, guided by the lines that they reach: nothing fails on one.

`FUZZ_RUNS` sets how many (default: a few thousand each), `FUZZ_SEED` repeats a run. What fails is
printed in hex, and is tried again by ``python -m tests.fuzz.decoding FOLDER FILE``.
"""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.support.kafka import cache_folder
from tests.support.programs import run_to_end

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DECODING, DISPATCHING = 20_000, 10_000
AS_MANY = 2
"""Decoding is faster; of so many inputs one is handed to the broker."""


def search(module: str, folder: Path, runs: int) -> str:
    """Run libFuzzer and return what it said at the end.

    Raises:
        AssertionError: It found an input that fails.
    """
    unpacked = cache_folder() / "atheris"
    if not (unpacked / "atheris").is_dir():
        pytest.skip("atheris: not unpacked; make atheris does it")
    seed = int(os.environ.get("FUZZ_SEED") or 0)
    done = run_to_end(
        [sys.executable, "-m", f"tests.fuzz.{module}", folder, f"-runs={runs}", f"-seed={seed}"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
    )
    said = done.stdout[-3000:] + done.stderr[-3000:]
    failed = [f"{each}: {each.read_bytes().hex()}" for each in folder.glob("crash-*")]
    assert done.returncode == 0, "\n".join([said, *failed])
    return said


def reached(said: str) -> int:
    """Return how many branches all inputs together have taken."""
    return max(int(each) for each in re.findall(r" cov: (\d+)", said))


@pytest.mark.timeout(36_000)
def test_requests_are_read_alike(tmp_path: Path) -> None:
    """By the tables in plain Python and in compiled form: the same, or the same refusal."""
    runs = int(os.environ.get("FUZZ_RUNS") or DECODING)

    assert reached(search("decoding", tmp_path, runs)) > 100


@pytest.mark.alone
@pytest.mark.timeout(36_000)
def test_a_broker_serves_or_refuses_them(tmp_path: Path) -> None:
    """Before a login and without one: within a second, and no handler fails.

    What is compiled has no branches to reach here.
    """
    given = os.environ.get("FUZZ_RUNS")
    runs = int(given) // AS_MANY if given else DISPATCHING

    assert reached(search("dispatching", tmp_path, runs)) > 400
