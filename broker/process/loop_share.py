"""How long one request may have the loop before others are served.

Those whose time is over stand in one line, whoever they are. In each turn of the loop the first of
them go on, as many as fit into one share: a hundred large requests together hold up others no
longer than one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import merge
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Sequence

T = TypeVar("T")
Row = TypeVar("Row")

SECONDS: Final = 0.002
_PIECE: Final = 100
_FREED: Final = 1000


class _Line:
    """Who waits for a share of one loop, the first that came first (loop only)."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def join(self, seconds: float) -> asyncio.Future[None]:
        """Return what is done when it is the caller's turn to have the loop for so long."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._go_on)
        turn = loop.create_future()
        self._waiting.append((turn, seconds))
        return turn

    def _go_on(self) -> None:
        """Let the first go on, and those behind it that fit into the same turn."""
        waiting = self._waiting
        room = SECONDS
        while waiting and room > 0:
            turn, seconds = waiting[0]
            if room < SECONDS and seconds > room:
                break
            waiting.popleft()
            if not turn.done():  # else its client has gone
                turn.set_result(None)
                room -= seconds
        if waiting:
            asyncio.get_running_loop().call_soon(self._go_on)


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


def _line() -> _Line:
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line()
    return line


class LoopShare:
    """Measures a request that is worked off in one go otherwise (loop only)."""

    __slots__ = ("_end", "_line", "_seconds")

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._line = _line()
        # Where others wait it does what it must, and stands behind them.
        self._end = 0.0 if self._line else perf_counter() + seconds

    async def rest(self) -> None:
        """Let others be served if its time is over; what was looked up may have changed then."""
        if perf_counter() > self._end:
            await self._line.join(self._seconds)
            self._end = perf_counter() + self._seconds


async def in_pieces(rows: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yield rows some at a time, and let others be served in between."""
    share = LoopShare()
    for start in range(0, len(rows), _PIECE):
        yield rows[start : start + _PIECE]
        await share.rest()


def answer_rows(
    rows: Sequence[T], describe: Callable[[T], Row], respond: Callable[[list[Row]], Any]
) -> Any | Coroutine[Any, Any, Any]:
    """Return a response of what each row is answered, or a coroutine of it where they are many."""
    if len(rows) <= _PIECE:
        return respond([describe(row) for row in rows])
    return _answer_in_pieces(rows, describe, respond)


async def _answer_in_pieces(
    rows: Sequence[T], describe: Callable[[T], Row], respond: Callable[[list[Row]], Any]
) -> Any:
    described: list[Row] = []
    share = LoopShare()
    for row in rows:
        described.append(describe(row))
        await share.rest()
    return respond(described)


def parts_of(message: Any) -> list[Any]:
    """Return the elements of a message's long arrays, to be freed with `free`."""
    parts: list[Any] = []
    for value in message:
        if type(value) is not list:
            continue
        if len(value) > _PIECE:
            parts += value
        else:
            for row in value:
                if isinstance(row, tuple):
                    parts += parts_of(row)
    return parts


async def free(parts: list[Any]) -> None:
    """Free the parts of a message in slices, so that others are served in between.

    To free a message of 25,000 elements at once takes as long as to read it.
    """
    share = LoopShare()
    while parts:
        del parts[-_FREED:]
        await share.rest()


def each_of(rows: Sequence[T], convert: Callable[[T], Row]) -> Generator[None, None, list[Row]]:
    """Return what becomes of each row, in steps."""
    converted: list[Row] = []
    for start in range(0, len(rows), _PIECE):
        converted += map(convert, rows[start : start + _PIECE])
        yield
    return converted


def sort_once(texts: Sequence[str]) -> Generator[None, None, list[str]]:
    """Return the texts in order, each once, in steps."""
    pieces = []
    for start in range(0, len(texts), _FREED):
        pieces.append(sorted(texts[start : start + _FREED]))
        yield
    if len(pieces) == 1:
        return list(dict.fromkeys(pieces[0]))
    ordered: list[str] = []
    for number, text in enumerate(merge(*pieces)):
        if not ordered or text != ordered[-1]:
            ordered.append(text)
        if number % _FREED == 0:
            yield
    return ordered


def finish(steps: Generator[None, None, T]) -> T:
    """Return what steps come to in the end, in one go."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


async def finish_in_shares(steps: Generator[None, None, T]) -> T:
    """Return what steps come to in the end, and let others be served in between."""
    share = LoopShare()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await share.rest()
