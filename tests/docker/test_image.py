"""The container image is built without an engine and runs as its documents say."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.missing import require

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_image_is_built_and_keeps_its_promises() -> None:
    """What `make image-check` does: each thing that it finds wrong ends it."""
    for program in ("buildah", "debootstrap", "ip"):
        require(program)
    if os.geteuid():
        pytest.skip("root: only root may mount")

    done = subprocess.run(
        [sys.executable, ROOT / "tests/docker/image.py"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
