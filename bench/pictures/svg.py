"""Just enough SVG for text and boxes; what is drawn stays text, and is found by a search."""

from __future__ import annotations

from html import escape
from typing import Final

FONT: Final = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


class Drawing:
    """Elements on a background of one colour."""

    def __init__(self, width: float, height: float, background: str, title: str) -> None:
        self._size = (width, height)
        self._head = f"<title>{escape(title)}</title>"
        self._elements: list[str] = []
        self.box(0, 0, width, height, background)

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        """Draw a filled rectangle."""
        self._elements.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def text(  # noqa: PLR0913  # what a text has
        self,
        x: float,
        y: float,
        words: str,
        colour: str,
        *,
        width: float = 0,
        size: int = 13,
        is_bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """Draw a text on a line at ``y``; with a width it is made to fill that."""
        fit = f' textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs"' if width else ""
        weight = ' font-weight="bold"' if is_bold else ""
        self._elements.append(
            f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-size="{size}"'
            f'{weight}{fit} text-anchor="{anchor}" xml:space="preserve">{escape(words)}</text>'
        )

    def line(self, x: float, top: float, bottom: float, colour: str) -> None:
        """Draw an upright line."""
        self.box(x, top, 1, bottom - top, colour)

    def svg(self) -> str:
        """Return the picture."""
        width, height = self._size
        body = "\n".join(self._elements)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" font-family="{FONT}">\n'
            f"{self._head}\n{body}\n</svg>\n"
        )
