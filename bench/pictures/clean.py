"""Draws the cleaner's figures: ``python -m bench.pictures.clean LINES.jsonl docs/pictures``.

Three panels of bars, ours and Apache Kafka's with either heap: speed, processor time, and what
small produces wait for meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.clean.interference import BUSY, IDLE
from bench.clean.report import CONTENDERS, Table, read
from bench.clean.sets import SETS
from bench.pictures.svg import Drawing

_PAPER, _INK, _FAINT, _RULE = "#ffffff", "#1f2933", "#616e7c", "#d5dbe1"
_COLOURS = ("#d9662b", "#4f7cac", "#9db8d2")
_WIDTH, _LEFT, _RIGHT, _MARGIN = 880.0, 190.0, 120.0, 24.0
_BAR, _GAP, _HEAD = 13.0, 11.0, 64.0
_LABELS: Final = {
    "A": "A: 16 B key, 100 B value",
    "A-lz4": "A in lz4",
    "A-snappy": "A in snappy",
    "A-zstd": "A in zstd",
    "B": "B: 1 KiB, 10 % stay",
    "C": "C: 1 KiB, 90 % stay",
    "D": "D: keys for 3 maps",
    "E": "E: tombstones",
    "F": "F: transactions",
    IDLE: "nothing to clean",
    BUSY: "cleaning A",
}


class Panel(NamedTuple):
    """Bars of one quantity, divided by ``unit``."""

    title: str
    cases: tuple[str, ...]
    quantity: str
    unit: float
    digits: int


_SETS = tuple(each.name for each in SETS)
PANELS: Final = (
    Panel("million records cleaned a second (more is better)", _SETS, "records/s", 1e6, 2),
    Panel("processor time, µs a record (less is better)", _SETS, "CPU us/record", 1, 2),
    Panel("p99 of 2,000 small produces a second, ms (less)", (IDLE, BUSY), "p99 us", 1e3, 2),
)


def main(lines: Path, folder: Path) -> None:
    """Draw the picture of a file of lines."""
    table = Table(read(lines))
    known = [panel._replace(cases=_known(table, panel)) for panel in PANELS]
    panels = [panel for panel in known if panel.cases]
    heights = [_height(table, panel) for panel in panels]
    drawing = Drawing(
        _WIDTH, _MARGIN + sum(heights) + 30, _PAPER, "Cleaning the same logs: ours and Kafka's"
    )
    _draw_legend(drawing)
    top = _MARGIN + 14
    for panel, height in zip(panels, heights, strict=True):
        _draw_panel(drawing, table, panel, top)
        top += height
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clean.svg").write_text(drawing.svg(), encoding="utf-8")


def _known(table: Table, panel: Panel) -> tuple[str, ...]:
    return tuple(case for case in panel.cases if _bars(table, panel, case))


def _bars(table: Table, panel: Panel, case: str) -> list[tuple[str, float]]:
    """Return the bars of a case: colour and figure."""
    medians = [table.median(case, name, panel.quantity) for name in CONTENDERS]
    return [
        (colour, median / panel.unit)
        for colour, median in zip(_COLOURS, medians, strict=True)
        if median is not None
    ]


def _height(table: Table, panel: Panel) -> float:
    bars = sum(len(_bars(table, panel, case)) for case in panel.cases)
    return _HEAD + bars * _BAR + len(panel.cases) * _GAP


def _draw_legend(drawing: Drawing) -> None:
    x = _MARGIN
    for colour, name in zip(_COLOURS, CONTENDERS, strict=True):
        words = name.replace("kafka", "Apache Kafka 4.3.1, heap")
        drawing.box(x, _MARGIN - 11, 12, 12, colour)
        drawing.text(x + 18, _MARGIN, words, _INK)
        x += 18 + 8.2 * len(words) + 26


def _draw_panel(drawing: Drawing, table: Table, panel: Panel, top: float) -> None:
    y = top + 32
    drawing.text(_MARGIN, y, panel.title, _INK, size=15, is_bold=True)
    y += 16
    most = max(figure for case in panel.cases for _, figure in _bars(table, panel, case))
    room = _WIDTH - _LEFT - _RIGHT - _MARGIN
    bottom = top + _height(table, panel) - 8
    drawing.line(_MARGIN + _LEFT - 1, y - 4, bottom, _RULE)
    for case in panel.cases:
        bars = _bars(table, panel, case)
        middle = y + len(bars) * _BAR / 2 + 4
        drawing.text(_MARGIN + _LEFT - 10, middle, _LABELS[case], _INK, anchor="end", size=12)
        for colour, figure in bars:
            drawing.box(_MARGIN + _LEFT, y, max(1.0, room * figure / most), _BAR - 2, colour)
            end = _MARGIN + _LEFT + room * figure / most
            drawing.text(end + 6, y + _BAR - 4, f"{figure:.{panel.digits}f}", _FAINT, size=11)
            y += _BAR
        y += _GAP


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
