"""The table that is made of lines about the cleaners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.clean.asking import AGAINST_SCAN, DRY_RUN, EXPLAIN
from bench.clean.homes import KAFKA, SILTSTONE, SMALL_KAFKA
from bench.clean.interference import AGAINST_IDLE, BUSY, IDLE
from bench.clean.passes import OTHERS
from bench.clean.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.stored import Line

FLOOR: Final = "two reads"
CANNED: Final = "canned answers"
_FLOOR_COLUMN: Final = "floor"
CONTENDERS: Final = (SILTSTONE.name, KAFKA.name, SMALL_KAFKA.name)
_PEERS: Final = (KAFKA.name, SMALL_KAFKA.name)
_SHOWN: Final = ("MB/s", "records/s", "CPU s/GB", "CPU us/record", "peak MiB", "written/read")
_KEPT: Final = ("read GB", "written GB", "left MB", "passes", OTHERS)
_ALIKE: Final = {"left MB", "passes", OTHERS, "requests/s", "logs cleaned", "broker cores"}
_ORDER: Final = (*(each.name for each in SETS), IDLE, BUSY, EXPLAIN, DRY_RUN)
_RISING: Final = {"MB/s", "records/s", "requests/s"}


class Expected(NamedTuple):
    """An aim for us: a number, as a share of the better Kafka unless it is a limit."""

    number: float
    is_ratio: bool = True


EXPECTED: Final = {
    ("A", "MB/s"): Expected(5),
    ("A", "CPU us/record"): Expected(0.17),
    ("A", "peak MiB"): Expected(230, is_ratio=False),
    ("A-lz4", "records/s"): Expected(2),
    ("A-zstd", "records/s"): Expected(1.5),
    ("B", "MB/s"): Expected(2),
    ("B", "CPU s/GB"): Expected(0.3),
    ("A", "read GB"): Expected(1.01),
    ("A", "written GB"): Expected(1.01),
    (BUSY, "p99 us"): Expected(0.15),
    (BUSY, "p99.9 us"): Expected(0.15),
    (BUSY, AGAINST_IDLE): Expected(1.5, is_ratio=False),
    (EXPLAIN, "seconds"): Expected(1, is_ratio=False),
    (DRY_RUN, AGAINST_SCAN): Expected(1, is_ratio=False),
}


class Table:
    """Results of all cases, to be printed as Markdown."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = {(line["case"], line["broker"], line["quantity"]): line for line in lines}

    def median(self, case: str, broker: str, quantity: str) -> float | None:
        """Return a median, None if it was not measured."""
        line = self._lines.get((case, broker, quantity))
        return None if line is None else float(line["median"])

    def ratio(self, case: str, quantity: str) -> float | None:
        """Return ours as a share of the better of Kafka's."""
        ours = self.median(case, SILTSTONE.name, quantity)
        theirs = [
            found for name in _PEERS if (found := self.median(case, name, quantity)) is not None
        ]
        if ours is None or not theirs:
            return None
        better = max(theirs) if quantity in _RISING else min(theirs)
        return ours / better if better else None

    def text(self) -> str:
        """Return the table."""
        heads = ["case", "quantity", *CONTENDERS, _FLOOR_COLUMN, "ratio", "expected"]
        rows = [heads, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
        texts = []
        for number, row in enumerate(rows):
            cells = [
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            texts.append(f"| {' | '.join(cells)} |")
            if not number:
                texts.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join(texts)

    def about(self) -> str:
        """Return on what machine, when and at which commits it was measured."""
        lines = self._lines.values()
        machines = sorted({f"{line['machine']}, {line['date']}" for line in lines})
        commits = sorted({line["commit"].removesuffix("-dirty") for line in lines})
        return f"{'; '.join(machines)}, commit {', '.join(commits)}"

    def _rows(self) -> Iterable[list[str]]:
        known = dict.fromkeys((case, each) for case, _, each in self._lines)
        for case, quantity in sorted(known, key=lambda each: _ORDER.index(each[0])):
            is_set = case not in {IDLE, BUSY, EXPLAIN, DRY_RUN}
            if is_set and quantity not in {*_SHOWN, *_KEPT}:
                continue
            ratio = None if quantity in _ALIKE else self.ratio(case, quantity)
            floor = FLOOR if is_set else CANNED
            yield [
                case,
                quantity,
                *(self._cell(case, name, quantity) for name in (*CONTENDERS, floor)),
                "" if ratio is None else f"{ratio:.2f}",
                self._expectation(case, quantity),
            ]

    def _cell(self, case: str, broker: str, quantity: str) -> str:
        line = self._lines.get((case, broker, quantity))
        if line is None:
            return ""
        median, least, most = (number(line[each]) for each in ("median", "least", "most"))
        return median if least == most else f"{median} ({least}-{most})"

    def _expectation(self, case: str, quantity: str) -> str:
        expected = EXPECTED.get((case, quantity))
        if expected is None:
            return ""
        sign = "≥" if quantity in _RISING else "≤"
        found = (
            self.ratio(case, quantity)
            if expected.is_ratio
            else self.median(case, SILTSTONE.name, quantity)
        )
        if found is None:
            return f"{sign} {expected.number:g}"
        is_met = found >= expected.number if quantity in _RISING else found <= expected.number
        return f"{sign} {expected.number:g} {'met' if is_met else 'MISSED'}"


def number(value: float) -> str:
    """Return a figure with three digits that count."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
