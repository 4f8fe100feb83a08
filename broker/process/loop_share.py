"""How long one request may have the loop before others are served.

All whose time is over stand in one line, of any kind, and of each turn of the loop they have
one share together: a hundred large requests hold up others no longer than one. The few that have
begun first take turns, and those behind them wait until one is done: so there are few requests and
answers that are half made, which is when they are largest.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from siltstone.storage.clock import perf_counter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence

T = TypeVar("T")
Row = TypeVar("Row")

SECONDS: Final = 0.002
_PIECE: Final = 100
_FREED: Final = 1000
_TOGETHER_SECONDS: Final = 4 * SECONDS
"""How much those want together that take turns: four large requests, or many small ones."""


class _Place(NamedTuple):
    """Where one stands: behind all that have begun before it."""

    number: int
    last: int
    """When it went on last, counted in turns."""
    turn: asyncio.Future[None]
    seconds: float


class _Line:
    """The line of those that wait for a share of one loop, in the order of their beginnings."""

    __slots__ = ("_begun", "_numbers", "_turns", "_waiting")

    def __init__(self) -> None:
        self._begun = 0
        self._numbers: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._turns = 0
        self._waiting: list[_Place] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def find_number(self) -> int:
        """Return the number of the task that runs: a request has several shares, one by one.

        A request that has no task yet gets a number, and the task that it becomes keeps it.
        """
        task = asyncio.current_task()
        number = None if task is None else self._numbers.get(task)
        if number is None:
            self._begun += 1
            number = self._begun
            if task is not None:
                self._numbers[task] = number
        return number

    async def wait(self, number: int, last: int, seconds: float) -> int:
        """Return when it is one's turn to have the loop for so long, and which turn that is."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._go_on)
        turn = loop.create_future()
        insort(self._waiting, _Place(number, last, turn, seconds), key=_number_of)
        await turn
        task = asyncio.current_task()
        if task is not None:
            self._numbers.setdefault(task, number)
        return self._turns

    def _go_on(self) -> None:
        """Let some of the first go on, as many as fit into one share."""
        self._turns += 1
        room = SECONDS
        for place in sorted(self._first(), key=_last_of):
            if room < place.seconds and room < SECONDS:
                break
            self._waiting.remove(place)
            if not place.turn.done():  # else its client has gone
                place.turn.set_result(None)
                room -= place.seconds
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _first(self) -> list[_Place]:
        """Return those that take turns."""
        seconds = 0.0
        for count, place in enumerate(self._waiting):
            if seconds >= _TOGETHER_SECONDS:
                return self._waiting[:count]
            seconds += place.seconds
        return list(self._waiting)


_number_of: Final = attrgetter("number")
_last_of: Final = attrgetter("last")
_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


def _line() -> _Line:
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        line = _lines[loop] = _Line()
    return line


class LoopShare:
    """Measures a request that is worked off in one go otherwise (loop only)."""

    __slots__ = ("_end", "_last", "_line", "_number", "_seconds")

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._line = _line()
        self._number = 0
        self._last = 0
        # Where others wait it does what it must, and stands behind them.
        self._end = 0.0 if self._line else perf_counter() + seconds

    async def rest(self) -> None:
        """Let others be served if its time is over; what was looked up may have changed then."""
        if perf_counter() > self._end:
            self._number = self._number or self._line.find_number()
            self._last = await self._line.wait(self._number, self._last, self._seconds)
            self._end = perf_counter() + self._seconds


async def describe_each(rows: Iterable[T], describe: Callable[[T], Row]) -> list[Row]:
    """Return what each row is answered, and let others be served in between."""
    described: list[Row] = []
    share = LoopShare()
    for row in rows:
        described.append(describe(row))
        await share.rest()
    return described


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


WIDTH: Final = 16
_LEAST_SECONDS: Final = 0.000_2


async def work_off(
    items: Collection[T], job: Callable[[T], Awaitable[None]], width: int = WIDTH
) -> None:
    """Await ``job`` for every item, at most ``width`` of them at once; jobs do not raise.

    Others are served in between, also when no job waits for anything.
    """
    left = iter(items)

    async def work() -> None:
        share = LoopShare(max(_LEAST_SECONDS, SECONDS / width))
        for item in left:
            await job(item)
            await share.rest()

    await asyncio.gather(*(work() for _ in range(min(width, len(items)))))
