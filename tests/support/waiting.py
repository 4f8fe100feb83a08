"""Waiting in tests: for a condition, and never for a time to pass.

The limit decides when a broken test fails. It is long, since a busy machine is no fault, and
shorter than the time-out of a test, so that the failure says what was waited for and what was seen.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar, overload

Seen = TypeVar("Seen")
Result = TypeVar("Result")
Errors = type[Exception] | tuple[type[Exception], ...]

PATIENCE = 50.0
_PAUSE = 0.005
_TURN = 0.001
_SHOWN = 3000  # characters of what was last seen


def wait_until(
    look: Callable[[], Seen],
    what: str,
    holds: Callable[[Seen], object] = bool,
    *,
    despite: Errors = (),
    timeout: float = PATIENCE,
) -> Seen:
    """Call ``look`` every few milliseconds until its result holds, and return the result.

    Other threads or processes fulfil the condition. An error of `despite` means not yet.

    Raises:
        TimeoutError: It never holds; with what was waited for, and what was seen at the end.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            seen = look()
            if holds(seen):
                return seen
            last: object = seen
        except despite as error:
            last = error
        if time.monotonic() > deadline:
            raise _gives_up(what, timeout, last)
        time.sleep(_PAUSE)


@overload
async def give_turns_until(
    look: Callable[[], Awaitable[Seen]], what: str, holds: Callable[[Seen], object] = bool
) -> Seen: ...
@overload
async def give_turns_until(
    look: Callable[[], Seen], what: str, holds: Callable[[Seen], object] = bool
) -> Seen: ...
async def give_turns_until(
    look: Callable[[], Any], what: str, holds: Callable[[Any], object] = bool
) -> Any:
    """Let other tasks and threads run until the result of ``look`` holds, and return the result.

    ``look`` may be a coroutine function.

    Raises:
        TimeoutError: It never holds; with what was waited for, and what was seen at the end.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        looked = look()
        seen = await looked if isinstance(looked, Awaitable) else looked
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise _gives_up(what, PATIENCE, seen)
        await asyncio.sleep(_TURN)


async def begin_and_go(work: Coroutine[Any, Any, Any]) -> None:
    """Begin something as a client's request does, and cancel it right after its first step."""
    request = asyncio.create_task(work)
    asyncio.get_running_loop().call_soon(request.cancel)
    with suppress(asyncio.CancelledError):
        await request


async def within(coming: Awaitable[Result], what: str) -> Result:
    """Return the result; cancel what does not end in time.

    Raises:
        TimeoutError: It does not come; the error names ``what``.
    """
    try:
        return await asyncio.wait_for(coming, PATIENCE)
    except TimeoutError as error:
        raise TimeoutError(f"waited {PATIENCE:.0f} s for {what}") from error


def equals(wanted: object) -> Callable[[object], bool]:
    """Return a test for equality with a value."""
    return lambda seen: seen == wanted


def at_least(wanted: float) -> Callable[[float], bool]:
    """Return a test for a number of at least this value."""
    return lambda seen: seen >= wanted


def _gives_up(what: str, timeout: float, last: object) -> TimeoutError:
    shown = last if isinstance(last, str) else repr(last)
    if len(shown) > _SHOWN:
        shown = f"... {shown[-_SHOWN:]}"
    return TimeoutError(f"waited {timeout:.0f} s for {what}; last seen: {shown}")
