"""The room on the disk below a log directory, and when it is too little for produces."""

import enum
from collections import deque
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.storage import files

SAMPLE_SECONDS: Final = 10.0
SAMPLES: Final = 60
"""So many samples, one every ten seconds, are looked back to tell how fast room goes."""
LEAST_SECONDS: Final = 180.0
"""A shorter time says nothing of the hours to come."""
_LEAST_SHARE: Final = 10
"""This part of the room that went must be ours, else other programs fill the disk, or empty it."""

_BACK_DIVISOR: Final = 20  # a level is left again with a twentieth more room than it begins at


class Level(enum.IntEnum):
    """The meaning of a directory's room for produces."""

    PLENTY = 0
    SCARCE = 1
    """Less than twice the reserve is free: a warning."""
    SHORT = 2
    """Less than the reserve is free: produces are refused."""


class _Sample(NamedTuple):
    seconds: float
    free_bytes: int
    written: int


class Room:
    """Free bytes, the reserve, and how fast they go. One thread notes, any reads.

    A level is left a little above where it begins, so that a disk at the edge does not go back and
    forth.
    """

    __slots__ = ("_samples", "free_bytes", "level", "reserve_bytes", "seconds_left", "total_bytes")

    def __init__(self) -> None:
        self.free_bytes = -1  # -1: not measured yet
        self.total_bytes = -1
        self.reserve_bytes = 0
        self.level = Level.PLENTY
        self.seconds_left: float | None = None  # until only the reserve is left; None: it does not
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    @property
    def bytes_above(self) -> int:
        """The bytes that may be written until only the reserve is left."""
        return self.free_bytes - self.reserve_bytes

    def measure(self, path: Path, reserve_bytes: int, now: float, written: int) -> None:
        """Look at the disk at a monotonic time, when so many bytes were written. Blocks.

        Raises:
            OSError: The disk does not say.
        """
        self.note(*files.find_room(path), reserve_bytes, now, written)

    def look(self, path: Path) -> None:
        """Look only at what is free; may be called by any thread.

        Raises:
            OSError: The disk does not say.
        """
        free_bytes, total_bytes = files.find_room(path)
        self._judge(free_bytes, total_bytes, self.reserve_bytes)

    def note(
        self, free_bytes: int, total_bytes: int, reserve_bytes: int, now: float, written: int
    ) -> None:
        """Take note of what is free at a monotonic time, judge it, and look ahead."""
        self._judge(free_bytes, total_bytes, reserve_bytes)
        samples = self._samples
        self.seconds_left = self._forecast(now, written)
        if not samples or now - samples[-1].seconds >= SAMPLE_SECONDS:
            samples.append(_Sample(now, free_bytes, written))

    def _judge(self, free_bytes: int, total_bytes: int, reserve_bytes: int) -> None:
        self.free_bytes = free_bytes
        self.total_bytes = total_bytes
        self.reserve_bytes = reserve_bytes
        self.level = next(
            (
                level
                for level, limit in (
                    (Level.SHORT, reserve_bytes),
                    (Level.SCARCE, 2 * reserve_bytes),
                )
                if free_bytes < limit + (limit // _BACK_DIVISOR if self.level >= level else 0)
            ),
            Level.PLENTY,
        )

    def _forecast(self, now: float, written: int) -> float | None:
        """Return when only the reserve is left, if room is used as in the last minutes.

        None if it is not used, if too little time has passed, and if other programs use it.
        """
        if not self._samples:
            return None
        first = self._samples[0]
        gone, seconds = first.free_bytes - self.free_bytes, now - first.seconds
        ours = written - first.written
        if gone <= 0 or seconds < LEAST_SECONDS or ours * _LEAST_SHARE < gone:
            return None
        return max(0, self.bytes_above) * seconds / gone
