"""Workers on a partition, and callers that keep the cleaner away from it."""

import threading

import pytest

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.states import CleaningStates, State
from siltstone.storage.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
OTHERS = TopicPartition("others", 0)


class Home:
    """States, and the lock that their owner would hold."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.states = CleaningStates(self.lock)

    def take(self) -> bool:
        """Take `ORDERS` as the manager does."""
        with self.lock:
            return self.states.take(ORDERS)

    def release(self) -> None:
        """Give it back."""
        with self.lock:
            self.states.release(ORDERS)

    def pausing(self) -> threading.Thread:
        """Return a thread that waits until nobody works on `ORDERS`, once it has asked for that."""
        thread = threading.Thread(target=self.states.abort_and_pause, args=(ORDERS,))
        thread.start()
        while self.states.get(ORDERS) is not State.ABORTED:
            assert thread.is_alive()
        return thread


@pytest.fixture
def home() -> Home:
    """States without an entry."""
    return Home()


def test_log_has_one_owner(home: Home) -> None:
    """The second caller does not get it; other logs are free."""
    assert home.take()
    assert not home.take()
    assert home.states.get(ORDERS) is State.IN_PROGRESS
    assert home.states.get(OTHERS) is State.NONE
    home.release()
    assert home.take()


def test_paused_log_is_not_taken(home: Home) -> None:
    """As often as it was paused it has to be resumed."""
    home.states.abort_and_pause(ORDERS)
    home.states.abort_and_pause(ORDERS)

    home.states.resume(ORDERS)

    assert home.states.get(ORDERS) is State.PAUSED
    assert not home.take()
    home.states.resume(ORDERS)
    assert home.states.get(ORDERS) is State.NONE
    assert home.take()


def test_abort_waits_for_the_worker(home: Home) -> None:
    """The worker notices at its next check; then the log is paused for the caller that waited."""
    home.take()
    home.states.check(ORDERS)

    thread = home.pausing()

    with pytest.raises(CleaningAborted, match="orders-0"):
        home.states.check(ORDERS)
    home.states.check(OTHERS)
    home.release()
    thread.join(10)
    assert not thread.is_alive()
    assert home.states.get(ORDERS) is State.PAUSED


def test_who_aborts_what_is_aborted_waits_too(home: Home) -> None:
    """Two may want the same partition: each has its own pause."""
    home.take()
    threads = [home.pausing(), home.pausing()]

    home.release()

    for thread in threads:
        thread.join(10)
    home.states.resume(ORDERS)
    assert home.states.get(ORDERS) is State.PAUSED
    home.states.resume(ORDERS)
    assert home.states.get(ORDERS) is State.NONE


def test_abort_of_an_idle_log_changes_nothing(home: Home) -> None:
    """There is nothing to wait for, and the next pass may begin."""
    home.states.abort(ORDERS)

    assert home.take()
    home.states.check(ORDERS)


def test_next_pass_is_not_aborted_by_the_last_abort(home: Home) -> None:
    """The wish ends with the pass that it was for."""
    home.take()
    thread = home.pausing()
    home.release()
    thread.join(10)
    home.states.resume(ORDERS)

    assert home.take()
    home.states.check(ORDERS)


def test_resuming_what_is_not_paused_is_a_mistake(home: Home) -> None:
    """A pause too few would let the cleaner in."""
    with pytest.raises(RuntimeError, match="orders-0 is not paused"):
        home.states.resume(ORDERS)
    home.take()
    with pytest.raises(RuntimeError):
        home.states.resume(ORDERS)


def test_forgotten_partition_has_no_pause(home: Home) -> None:
    """A topic that was deleted may be created again under its name."""
    home.states.abort_and_pause(ORDERS)

    with home.lock:
        home.states.forget(ORDERS)

    assert home.take()
