"""A wait that is given up says what it was for and what it saw at the end."""

import asyncio
from itertools import count

import pytest

from tests.support import waiting
from tests.support.waiting import at_least, equals, give_turns_until, wait_until, within


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No patience."""
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)


def test_what_holds_is_returned() -> None:
    """The thing itself, not that it holds."""
    numbers = count(1)

    assert wait_until(lambda: next(numbers), "3", at_least(3)) == 3


def test_a_wait_looks_once_however_short_it_is() -> None:
    """A condition that holds already is found without any time."""
    assert wait_until(lambda: "here", "it", timeout=0) == "here"


def test_what_does_not_come_is_told_with_what_was_seen() -> None:
    """Both are in the sentence."""
    with pytest.raises(TimeoutError, match=r"^waited 0 s for two logs; last seen: \['one'\]$"):
        wait_until(lambda: ["one"], "two logs", equals(["one", "two"]), timeout=0)


def test_an_error_may_be_what_is_seen() -> None:
    """One that is expected means not yet; others are raised at once."""
    with pytest.raises(TimeoutError, match=r"for 1; last seen: ZeroDivisionError"):
        wait_until(lambda: 1 / 0, "1", despite=ZeroDivisionError, timeout=0)
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 / 0, "1", despite=KeyError, timeout=0)


def test_of_a_long_text_the_end_is_shown() -> None:
    """As what a process has printed, whose last lines tell most."""
    with pytest.raises(TimeoutError, match=r"last seen: \.\.\. .*the end$") as given_up:
        wait_until(lambda: "so long" * 10_000 + "the end", "a word", equals(""), timeout=0)

    assert len(str(given_up.value)) < 5_000


async def test_the_loop_has_its_turns_meanwhile() -> None:
    """A coroutine may do the looking."""
    task = asyncio.create_task(asyncio.sleep(0, "done"))

    async def look() -> bool:
        return task.done()

    assert await give_turns_until(look, "the end of a task") is True


@pytest.mark.usefixtures("hasty")
async def test_what_the_loop_does_not_bring_is_told() -> None:
    """As in a thread, and so is a result that does not come."""
    with pytest.raises(TimeoutError, match="for four; last seen: 3"):
        await give_turns_until(lambda: 3, "four", equals(4))
    with pytest.raises(TimeoutError, match="for an event"):
        await within(asyncio.Event().wait(), "an event")
