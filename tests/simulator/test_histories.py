"""Random histories of a whole broker.

`SIMULATED` says how many, `SIMULATED_SEED` with which they begin. `make simulate` plays thousands.
"""

import os
import sys

import pytest

from tests.simulator.runs import lots
from tests.support.programs import run_to_end

COUNT = int(os.environ.get("SIMULATED") or 500)
FIRST = int(os.environ.get("SIMULATED_SEED") or 0)
EACH = 50


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, EACH))
def test_histories(first: int) -> None:
    """Whatever fails, dies or loses its power: all that was acknowledged can be read.

    The histories run in processes of their own: a world takes the place of the seams for good.
    """
    count = min(EACH, FIRST + COUNT - first)
    options = ["--first", str(first), "--seeds", str(count), "--processes", "1", "--keep-nothing"]

    done = run_to_end([sys.executable, "-m", "tests.simulator", *options])

    assert done.returncode == 0, done.stdout + done.stderr


def test_lots_are_the_same_wherever_a_campaign_begins() -> None:
    """So what was played before is found again."""
    assert lots(7, 20) == [(7, 10), (10, 20), (20, 27)]
    assert lots(10, 10) == [(10, 20)]
    assert lots(3, 2) == [(3, 5)]
