"""Draws what ``make demo`` shows in a terminal: ``python -m bench.pictures.demo docs/pictures``."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from bench.pictures.svg import Drawing

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS: Final = 108
_ROOT = Path(__file__).parents[2]
_CHARACTER, _LINE, _MARGIN = 7.6, 18.0, 16.0
_PAPER, _INK, _FAINT = "#0f1419", "#c9d1d9", "#7d8794"
_COLOURS = {"36": "#56c7d6", "32": "#6fd08c", "31": "#f07178"}
_CODE = re.compile(r"\x1b\[([\d;]*)m")


class Style(NamedTuple):
    """How a piece of text looks."""

    colour: str = _INK
    is_bold: bool = False


Letter: TypeAlias = tuple[str, Style]


class Piece(NamedTuple):
    """Text of one style, from a column of its line on."""

    column: int
    words: str
    style: Style


def main(folder: Path) -> None:
    """Play the demonstration in a terminal of a fixed width, and draw the terminal."""
    said = _play([sys.executable, "-m", "examples.demo"])
    picture = draw(said, "make demo: a git history, compacted")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "demo.svg").write_text(picture, encoding="utf-8")


def draw(said: str, title: str) -> str:
    """Return a picture of what a program printed."""
    lines = [row for line in said.strip("\r\n").splitlines() for row in rows_of(line)]
    drawing = Drawing(
        2 * _MARGIN + COLUMNS * _CHARACTER, 2 * _MARGIN + len(lines) * _LINE, _PAPER, title
    )
    for number, pieces in enumerate(lines):
        for piece in pieces:
            drawing.text(
                _MARGIN + piece.column * _CHARACTER,
                _MARGIN + (number + 0.75) * _LINE,
                piece.words,
                piece.style.colour,
                width=len(piece.words) * _CHARACTER,
                is_bold=piece.style.is_bold,
            )
    return drawing.svg()


def rows_of(line: str) -> list[list[Piece]]:
    """Return the rows that a line takes when it is broken between words, each as its pieces."""
    letters = list(_letters(line.rstrip("\r")))
    rows = []
    while len(letters) > COLUMNS:
        blanks = [at for at in range(1, COLUMNS + 1) if letters[at][0] == " "]
        end = blanks[-1] if blanks else COLUMNS
        rows.append(letters[:end])
        letters = letters[end + bool(blanks) :]
    return [list(_pieces(row)) for row in (*rows, letters)]


def _letters(line: str) -> Iterator[Letter]:
    style = Style()
    parts = _CODE.split(line)
    for text, code in zip(parts[0::2], [*parts[1::2], ""], strict=True):
        yield from ((letter, style) for letter in text)
        style = _changed(style, code)


def _pieces(row: list[Letter]) -> Iterator[Piece]:
    column = 0
    for style, letters in groupby(row, key=itemgetter(1)):
        words = "".join(letter for letter, _ in letters)
        if words.strip():
            yield Piece(column, words, style)
        column += len(words)


def _changed(style: Style, code: str) -> Style:
    for each in code.split(";"):
        if each in {"", "0"}:
            style = Style()
        elif each == "1":
            style = style._replace(is_bold=True)
        elif each == "2":
            style = style._replace(colour=_FAINT)
        else:
            style = style._replace(colour=_COLOURS.get(each, _INK))
    return style


def _play(command: list[str]) -> str:
    """Run a command in a terminal of its own and return what it printed."""
    ours, theirs = pty.openpty()
    environ = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=_ROOT, env=environ) as process:
        os.close(theirs)
        said = b"".join(iter(lambda: _read(ours), b""))
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended {process.returncode}:\n{said.decode()}")
    return said.decode()


def _read(terminal: int) -> bytes:
    """Return what comes next; a terminal that was closed fails instead of ending."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


if __name__ == "__main__":
    main(Path(sys.argv[1]))
