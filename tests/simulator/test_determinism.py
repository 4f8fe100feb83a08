"""One seed, one history, in every process."""

import os
import sys
from collections import Counter
from itertools import count, islice

import pytest

from tests.simulator.history import draw
from tests.support.programs import output_of

PROCESSES = 10


def does_much(seed: int) -> bool:
    """Tell whether a history has bursts, faults, and a process that ends within a call."""
    kinds = Counter(step[0] for _, step in draw(seed).steps)
    return kinds["burst"] > 4 and kinds["fault"] > 4 and kinds["dies"] + kinds["power_dies"] > 0


SEEDS = list(islice((seed for seed in count() if does_much(seed)), 4))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", [0, 2])
def test_seed_is_the_same_history_in_every_process(first: int) -> None:
    """Each call of the disk, switch of threads and byte sent, at its time, by any hash seed."""
    seeds = map(str, SEEDS[first : first + 2])
    command = [sys.executable, "-m", "tests.simulator", "--digest", *seeds]

    told = {
        output_of(command, env={**os.environ, "PYTHONHASHSEED": str(1000 * first + number)})
        for number in range(PROCESSES)
    }

    assert len(told) == 1, told
