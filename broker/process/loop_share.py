"""How long one request may have the loop before others are served.

Requests of any kind whose time is over wait in one line, and in each turn of the loop they get one
share together. So a hundred large requests delay others no longer than one. The few requests that
began first take turns, and those behind them wait until one is done. So only few requests and
answers are half done, which is when they use the most memory.
"""

import asyncio
from bisect import insort
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Sequence,
)
from heapq import merge
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from siltstone.storage.clock import perf_counter

T = TypeVar("T")
Row = TypeVar("Row")

SECONDS: Final = 0.002
_TOGETHER_SECONDS: Final = 4 * SECONDS
"""The sum of the shares of the requests that take turns: four large ones, or many small ones."""

FIRST_SECONDS: Final = SECONDS / 16
"""How long a new request may run while others wait: most are done by then and never wait."""

FIRST_PIECE: Final = 200
"""How many elements the first piece has; later ones have as many as fit into part of a share."""
_PIECES: Final = 8
"""How many pieces a share is meant to have."""
_LONG: Final = 100
"""An array of more elements is freed in pieces."""


class _Place(NamedTuple):
    """A place in the line: behind all requests that began earlier."""

    number: int
    last: int
    """The turn in which the request last ran."""
    turn: asyncio.Future[None]
    seconds: float


class _Line:
    """The line of requests that wait for a share of one loop, in the order of their beginnings."""

    __slots__ = ("_begun", "_numbers", "_turns", "_waiting")

    def __init__(self) -> None:
        self._begun = 0
        self._numbers: WeakKeyDictionary[asyncio.Task[Any], int] = WeakKeyDictionary()
        self._turns = 0
        self._waiting: list[_Place] = []

    def find_number(self) -> int:
        """Return the number of the running task: a request may use several shares, one by one.

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

    def drop_number(self) -> None:
        """Have what the task that runs does next stand behind all that have begun."""
        task = asyncio.current_task() if self._numbers else None
        if task is not None:
            self._numbers.pop(task, None)

    async def wait(self, number: int, last: int, seconds: float) -> int:
        """Wait for a turn with the loop for ``seconds``; return the number of the turn."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._go_on)
        place = _Place(number, last, loop.create_future(), seconds)
        insort(self._waiting, place, key=_number_of)
        _busy.add(self)
        try:
            await place.turn
        except BaseException:  # its client has gone
            if place in self._waiting:
                self._waiting.remove(place)
            if not self._waiting:
                _busy.discard(self)
            raise
        task = asyncio.current_task()
        if task is not None:
            self._numbers.setdefault(task, number)
        return self._turns

    def _go_on(self) -> None:
        """Resume the first ones, as many as fit into one share."""
        self._turns += 1
        room = SECONDS
        for place in sorted(self._first(), key=_last_of):
            if room < place.seconds and room < SECONDS:
                break
            self._waiting.remove(place)
            if not place.turn.done():  # if it is done, its client has gone
                place.turn.set_result(None)
                room -= place.seconds
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            _busy.discard(self)

    def _first(self) -> list[_Place]:
        """Return the places of the requests that take turns."""
        seconds = 0.0
        for count, place in enumerate(self._waiting):
            if seconds >= _TOGETHER_SECONDS:
                return self._waiting[:count]
            seconds += place.seconds
        return list(self._waiting)


_number_of: Final = attrgetter("number")
_last_of: Final = attrgetter("last")
_lines: dict[asyncio.AbstractEventLoop, _Line] = {}
_busy: set[_Line] = set()
"""The lines that are not empty: most requests need not look for theirs."""


def _line() -> _Line:
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        for each in [each for each in _lines if each.is_closed()]:
            del _lines[each]
        line = _lines[loop] = _Line()
    return line


def end_request() -> None:
    """Note that the task that runs has answered its request: it may begin the client's next one."""
    line = _lines.get(asyncio.get_running_loop())
    if line is not None:
        line.drop_number()


class _Done:
    """An awaitable that is done: to await it costs almost nothing."""

    __await__ = staticmethod(().__iter__)


_DONE: Final[Any] = _Done()


class LoopShare:
    """Measures what holds the loop: one for a request, or for other long work (loop only).

    The work is a coroutine. It awaits `rest` as often as it likes, at points where its data is
    consistent. Then it must look its data up again: others may have changed it.
    """

    __slots__ = ("_end", "_idle", "_last", "_number", "_seconds")

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._number = 0
        self._last = 0
        self._idle = 0.0
        self._begin()

    def _begin(self) -> None:
        """Begin the first share; where others wait it is what a small request takes."""
        seconds = self._seconds
        if _busy and _line() in _busy:
            seconds = min(seconds, FIRST_SECONDS)
        self._end = perf_counter() + seconds

    @property
    def is_over(self) -> bool:
        """Tell whether `rest` would let others be served now."""
        return perf_counter() > self._end

    def rest(self) -> Awaitable[None]:
        """Let others be served if the share is used up; they may change what was looked up."""
        return self.turn() if perf_counter() > self._end else _DONE

    async def turn(self) -> None:
        """Let others be served, and wait for the next share."""
        began = perf_counter()
        line = _line()
        self._number = self._number or line.find_number()
        self._last = await line.wait(self._number, self._last, self._seconds)
        now = perf_counter()
        self._idle += now - began
        self._end = now + self._seconds

    async def wait_for(self, work: Awaitable[T]) -> T:
        """Await work that is not the loop's, such as a disk's: its time begins again behind it.

        Others are served meanwhile, as in `rest`.
        """
        began = perf_counter()
        try:
            return await work
        finally:
            self._idle += perf_counter() - began
            self._begin()

    def pieces(self, rows: Sequence[T]) -> Iterator[Sequence[T]]:
        """Yield the rows in pieces, for work that is cheaper for many rows at once.

        The size of a piece depends on the time that the pieces before have taken; the caller rests
        after each piece. Few rows, or no row, are one piece.
        """
        if len(rows) <= FIRST_PIECE:
            yield rows
            return
        start, count = 0, FIRST_PIECE
        while start < len(rows):
            began = perf_counter() - self._idle
            yield rows[start : start + count]
            took = perf_counter() - self._idle - began
            start += count
            fit = count * self._seconds / _PIECES / max(took, 1e-9)
            count = max(1, min(2 * count, int(fit)))

    def cut(self, rows: Sequence[Any], nested: str) -> Iterator[Sequence[Any]]:
        """Yield the rows in pieces, sized by the elements of an array that each row has.

        A row with many elements is cut, and its parts follow each other; the first may be empty.
        """
        count = sum(1 + len(getattr(row, nested)) for row in rows)
        if count <= FIRST_PIECE:
            yield rows
            return
        number = -1
        elements: Any = ()
        start = 0
        for numbers in self.pieces(range(count)):
            piece: list[Any] = []
            room = len(numbers)
            while room:
                if start == len(elements):
                    number += 1
                    elements, start = getattr(rows[number], nested), 0
                    room -= 1
                some = elements[start : start + room]  # what is left is not copied for each piece
                start += len(some)
                room -= len(some)
                piece.append(rows[number]._replace(**{nested: some}))
            yield piece

    async def each(self, rows: Iterable[T], convert: Callable[[T], Row]) -> list[Row]:
        """Return each row converted, and let others be served in between."""
        converted: list[Row] = []
        for row in rows:
            converted.append(convert(row))
            await self.rest()
        return converted

    async def some(
        self, rows: Sequence[T], convert: Callable[[Sequence[T]], Sequence[Row]]
    ) -> Sequence[Row]:
        """Return the rows converted in pieces; the result of a single piece is not copied."""
        converted: list[Row] = []
        for piece in self.pieces(rows):
            found = convert(piece)
            await self.rest()
            if len(piece) == len(rows):
                return found
            converted += found
        return converted

    async def sort_once(self, texts: Sequence[str]) -> list[str]:
        """Return the texts sorted, each once, and let others be served in between."""
        pieces = []
        for some in self.pieces(texts):
            pieces.append(sorted(some))
            await self.rest()
        ordered: dict[str, None] = {}
        for text in merge(*pieces):
            ordered[text] = None
            await self.rest()
        return list(ordered)

    async def step_through(self, steps: Generator[None, None, T]) -> T:
        """Run a resumable reader or writer of the core to its end and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.rest()

    async def free(self, parts: list[Any]) -> None:
        """Free the parts of a message, and let others be served in between.

        To free a message of 25,000 elements takes as long as to read it.
        """
        for some in self.pieces(range(len(parts))):
            del parts[-len(some) :]
            await self.rest()


def parts_of(message: Any) -> list[Any]:
    """Return the elements of a message's long arrays, to be freed with `LoopShare.free`."""
    parts: list[Any] = []
    for value in message:
        if type(value) is not list:
            continue
        if len(value) > _LONG:
            parts += value
        else:
            for row in value:
                if isinstance(row, tuple):
                    parts += parts_of(row)
    return parts


WIDTH: Final = 16
_LEAST_SECONDS: Final = 0.000_2


async def work_off(
    items: Collection[T], job: Callable[[T], Awaitable[None]], width: int = WIDTH
) -> None:
    """Await ``job`` for every item, at most ``width`` at once; jobs must not raise.

    Others are served in between, even if no job waits for anything.
    """
    left = iter(items)

    async def work() -> None:
        share = LoopShare(max(_LEAST_SECONDS, SECONDS / width))
        for item in left:
            await job(item)
            await share.rest()

    await asyncio.gather(*(work() for _ in range(min(width, len(items)))))
