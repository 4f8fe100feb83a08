"""Waiting in tests: for something to be so, and never for a time to pass.

How long is only how soon a broken test gives up. It is long, since a busy machine is no fault, and
shorter than the time-out of a test, so that what was waited for is named.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

PATIENCE = 50.0
_PAUSE = 0.005
_TURN = 0.001


def until(timeout: float = PATIENCE) -> Iterator[None]:
    """Yield every few milliseconds, at least once, until `timeout` seconds have passed."""
    deadline = time.monotonic() + timeout
    while True:
        yield
        if time.monotonic() > deadline:
            return
        time.sleep(_PAUSE)


def wait_until(
    holds: Callable[[], object], complaint: str = "it never came to that", timeout: float = PATIENCE
) -> None:
    """Wait until something holds that other threads or processes bring about.

    Raises:
        TimeoutError: It does not come; with the complaint.
    """
    for _ in until(timeout):
        if holds():
            return
    raise TimeoutError(complaint)


async def give_turns_until(
    holds: Callable[[], object], complaint: str = "it never came to that"
) -> None:
    """Give the loop to others, and other threads some time, until something holds.

    What tells may be a coroutine function.

    Raises:
        TimeoutError: It does not come; with the complaint.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if await found if isinstance(found, Awaitable) else found:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(complaint)
        await asyncio.sleep(_TURN)
