"""Limits the log lines of one kind in a second, so that strangers cannot fill a disk."""

import logging
import math
from collections.abc import Callable
from typing import Final

MAX_PER_SECOND: Final = 20


class BoundedLines:
    """Counts the lines of one kind; a second begins with its first line."""

    def __init__(self, monotonic: Callable[[], float], per_second: int = MAX_PER_SECOND) -> None:
        self._monotonic = monotonic
        self._per_second = per_second
        self._began = -math.inf  # when the current second began
        self._lines = 0
        self._silent = 0

    def takes(self) -> bool:
        """Return whether a line may be written; if not, count it."""
        now = self._monotonic()
        if now >= self._began + 1.0:
            self._began = now
            self._lines = 0
        if self._lines >= self._per_second:
            self._silent += 1
            return False
        self._lines += 1
        return True

    def warn(self, logger: logging.Logger, line: str, *facts: object) -> None:
        """Log a warning with the number of lines that were left out before it, or leave it out."""
        if self.takes():
            whole = f"{line} others=%d"
            logger.warning(whole, *facts, self.others())

    def others(self) -> int:
        """Return how many lines were left out since the last one."""
        silent, self._silent = self._silent, 0
        return silent
