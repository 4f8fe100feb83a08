"""Shows how far a job is, on stderr: one line on a terminal, plain lines elsewhere.

It counts the bytes of splits that are done, since offsets do not measure a compacted log.
"""

import sys

from siltstone.storage.clock import Clock

_REDRAW_SECONDS = 0.2
_LINE_SECONDS = 5.0
_KIB = 1024


class Progress:
    """The progress of one stage: bytes and splits done of all (driver only)."""

    def __init__(self, name: str, total_bytes: int, total_splits: int) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._total_splits = total_splits
        self._stream = sys.stderr
        self._is_terminal = self._stream.isatty()
        self._clock = Clock()
        self._began = self._clock.monotonic()
        self._shown = self._began
        self.bytes_done = 0
        self.splits_done = 0

    def add(self, size: int, splits: int = 1) -> None:
        """Count splits that are done, and show it if it is time."""
        self.bytes_done += size
        self.splits_done += splits
        pause = _REDRAW_SECONDS if self._is_terminal else _LINE_SECONDS
        now = self._clock.monotonic()
        if now - self._shown >= pause:
            self._shown = now
            self._show()

    def end(self) -> None:
        """Show the last line, and leave it."""
        self._show()
        if self._is_terminal:
            self._stream.write("\n")
        self._stream.flush()

    def line(self) -> str:
        """Return how far it is, in words."""
        seconds = self._clock.monotonic() - self._began
        rate = self.bytes_done / seconds if seconds else 0.0
        words = [
            f"{self._name}: {size(self.bytes_done)} of {size(self._total_bytes)}",
            f"{size(rate)}/s",
            f"{self.splits_done} of {self._total_splits} splits",
        ]
        if rate and self.bytes_done < self._total_bytes:
            words.append(f"{seconds_text((self._total_bytes - self.bytes_done) / rate)} left")
        return ", ".join(words)

    def _show(self) -> None:
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{self.line()}")
        else:
            self._stream.write(f"{self.line()}\n")
        self._stream.flush()


def counted(count: int, noun: str) -> str:
    """Return a number of things for a person: 1 fault, 2,000 records."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def size(count: float) -> str:
    """Return a number of bytes for a person."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _KIB:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KIB
    return f"{count:.1f} TiB"


def seconds_text(seconds: float) -> str:
    """Return a time span for a person."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def passed_over_text(count: int) -> str:
    """Return the words of a summary about bad batches that were left out, empty without any."""
    if not count:
        return ""
    return f"; left out {counted(count, 'damaged place')} (onCorrupt=skip)"
