"""The lock of a log: one thread has it, others wait, in the way that the module says."""

import threading
from contextlib import suppress

import pytest

from siltstone.storage import log_lock
from siltstone.storage.log_lock import LogLock


def test_one_thread_at_a_time_has_a_lock() -> None:
    """Others wait, without the GIL, until it is let go; an error lets it go as well."""
    lock = LogLock()
    order: list[str] = []
    begun = threading.Event()

    def other() -> None:
        begun.set()
        with lock:
            order.append("other")

    thread = threading.Thread(target=other)
    with suppress(KeyError), lock:
        thread.start()
        assert begun.wait(60)
        order.append("first")
        raise KeyError
    thread.join(60)

    assert order == ["first", "other"]


def test_a_lock_that_is_taken_is_waited_for_in_another_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator runs one thread at a time: the lock asks it, and only when it is taken."""
    lock = LogLock()
    waited: list[bool] = []

    def wait(wanted: LogLock) -> None:
        waited.append(wanted.take_now())
        wanted.__exit__()
        waited.append(wanted.take_now())

    monkeypatch.setattr(log_lock, "wait_for", wait)
    with lock:
        assert waited == []
        with lock:
            assert waited == [False, True]
