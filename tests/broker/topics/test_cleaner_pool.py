"""Work of the cleaner's threads for the event loop beside them."""

import threading
from collections.abc import Iterator

import pytest

from siltstone.broker.topics.cleaner_pool import make_pool
from siltstone.cleaner.manager import CleanerManager
from siltstone.config.server import ServerConfig
from siltstone.storage.threads import SHORT_NS, ask_for_slice
from tests.support.clock import FakeClock
from tests.support.time_slices import slice_of


@pytest.fixture
def loop_thread() -> Iterator[int]:
    """The thread that has the loop, which asks for nothing before and after."""
    thread_id = threading.main_thread().native_id
    assert thread_id
    ask_for_slice(0, thread_id)
    yield thread_id
    ask_for_slice(0, thread_id)


def test_loop_has_short_turns_when_somebody_is_beside_it(loop_thread: int) -> None:
    """From the first pass on, which another thread prepares; before, nobody asks."""
    clock = FakeClock(now_ms=0)
    pool = make_pool(CleanerManager({}, clock), clock, ServerConfig())
    before = slice_of(loop_thread)

    made: list[object] = []
    thread = threading.Thread(target=lambda: made.append(pool.services.make_cleaner(pool.settings)))
    thread.start()
    thread.join()

    assert made
    assert before > SHORT_NS
    assert slice_of(loop_thread) == SHORT_NS
