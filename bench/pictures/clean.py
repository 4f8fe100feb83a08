"""Draws the cleaner's figures: ``python -m bench.pictures.clean LINES.jsonl docs/pictures``.

Three panels of bars, ours and Apache Kafka's with either heap: speed, processor time, and what
small produces wait for meanwhile.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.clean.interference import BUSY, IDLE
from bench.clean.report import CONTENDERS, Table
from bench.clean.sets import SETS
from bench.pictures.bars import COLOURS, Group, Panel, draw
from bench.stored import read

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


class Quantity(NamedTuple):
    """A quantity that is compared in some cases, divided by ``unit``."""

    title: str
    cases: tuple[str, ...]
    quantity: str
    unit: float
    digits: int


_SETS = tuple(each.name for each in SETS)
QUANTITIES: Final = (
    Quantity("million records cleaned a second (more is better)", _SETS, "records/s", 1e6, 2),
    Quantity("processor time, µs a record (less is better)", _SETS, "CPU us/record", 1, 2),
    Quantity("p99 of 2,000 small produces a second, ms (less)", (IDLE, BUSY), "p99 us", 1e3, 2),
)


def main(lines: Path, folder: Path) -> None:
    """Draw the picture of a file of lines."""
    table = Table(read(lines))
    legend = [name.replace("kafka", "Apache Kafka 4.3.1, heap") for name in CONTENDERS]
    panels = [_panel(table, quantity) for quantity in QUANTITIES]
    folder.mkdir(parents=True, exist_ok=True)
    picture = draw("Cleaning the same logs: ours and Kafka's", legend, panels)
    (folder / "clean.svg").write_text(picture, encoding="utf-8")


def _panel(table: Table, quantity: Quantity) -> Panel:
    bars = {case: _bars(table, quantity, case) for case in quantity.cases}
    groups = [Group(_LABELS[case], found) for case, found in bars.items() if found]
    return Panel(quantity.title, quantity.digits, groups)


def _bars(table: Table, quantity: Quantity, case: str) -> list[tuple[str, float]]:
    """Return the bars of a case: colour and figure."""
    medians = [table.median(case, name, quantity.quantity) for name in CONTENDERS]
    return [
        (colour, median / quantity.unit)
        for colour, median in zip(COLOURS, medians, strict=True)
        if median is not None
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
