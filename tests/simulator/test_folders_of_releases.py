"""A start on the folder of each release: what it served then is served now."""

import json
import sys
from pathlib import Path

import pytest

from tests.support.programs import output_of

FOLDERS = sorted(Path(__file__).parents[1].joinpath("data/releases").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.stem)
def test_a_folder_of_a_release_is_served_as_then(path: Path) -> None:
    """Records from every offset, times, offsets of a group, a transaction, rules, users, quotas."""
    command = [sys.executable, "-m", "tests.simulator.every_byte", "--kept", str(path)]

    seen, then = json.loads(output_of(command))

    assert seen == then
    assert len(then) > 40
