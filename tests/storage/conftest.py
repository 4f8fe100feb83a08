"""A disk that fails on demand, for every test of storage."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import faults


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> faults.Disk:
    """The disk under storage, without faults yet."""
    return faults.install(monkeypatch)


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: for tests that open thousands of logs."""
    memory = Path("/dev/shm")
    if not memory.is_dir():
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=memory))
    yield folder
    shutil.rmtree(folder)
