"""The table that is made of lines about the pipeline: each source, and how much faster ours is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.pipeline import cases
from bench.pipeline.home import CLIENT, CONNECTOR, FETCH, OURS, SHUFFLE, TUNED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.stored import Line

SECONDS: Final = "s"
RECORDS: Final = "M records/s"
BYTES: Final = "MB/s"
SPARK_CPU: Final = "CPU s, Spark"
BROKER_CPU: Final = "CPU s, broker"
_SHOWN: Final = (SECONDS, RECORDS, BYTES, SPARK_CPU, BROKER_CPU)
_SOURCES: Final = (CONNECTOR, TUNED, OURS, FETCH, SHUFFLE, CLIENT)
_OWN: Final = (OURS, FETCH, SHUFFLE)
_ORDER: Final = (
    cases.ALL,
    cases.LARGE,
    cases.COMPRESSED,
    cases.KEYS,
    cases.OFFSETS,
    cases.COUNT,
    cases.EXPORT,
    cases.SNAPSHOT,
    cases.WRITE,
    cases.STREAM,
    cases.AUDIT,
)
_HEADS: Final = ("case", "source", *_SHOWN, "x default", "x tuned", "expected")


class Ratios(NamedTuple):
    """How many times as fast as the connector we want to be."""

    tuned: float
    default: float = 0.0


EXPECTED: Final = {
    (cases.ALL, OURS): Ratios(1.1, 2),
    (cases.ALL, FETCH): Ratios(1),
    (cases.LARGE, OURS): Ratios(1.1),
    (cases.KEYS, OURS): Ratios(2),
    (cases.OFFSETS, OURS): Ratios(5),
    (cases.COUNT, OURS): Ratios(5),
    (cases.EXPORT, OURS): Ratios(2),
    (cases.SNAPSHOT, OURS): Ratios(3),
    (cases.STREAM, OURS): Ratios(1),
}
_LIMITS: Final = {(cases.WINDOW, cases.SHARE): 0.02, (cases.PIN, cases.MILLISECONDS): 100.0}


class Table:
    """Results of all cases, to be printed as Markdown."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = {(line["case"], line["broker"], line["quantity"]): line for line in lines}

    def text(self) -> str:
        """Return the table, and a sentence for each case that is of ours alone."""
        known = {(case, source) for case, source, _ in self._lines}
        rows = [
            self._row(case, source)
            for case in _ORDER
            for source in _SOURCES
            if (case, source) in known
        ]
        heads = f"| {' | '.join(_HEADS)} |\n|{' --- |' * len(_HEADS)}"
        return "\n".join([heads, *rows, "", *self._sentences()])

    def _row(self, case: str, source: str) -> str:
        ratios = [
            self._ratio(case, source, other) if source in _OWN else None
            for other in (CONNECTOR, TUNED)
        ]
        cells = [case, source]
        cells += [self._cell(case, source, quantity) for quantity in _SHOWN]
        cells += ["" if ratio is None else f"{ratio:.2f}" for ratio in ratios]
        return f"| {' | '.join([*cells, self._expectation(case, source, *ratios)])} |"

    def _median(self, case: str, source: str, quantity: str) -> float | None:
        line = self._lines.get((case, source, quantity))
        return None if line is None else float(line["median"])

    def _ratio(self, case: str, source: str, other: str) -> float | None:
        ours, theirs = (self._median(case, each, SECONDS) for each in (source, other))
        return None if ours is None or theirs is None else theirs / ours

    def _cell(self, case: str, source: str, quantity: str) -> str:
        line = self._lines.get((case, source, quantity))
        if line is None:
            return ""
        if quantity != SECONDS:
            return f"{line['median']:.3g}"
        return f"{line['median']:.2f} ({line['least']:.2f}-{line['most']:.2f})"

    def _expectation(
        self, case: str, source: str, default: float | None, tuned: float | None
    ) -> str:
        wanted = EXPECTED.get((case, source))
        if wanted is None or default is None or tuned is None:
            return ""
        words = f"{wanted.tuned:g} x tuned" + (
            f", {wanted.default:g} x default" if wanted.default else ""
        )
        return f"{words} {_verdict(tuned >= wanted.tuned and default >= wanted.default)}"

    def _sentences(self) -> Iterator[str]:
        for (case, quantity), most in _LIMITS.items():
            found = self._lines.get((case, OURS, quantity))
            if found is not None:
                span = f"{found['least']:.3g}-{found['most']:.3g}"
                yield (
                    f"* {case}: {found['median']:.3g} ({span}) {quantity}; at most {most:g} is "
                    f"expected: {_verdict(found['median'] <= most)}."
                )


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"
