"""The free room on the disk of a log directory, and when it is too little for produces."""

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

_BACK_DIVISOR: Final = 20  # a level ends when there is a twentieth more room than where it began


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
    """The free bytes, the reserve, and how fast room is used. One thread notes, any thread reads.

    A level ends with a little more room than it begins with, so that the level of a disk at the
    limit does not change back and forth.
    """

    __slots__ = ("_samples", "free_bytes", "level", "reserve_bytes", "seconds_left", "total_bytes")

    def __init__(self) -> None:
        self.free_bytes = -1  # -1 until it is measured
        self.total_bytes = -1
        self.reserve_bytes = 0
        self.level = Level.PLENTY
        self.seconds_left: float | None = None  # until only the reserve is left; None: no forecast
        self._samples: deque[_Sample] = deque(maxlen=SAMPLES)

    @property
    def bytes_above(self) -> int:
        """The bytes that may be written until only the reserve is left."""
        return self.free_bytes - self.reserve_bytes

    def measure(self, path: Path, reserve_bytes: int, now: float, written: int) -> None:
        """Measure the disk; ``now`` is monotonic, ``written`` the bytes until then. Blocks.

        Raises:
            OSError: The system does not tell the free bytes.
        """
        self.note(*files.find_room(path), reserve_bytes, now, written)

    def look(self, path: Path) -> None:
        """Measure only the free bytes; any thread may call.

        Raises:
            OSError: The system does not tell the free bytes.
        """
        free_bytes, total_bytes = files.find_room(path)
        self._judge(free_bytes, total_bytes, self.reserve_bytes)

    def note(
        self, free_bytes: int, total_bytes: int, reserve_bytes: int, now: float, written: int
    ) -> None:
        """Note the free bytes at a monotonic time, find the level, and forecast."""
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
        """Return in how many seconds only the reserve is left, at the rate of the last minutes.

        Returns None if no room is used, if too little time has passed, or if other programs use the
        room.
        """
        if not self._samples:
            return None
        first = self._samples[0]
        gone, seconds = first.free_bytes - self.free_bytes, now - first.seconds
        ours = written - first.written
        if gone <= 0 or seconds < LEAST_SECONDS or ours * _LEAST_SHARE < gone:
            return None
        return max(0, self.bytes_above) * seconds / gone
