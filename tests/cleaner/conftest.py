"""What the cleaner's tests share: kernels of both kinds, folders in memory, a disk that fails."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cleaner import kernels
from tests.support import faults

PLAIN = kernels.load_uncompiled()
NAMES = (
    "count_records",
    "emit_batches",
    "index_batches",
    "map_keys",
    "move_slots",
    "plan_batches",
)


@pytest.fixture(params=["chosen", "plain"])
def both_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the kernels that were chosen, and with those in plain Python."""
    if request.param == "plain":
        for name in NAMES:
            monkeypatch.setattr(kernels, name, getattr(PLAIN, name))
    return str(request.param)


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
