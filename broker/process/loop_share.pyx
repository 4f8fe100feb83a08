"""How long one request may have the loop before others are served.

Requests that have used up their share wait in one line, and in each turn of the loop all of them
together get one share. So a hundred large requests delay others no longer than one. The few
requests that began first take turns, and the others wait until one of these is done. So only few
requests are half done at a time, which is when they use the most memory.
"""

import asyncio
from bisect import insort
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

cimport cython

from siltstone.storage.clock cimport perf_counter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Sequence
    from typing import TypeVar

    _T = TypeVar("_T")
    _Row = TypeVar("_Row")

SECONDS = 0.002
_TOGETHER_SECONDS = 4 * SECONDS
"""The sum of the shares of the requests that take turns: four large ones, or many small ones."""

FIRST_SECONDS = SECONDS / 16  # type: Final[float]
"""How long a new request may run while others wait: most are done by then and never wait."""

FIRST_PIECE = 200
"""How many elements the first piece has; later ones have as many as fit into part of a share."""
cdef int _PIECES = 8
"""How many pieces a share is meant to have."""
cdef Py_ssize_t _LONG = 100
"""An array of more elements is freed in pieces."""


@cython.final
cdef class _Place:
    """A place in the line: after all requests that began earlier.

    ``last`` is the turn in which the request last ran.
    """

    cdef readonly long long number, last
    cdef object turn  # a future
    cdef double seconds

    def __init__(self, long long number, long long last, object turn, double seconds):
        self.number = number
        self.last = last
        self.turn = turn
        self.seconds = seconds


@cython.final
cdef class _Line:
    """The line of requests that wait for a share of one loop, in the order of their beginnings."""

    cdef long long _begun, _turns
    cdef object _numbers
    cdef list _waiting

    def __init__(self):
        self._begun = 0
        self._numbers = WeakKeyDictionary()  # task -> its number
        self._turns = 0
        self._waiting = []

    def find_number(self):
        """Return the running task's number in the line, the same for all shares of a request.

        A request that runs without a task gets a number, which its later task keeps.
        """
        task = asyncio.current_task()
        number = None if task is None else self._numbers.get(task)
        if number is None:
            self._begun += 1
            number = self._begun
            if task is not None:
                self._numbers[task] = number
        return number

    def drop_number(self):
        """Give up the running task's number: its next request comes after all that have begun."""
        task = asyncio.current_task() if self._numbers else None
        if task is not None:
            self._numbers.pop(task, None)

    async def wait(self, long long number, long long last, double seconds):
        """Wait in the line for a share of ``seconds``; return the number of the loop's turn."""
        cdef _Place place
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

    def _go_on(self):
        """Resume the first ones, as many as fit into one share."""
        cdef double room = SECONDS
        cdef _Place place
        self._turns += 1
        for place in sorted(self._find_first(), key=_last_of):
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

    cdef list _find_first(self):
        """Return the places of the requests that take turns."""
        cdef double seconds = 0
        cdef Py_ssize_t count = 0
        cdef _Place place
        for place in self._waiting:
            if seconds >= _TOGETHER_SECONDS:
                break
            seconds += place.seconds
            count += 1
        return self._waiting[:count]


_number_of = attrgetter("number")
_last_of = attrgetter("last")
_lines = {}  # loop -> its line
_busy = set()  # type: Final[set[Any]]
"""The lines that are not empty: most requests need not look for theirs."""


cdef _Line _find_line():
    loop = asyncio.get_running_loop()
    line = _lines.get(loop)
    if line is None:
        for each in [each for each in _lines if each.is_closed()]:
            del _lines[each]
        line = _lines[loop] = _Line()
    return line


def end_request():
    """Note that the task that runs has answered its request: it may begin the client's next one."""
    cdef _Line line = _lines.get(asyncio.get_running_loop())
    if line is not None:
        line.drop_number()


@cython.final
cdef class _Done:
    """An awaitable that is done: to await it costs almost nothing."""

    def __await__(self):
        return self

    def __next__(self):
        raise StopIteration


cdef _Done _DONE = _Done()


@cython.freelist(8)
cdef class LoopShare:
    """Measures what holds the loop: one for a request, or for other long work (loop only).

    The work is a coroutine. It awaits `rest` as often as it likes, at points where its data is
    consistent. Then it must look its data up again: others may have changed it.
    """

    cdef double _end, _idle, _seconds
    cdef long long _last, _number

    def __init__(self, double seconds=SECONDS):
        self._seconds = seconds
        self._begin()

    cdef int _begin(self) except -1:
        """Begin the first share; while others wait, it is only as long as most requests need."""
        cdef double seconds = self._seconds
        if _busy and _find_line() in _busy:
            seconds = min(seconds, FIRST_SECONDS)
        self._end = perf_counter() + seconds
        return 0

    @property
    def is_over(self) -> bool:
        """Tell whether the share is used up, so that `rest` would let others be served."""
        return self._is_over()

    cdef bint _is_over(self) noexcept:
        """Tell the same without a call of Python.

        To await `turn` only then costs less than to await `rest`, which is mostly done already.
        """
        return perf_counter() > self._end

    cpdef rest(self):  # -> Awaitable[None]
        """Let others be served if the share is used up; what the caller has read may change."""
        return self.turn() if self._is_over() else _DONE

    async def turn(self):
        """Let others be served, and wait for the next share."""
        cdef double began = perf_counter()
        cdef double now
        cdef _Line line = _find_line()
        self._number = self._number or line.find_number()
        self._last = await line.wait(self._number, self._last, self._seconds)
        now = perf_counter()
        self._idle += now - began
        self._end = now + self._seconds

    async def wait_for(self, work: Awaitable[_T]) -> _T:
        """Await work outside of the loop, such as a disk's; then the share begins again.

        Others are served meanwhile, as in `rest`.
        """
        cdef double began = perf_counter()
        try:
            return await work
        finally:
            self._idle += perf_counter() - began
            self._begin()

    def pieces(self, rows: Sequence[_T]) -> Iterable[Sequence[_T]]:
        """Return the rows in pieces, for work that is cheaper for many rows at once.

        The size of a piece depends on the time that the pieces before have taken; the caller rests
        after each piece. Few rows, or no row, are one piece.
        """
        return (rows,) if len(rows) <= FIRST_PIECE else self._cut(rows)

    def _cut(self, rows):
        cdef Py_ssize_t start = 0, count = FIRST_PIECE, size = len(rows)
        cdef double began, took
        while start < size:
            began = perf_counter() - self._idle
            yield rows[start : start + count]
            took = perf_counter() - self._idle - began
            start += count
            count = max(1, min(2 * count, <Py_ssize_t>(count * self._seconds / _PIECES / max(took, 1e-9))))

    def cut(self, rows: Sequence[Any], str nested) -> Iterable[Sequence[Any]]:
        """Return the rows in pieces, sized by the elements of an array that each row has.

        A row with many elements is cut, and its parts follow each other; the first may be empty.
        """
        cdef Py_ssize_t count = 0
        for row in rows:
            count += 1 + len(getattr(row, nested))
        return (rows,) if count <= FIRST_PIECE else self._cut_nested(rows, nested, count)

    def _cut_nested(self, rows, str nested, Py_ssize_t count):
        cdef Py_ssize_t number = -1, start = 0, room
        cdef list piece
        elements = ()
        for numbers in self.pieces(range(count)):
            piece = []
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

    async def each(self, rows: Iterable[_T], convert: Callable[[_T], _Row]) -> list[_Row]:
        """Return each row converted, and let others be served in between."""
        cdef list converted = []
        for row in rows:
            converted.append(convert(row))
            if self._is_over():
                await self.turn()
        return converted

    async def some(
        self, rows: Sequence[_T], convert: Callable[..., Sequence[_Row]], *before: Any
    ) -> Sequence[_Row]:
        """Return the rows converted in pieces; the result of a single piece is not copied.

        ``convert`` gets ``before`` and a piece.
        """
        cdef list converted = []
        if len(rows) <= FIRST_PIECE:
            found = convert(*before, rows)
            if self._is_over():
                await self.turn()
            return found
        for piece in self._cut(rows):
            converted += convert(*before, piece)
            if self._is_over():
                await self.turn()
        return converted

    async def count(
        self, rows: Sequence[_T], find_key: Callable[[_T], Any] | None = None
    ) -> dict[Any, int]:
        """Return how often each row comes, or each key of rows; others are served in between."""
        cdef dict counts = {}
        for piece in self.pieces(rows):
            for row in piece:
                key = row if find_key is None else find_key(row)
                counts[key] = counts.get(key, 0) + 1
            if self._is_over():
                await self.turn()
        return counts

    async def sort_once(self, rows: Sequence[_T]) -> list[_T]:
        """Return the rows sorted, each once, and let others be served in between."""
        cdef list pieces = []
        cdef dict ordered = {}
        for some in self.pieces(rows):
            pieces.append(sorted(some))
            await self.rest()
        for row in merge(*pieces):
            ordered[row] = None
            await self.rest()
        return list(ordered)

    async def step_through(self, steps: Generator[None, None, _T]) -> _T:
        """Run a resumable reader or writer of the core to its end and return its result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            await self.rest()

    async def free(self, list parts: list[Any]):
        """Free the parts of a message, and let others be served in between.

        To free a message of 25,000 elements takes as long as to read it.
        """
        for some in self.pieces(range(len(parts))):
            del parts[-len(some) :]
            await self.rest()


def parts_of(message: Any) -> list[Any]:
    """Return the elements of a message's long arrays, to be freed with `LoopShare.free`."""
    cdef list parts = []
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


WIDTH = 16
cdef double _LEAST_SECONDS = 0.000_2


async def work_off(items: Collection[_T], job: Callable[[_T], Awaitable[None]], width: int = WIDTH):
    """Await ``job`` for every item, at most ``width`` at once; jobs must not raise.

    Others are served in between, even if no job waits for anything.
    """
    left = iter(items)
    workers = min(width, len(items))

    async def work():
        share = LoopShare(max(_LEAST_SECONDS, SECONDS / width))
        for item in left:
            await job(item)
            await share.rest()

    if workers == 1:  # it needs no task
        await work()
    else:
        await asyncio.gather(*[work() for _ in range(workers)])
