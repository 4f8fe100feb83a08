"""What the readers do in a process that Spark has started, and in no other."""

import gc
from collections.abc import Iterator

import pytest

from pipeline.source.worker import settle


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    """Give what a test has frozen back to the garbage collector."""
    yield
    gc.unfreeze()


def test_what_a_worker_has_imported_is_not_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is frozen once: what comes later is garbage as ever when nobody needs it."""
    monkeypatch.setenv("SPARK_PYTHON_RUNTIME", "PYTHON_WORKER")

    settle()
    frozen = gc.get_freeze_count()
    later = [object() for _ in range(1000)]
    settle()

    assert frozen > 1000
    assert gc.get_freeze_count() <= frozen
    assert gc.is_tracked(later)


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver, or a job without Spark, collects as it likes."""
    monkeypatch.delenv("SPARK_PYTHON_RUNTIME", raising=False)

    settle()

    assert gc.get_freeze_count() == 0
