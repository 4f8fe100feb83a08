"""How many lines of a kind are written in a second: what strangers cause must not fill a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PER_SECOND: Final = 20


class BoundedLines:
    """Counts the lines of one kind."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._second = -1
        self._lines = 0
        self._silent = 0

    def takes(self) -> bool:
        """Return whether there is room for a line; else it is counted."""
        second = int(self._monotonic())
        if second != self._second:
            self._second = second
            self._lines = 0
        if self._lines >= MAX_PER_SECOND:
            self._silent += 1
            return False
        self._lines += 1
        return True

    def others(self) -> int:
        """Return how many were not told of since the last line."""
        silent, self._silent = self._silent, 0
        return silent
