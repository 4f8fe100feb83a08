"""A history beside Apache Kafka says nothing about differences that are named already."""

import pytest

from siltstone.protocol.messages.fetch import PartitionData
from tests.simulator.beside.fitting import fit
from tests.simulator.beside.side import _mended
from tests.simulator.history import draw


def test_no_step_sets_what_only_kafka_keeps() -> None:
    """Not in a burst, nor in a row of one; other rules are played."""
    steps = [step for seed in range(30) for _, step in fit(draw(seed)).steps]
    keys = {step[2] for step in steps if step[0] == "rule"}

    assert "log.retention.ms" in keys
    assert "no.such.setting" not in keys


@pytest.mark.parametrize(("start", "told"), [(5, 5), (2, 3), (-1, -1)])
def test_the_last_stable_offset_is_not_below_the_start(start: int, told: int) -> None:
    """It is left out where a version of Fetch does not tell the start."""
    row = PartitionData(0, 0, 9, last_stable_offset=3, log_start_offset=start)

    assert _mended(row).last_stable_offset == told
