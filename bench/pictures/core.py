"""Draws the core's figures: ``python -m bench.pictures.core LINES.jsonl docs/pictures``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.brokers import OURS, PEER
from bench.pictures.bars import COLOURS, Group, Panel, draw


class Quantity(NamedTuple):
    """A quantity that is compared in all cases that have it and whose names begin alike."""

    title: str
    prefix: str
    quantity: str
    unit: str
    scale: float
    digits: int


QUANTITIES: Final = (
    Quantity(
        "thousand produces of 100 B a second (more is better)",
        "produce 100 B", "requests/s", "requests/s", 1e3, 1,
    ),
    Quantity(
        "processor time of the broker, µs a request (less is better)",
        "produce 100 B", "CPU", "us/request", 1, 1,
    ),
    Quantity("GB/s through the broker (more is better)", "", "GB/s", "GB/s", 1, 2),
    Quantity("processor time of the broker, s a GB (less is better)", "", "CPU", "s/GB", 1, 2),
    Quantity("seconds from exec to the first ack (less)", "", "exec to first ack", "s", 1, 2),
)  # fmt: skip


def main(lines: Path, folder: Path) -> None:
    """Draw the picture of a file of lines."""
    with lines.open(encoding="utf-8") as file:
        figures = [json.loads(line) for line in file]
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in figures:
        key = line["case"], line["quantity"], line["unit"]
        found.setdefault(key, {})[line["broker"]] = line["median"]
    panels = [_panel(found, quantity) for quantity in QUANTITIES]
    folder.mkdir(parents=True, exist_ok=True)
    picture = draw("The core beside Apache Kafka", ["siltstone", "Apache Kafka 4.3.1"], panels)
    (folder / "core.svg").write_text(picture, encoding="utf-8")


def _panel(found: dict[tuple[str, str, str], dict[str, float]], quantity: Quantity) -> Panel:
    groups = []
    for (case, name, unit), medians in found.items():
        if (
            case.startswith(quantity.prefix)
            and (name, unit) == (quantity.quantity, quantity.unit)
            and {OURS, PEER} <= medians.keys()
        ):
            bars = [
                (colour, medians[broker] / quantity.scale)
                for colour, broker in zip(COLOURS, (OURS, PEER), strict=False)
            ]
            groups.append(Group(case, bars))
    return Panel(quantity.title, quantity.digits, groups)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
