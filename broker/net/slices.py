"""Large requests are handled in pieces, with other clients served in between.

A row of `broker.api` names the array that may be cut, and the array in each of its rows that may be
cut, too. The handler answers row for row, in their order. So the answers of the pieces can be
joined to one, and a row that was cut in two becomes one again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.broker.process.loop_share import LoopShare

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

ELEMENTS: Final = 200
"""How many elements a piece has. Every handler works them off in a millisecond at most."""

BODY_BYTES: Final = 2048
"""The elements of a request that is not larger are not counted."""


class Slices(NamedTuple):
    """The arrays of a request that may be cut, and the arrays of its answer that match them.

    If a handler joins the answers itself, those of the answer are left out. ``nested`` and
    ``answer_nested`` are the arrays inside of the rows; without their names a row is never cut.
    """

    rows: str
    answer_rows: str = ""
    nested: str = ""
    answer_nested: str = ""

    def is_large(self, request: Any) -> bool:
        """Tell whether a request is to be handled in pieces."""
        rows = getattr(request, self.rows) or ()
        count = len(rows)
        if self.nested and count <= ELEMENTS:
            count += sum(len(getattr(row, self.nested) or ()) for row in rows)
        return count > ELEMENTS

    def cut(self, request: Any) -> Iterator[tuple[Any, bool]]:
        """Yield a request for each piece, and whether it continues the last row before it."""
        piece: list[Any] = []
        room = ELEMENTS
        goes_on = False
        for row in getattr(request, self.rows):
            room -= 1
            nested = (getattr(row, self.nested) or ()) if self.nested else ()
            start = 0
            while len(nested) - start > room:
                part = nested[start : start + max(room, 0)]
                yield self._piece(request, [*piece, row._replace(**{self.nested: part})]), goes_on
                start += len(part)
                piece, room, goes_on = [], ELEMENTS, True
            piece.append(row._replace(**{self.nested: nested[start:]}) if start else row)
            room -= len(nested) - start
            if room <= 0:
                yield self._piece(request, piece), goes_on
                piece, room, goes_on = [], ELEMENTS, False
        if piece:
            yield self._piece(request, piece), goes_on

    def _piece(self, request: Any, rows: list[Any]) -> Any:
        return request._replace(**{self.rows: rows})

    def join(self, rows: list[Any], answered: list[Any], *, goes_on: bool) -> None:
        """Add the rows of a piece's answer to those of the pieces before it."""
        if goes_on:
            first, *answered = answered
            nested = getattr(rows[-1], self.answer_nested)
            if not isinstance(nested, list):  # a grid
                nested = list(nested)
                rows[-1] = rows[-1]._replace(**{self.answer_nested: nested})
            # A row that was cut is answered by a list of its own.
            nested.extend(getattr(first, self.answer_nested))
        rows.extend(answered)


async def handle_in_slices(
    slices: Slices,
    handler: Callable[[Any, Any], Any | Coroutine[Any, Any, Any]],
    context: Any,
    request: Any,
) -> Any:
    """Handle a request in pieces, and return the answer to the whole."""
    share = LoopShare()
    rows: list[Any] = []
    answer: Any = None
    for piece, goes_on in slices.cut(request):
        await share.rest()
        answer = handler(context, piece)
        if not isinstance(answer, tuple):
            answer = await answer
        slices.join(rows, getattr(answer, slices.answer_rows), goes_on=goes_on)
    return answer._replace(**{slices.answer_rows: rows})
