"""Damage to single bytes of a folder, some of all: ``make damage`` has every byte."""

import os
import sys

import pytest

from tests.support.programs import run_to_end

EVERY = os.environ.get("DAMAGED_EVERY") or "199"


@pytest.mark.slow
def test_no_damaged_byte_is_served_unseen() -> None:
    """An answer is right or an error, or a checksum or ``siltstone verify`` tells."""
    done = run_to_end([sys.executable, "-m", "tests.simulator.every_byte", "--every", EVERY])

    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong" not in done.stdout
    assert "verify names it" in done.stdout
