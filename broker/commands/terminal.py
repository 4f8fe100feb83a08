"""The output of commands: lines as wide as the terminal, tables, JSON, and why something failed.

Without a terminal lines are not wrapped, and nothing has a colour.
"""

import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from siltstone.protocol.errors import visible

_NARROWEST = 20
_GAP = "  "
_NUMBER = re.compile(r"-|-?[0-9]+(\.[0-9]+)?( [KMGT]?i?B)?")
_COLOURS = {"red": 31, "green": 32, "yellow": 33, "blue": 36, "dim": 2, "bold": 1}


class CommandFailed(Exception):  # noqa: N818  # an answer, not a fault of ours
    """A command cannot do what it was asked: the text says why, ``advice`` also what to do.

    The table of commands prints ``advice``.
    """

    @property
    def advice(self) -> str:
        """The sentence that a failed command prints."""
        return str(self)


class Progress:
    """A line on stderr that says once a second how far a command is, if stderr is a terminal."""

    def __init__(self) -> None:
        from siltstone.storage.clock import Clock  # noqa: PLC0415  # compiled: not yet, perhaps

        self._clock = Clock()
        self._told = self._clock.monotonic()

    def show(self, words: str) -> None:
        """Show how far the command is now, unless that was shown less than a second ago."""
        now = self._clock.monotonic()
        if now - self._told >= 1:
            self._told = now
            self._write(words)

    def clear(self) -> None:
        """Erase the line."""
        self._write("")

    def _write(self, words: str) -> None:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{words}\033[K")
            sys.stderr.flush()


def find_width() -> int | None:
    """Return the columns of the terminal; None if stdout is a file and COLUMNS is not set."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    with suppress(OSError, ValueError, AttributeError):  # no terminal, or no stdout at all
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def wrap(line: str, width: int | None, hang: int = 4) -> list[str]:
    """Return a line as several that fit; all but the first are indented by ``hang`` columns.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    if width is None or len(line) <= width:
        return [line]
    from textwrap import wrap as wrap_words  # noqa: PLC0415  # only where it is needed

    hang = min(hang, max(0, width - _NARROWEST))
    # The first words may be a column or an indent: their blanks are kept.
    begun, rest = line[:hang], line[hang:]
    words = wrap_words(
        rest, max(_NARROWEST, width - hang), break_long_words=False, break_on_hyphens=False
    )
    if not words or not begun.endswith(" "):
        indent = " " * hang
        return wrap_words(
            line,
            max(_NARROWEST, width),
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return [begun + words[0], *(" " * hang + each for each in words[1:])]


def write_lines(lines: Iterable[str]) -> None:
    """Print lines for a person, with control characters spelled out."""
    sys.stdout.writelines(f"{visible(line)}\n" for line in lines)


def write_wrapped(lines: Iterable[str]) -> None:
    """Print lines for a person, no wider than the terminal."""
    width = find_width()
    for line in lines:
        sys.stdout.writelines(f"{each}\n" for each in wrap(visible(line), width))


def complain(sentence: str) -> None:
    """Print on stderr what is wrong, with control characters spelled out."""
    sys.stderr.write(f"{visible(sentence)}\n")


def write_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print columns for a person: as wide as their cells, with numbers and sizes right-aligned.

    If the terminal is too narrow, a name that is longer than its column stays whole, and the other
    cells of its row follow below.
    """
    texts = [[visible(str(each)) for each in row] for row in rows]
    if not texts:
        sys.stdout.write("nothing found\n")
        return
    columns = list(zip(headings, *texts, strict=True))
    is_right = [all(map(_NUMBER.fullmatch, column[1:])) for column in columns]
    widths = [max(map(len, column)) for column in columns]
    _narrow(widths, is_right, find_width())
    for number, row in enumerate([list(headings), *texts]):
        for line in _row_lines(row, widths, is_right):
            sys.stdout.write((paint(line, "bold") if number == 0 else line) + "\n")


def _narrow(widths: list[int], is_right: Sequence[bool], width: int | None) -> None:
    """Shrink the widest columns of words until a line fits."""
    words = [number for number, right in enumerate(is_right) if not right]
    if width is None or not words:
        return
    over = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while over > 0:
        widest = max(words, key=widths.__getitem__)
        taken = min(over, widths[widest] - _NARROWEST)
        if taken <= 0:
            return
        widths[widest] -= taken
        over -= taken


def _row_lines(
    row: Sequence[str], widths: Sequence[int], is_right: Sequence[bool]
) -> Iterator[str]:
    line, start = "", 0
    for each, width, right in zip(row, widths, is_right, strict=True):
        if len(line) > start:  # the text before is longer than its column
            yield line.rstrip()
            line = ""
        line = line.ljust(start) + (each.rjust(width) if right else each.ljust(width)) + _GAP
        start += width + len(_GAP)
    yield line.rstrip()


def has_colours() -> bool:
    """Tell whether stdout is a terminal that shows colours, and ``NO_COLOR`` is not set."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    with suppress(ValueError, AttributeError):  # stdout is closed or missing
        return sys.stdout.isatty()
    return False


def paint(text: str, colour: str) -> str:
    """Return text in a colour, if stdout shows colours."""
    return f"\033[{_COLOURS[colour]}m{text}\033[0m" if has_colours() else text


def write_json(value: object) -> None:
    """Print a value for a program."""
    sys.stdout.write(json.dumps(value, indent=2) + "\n")


def fail(sentence: str) -> int:
    """Print why a command failed, and return its exit code."""
    complain(f"siltstone: {sentence}")
    return 1
