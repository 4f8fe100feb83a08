"""Panels of bars, one under the other, with a legend on top."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pictures.svg import Drawing

if TYPE_CHECKING:
    from collections.abc import Sequence

COLOURS: Final = ("#d9662b", "#4f7cac", "#9db8d2")
"""Of the first, second and third contender."""

_PAPER, _INK, _FAINT, _RULE = "#ffffff", "#1f2933", "#616e7c", "#d5dbe1"
_WIDTH, _LEFT, _RIGHT, _MARGIN = 880.0, 190.0, 120.0, 24.0
_BAR, _GAP, _HEAD = 13.0, 11.0, 64.0


class Group(NamedTuple):
    """A case: its name and the bars of it, colour and figure."""

    label: str
    bars: Sequence[tuple[str, float]]


class Panel(NamedTuple):
    """Cases that are compared by one quantity, written with so many digits."""

    title: str
    digits: int
    groups: Sequence[Group]


def draw(title: str, legend: Sequence[str], panels: Sequence[Panel]) -> str:
    """Return the picture as SVG; panels without a case are left out."""
    shown = [panel for panel in panels if panel.groups]
    height = _MARGIN + sum(map(_height, shown)) + 30
    drawing = Drawing(_WIDTH, height, _PAPER, title)
    x = _MARGIN
    for colour, words in zip(COLOURS, legend, strict=False):
        drawing.box(x, _MARGIN - 11, 12, 12, colour)
        drawing.text(x + 18, _MARGIN, words, _INK)
        x += 18 + 8.2 * len(words) + 26
    top = _MARGIN + 14
    for panel in shown:
        _draw_panel(drawing, panel, top)
        top += _height(panel)
    return drawing.svg()


def _height(panel: Panel) -> float:
    return _HEAD + sum(len(group.bars) * _BAR + _GAP for group in panel.groups)


def _draw_panel(drawing: Drawing, panel: Panel, top: float) -> None:
    y = top + 32
    drawing.text(_MARGIN, y, panel.title, _INK, size=15, is_bold=True)
    y += 16
    most = max(figure for group in panel.groups for _, figure in group.bars)
    room = _WIDTH - _LEFT - _RIGHT - _MARGIN
    drawing.line(_MARGIN + _LEFT - 1, y - 4, top + _height(panel) - 8, _RULE)
    for group in panel.groups:
        middle = y + len(group.bars) * _BAR / 2 + 4
        drawing.text(_MARGIN + _LEFT - 10, middle, group.label, _INK, anchor="end", size=12)
        for colour, figure in group.bars:
            end = _MARGIN + _LEFT + room * figure / most
            drawing.box(_MARGIN + _LEFT, y, max(1.0, end - _MARGIN - _LEFT), _BAR - 2, colour)
            words = f"{figure:,.{panel.digits}f}"
            drawing.text(end + 6, y + _BAR - 4, words, _FAINT, size=11)
            y += _BAR
        y += _GAP
