"""What the tests of the pipeline share."""

from pathlib import Path

import pytest

from tests.support.archives import Archive


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An empty log directory that no broker serves."""
    return Archive(tmp_path / "archive")
