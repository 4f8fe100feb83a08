"""One seed, one history, in every process."""

import os
import sys
from collections import Counter
from itertools import count

import pytest

from tests.simulator.history import draw
from tests.support.programs import output_of

PROCESSES = 10


def does_much(seed: int) -> bool:
    """Tell whether a history has bursts, faults, and a process that ends within a call."""
    kinds = Counter(step[0] for _, step in draw(seed).steps)
    return kinds["burst"] > 8 and kinds["fault"] > 8 and kinds["dies"] + kinds["power_dies"] > 0


MUCH = (seed for seed in count() if does_much(seed))
SEEDS = (next(MUCH), next(MUCH))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_seed_is_the_same_history_in_every_process(seed: int) -> None:
    """Each call of the disk, switch of threads and byte sent, at its time, by any hash seed."""
    command = [sys.executable, "-m", "tests.simulator", "--seed", str(seed), "--digest"]

    told = {
        output_of(command, env={**os.environ, "PYTHONHASHSEED": str(seed + 1000 * number)})
        for number in range(PROCESSES)
    }

    assert len(told) == 1, told
