"""The work of readers in a process that Spark has started, and in no other."""

import gc
from collections.abc import Iterator

import pytest

from siltstone.pipeline.source.worker import settle


@pytest.fixture(autouse=True)
def unsettled() -> Iterator[None]:
    """Begin as a new process does, and give back what a test has frozen."""
    settle.cache_clear()
    gc.unfreeze()  # what a broker in this process has frozen
    yield
    settle.cache_clear()
    gc.unfreeze()


def test_what_a_worker_has_imported_is_not_collected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is frozen once: what comes later is garbage as ever when nobody needs it."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_SECRET", "a secret")
    before = gc.get_freeze_count()

    settle()
    frozen = gc.get_freeze_count()
    later: list[list[object]] = [[] for _ in range(1000)]
    settle()

    assert frozen > before + 1000
    assert gc.get_freeze_count() < frozen + len(later)


def test_other_processes_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver, or a job without Spark, collects as it likes."""
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SECRET", raising=False)
    before = gc.get_freeze_count()

    settle()

    assert gc.get_freeze_count() <= before
