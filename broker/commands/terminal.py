"""How wide lines may be: as wide as the terminal, or as long as they are where there is none."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_NARROWEST = 20


def find_width() -> int | None:
    """Return the columns of the terminal that stdout is; None if it is none and nobody says."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    with suppress(OSError, ValueError, AttributeError):  # no terminal, or no stdout at all
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    return None


def wrap(line: str, width: int | None, hang: int = 4) -> list[str]:
    """Return a line as several that fit; those after the first begin ``hang`` columns in.

    A word that is longer than a line stays whole, so that it can be copied.
    """
    if width is None or len(line) <= width:
        return [line]
    from textwrap import wrap as wrap_words  # noqa: PLC0415  # only where it is needed

    hang = min(hang, max(0, width - _NARROWEST))
    # The first words may be a column or an indent: their blanks are kept.
    begun, rest = line[:hang], line[hang:]
    words = wrap_words(
        rest,
        max(_NARROWEST, width - hang),
        break_long_words=False,
        break_on_hyphens=False,
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


def write_wrapped(lines: Iterable[str], hang: int = 4) -> None:
    """Print lines for a person."""
    width = find_width()
    for line in lines:
        sys.stdout.writelines(f"{each}\n" for each in wrap(line, width, hang))
