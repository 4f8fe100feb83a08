"""Cases measured in turn on our broker and on Apache Kafka, and the table of what was found.

Both brokers run all the time; each makes ready for a case and is warmed up by its load, then
rounds alternate. After each round the lines of the case are put into the file of the day, in the
place of what it had of the case: a run that is cut short keeps what it has, and cases may be
measured one by one.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from bench.brokers import OURS, PEER, make_broker
from bench.clean.passes import OTHERS, others_cpu_seconds
from bench.load import cache_folder
from bench.machine import facts
from bench.stored import Line, lines_of, merge, read, store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.brokers import Broker
    from bench.cases import Result

_WARM_SECONDS_OF_OURS = 1.0


class Expected(NamedTuple):
    """An aim for us: a number, as a share of Apache Kafka's unless it is a limit."""

    number: float
    is_ratio: bool = True


class Case(Protocol):
    """A load that both brokers get."""

    @property
    def name(self) -> str:
        """Its name in the table."""

    @property
    def expected(self) -> Mapping[str, Expected]:
        """Aims for us, by quantity."""

    @property
    def most_rounds(self) -> int:
        """After how many rounds there is nothing more to learn."""

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Make topics and data, and warm the broker up by so much of the load."""

    def measure(self, broker: Broker, seconds: float) -> Result:
        """Measure one round."""


class Suite(NamedTuple):
    """Cases that are stored in one file: NAME-DATE."""

    name: str
    cases: Sequence[Case]


def main(suite: Suite, description: str, words: Sequence[str]) -> int:
    """Measure what is asked for, keep it and print the table."""
    options = _parse(suite, description, words)
    about = facts()
    path = options.out / f"{suite.name}-{about['date']}.jsonl"
    if not options.show:
        chosen = [
            case
            for case in suite.cases
            if not options.case or any(word in case.name for word in options.case)
        ]
        names = (OURS,) if options.no_peer else (OURS, PEER)
        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            brokers = [make_broker(name, Path(folder) / name) for name in names]
            for broker in brokers:
                _say(f"starting {broker.name}")
                stack.callback(broker.close)
                broker.start()
            for case in chosen:
                began = time.monotonic()
                for lines in _measure(case, brokers, options, about):
                    merged = merge(path, lines)
                    store(options.out, suite.name, Table(suite, merged).text(), merged, about)
                _say(f"{case.name}: {time.monotonic() - began:.0f} s")
    print(f"{Table(suite, read(path)).text()}\n\nlines in {path}")
    return 0


def _parse(suite: Suite, description: str, words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"bench.{suite.name}", description=description.partition("\n")[0]
    )
    parser.add_argument("--case", action="append", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case (3)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of a round (3)")
    parser.add_argument(
        "--warm", type=float, default=10.0, help="seconds of each load that warm a JVM up (10)"
    )
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    parser.add_argument("--show", action="store_true", help="print the table of the day only")
    parser.add_argument(
        "--out",
        type=Path,
        default=cache_folder() / "bench",
        help=f"folder for {suite.name}-DATE.md and .jsonl (.cache/bench)",
    )
    return parser.parse_args(words)


def _measure(
    case: Case, brokers: Sequence[Broker], options: argparse.Namespace, about: dict[str, object]
) -> Iterable[list[Line]]:
    """Yield the lines of a case after each round, of all its rounds so far."""
    for broker in brokers:
        _say(f"{case.name}: warming {broker.name}")
        case.prepare(broker, options.warm if broker.name == PEER else _WARM_SECONDS_OF_OURS)
    samples: dict[str, list[Result]] = {broker.name: [] for broker in brokers}
    rounds = min(options.rounds, case.most_rounds)
    for number in range(rounds):
        for broker in brokers:
            _say(f"{case.name}: round {number + 1} of {rounds}, {broker.name}")
            began, before = time.monotonic(), _others_cpu_seconds(brokers)
            result = case.measure(broker, options.seconds)
            others = (_others_cpu_seconds(brokers) - before) / (time.monotonic() - began)
            samples[broker.name].append({**result, OTHERS: max(0.0, others)})
        yield lines_of({case.name: samples}, {"seconds": options.seconds, **about})


def _others_cpu_seconds(brokers: Sequence[Broker]) -> float:
    return others_cpu_seconds(*(broker.daemon.pid for broker in brokers))


class Table:
    """Results of a suite's cases, to be printed as Markdown."""

    def __init__(self, suite: Suite, lines: Iterable[Line]) -> None:
        self._expected = {case.name: case.expected for case in suite.cases}
        self._lines = {(line["case"], line["quantity"], line["broker"]): line for line in lines}

    def text(self) -> str:
        """Return the table: a row for each case and quantity, in the order of the suite."""
        heads = ["case", "quantity", OURS, "Apache Kafka", "ratio", "expected"]
        rows = [heads, ["---", "---", *["---:"] * 3, "---"]]
        known = dict.fromkeys((case, quantity) for case, quantity, _ in self._lines)
        for case in self._expected:
            rows += [self._row(*each) for each in known if each[0] == case]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)

    def _row(self, case: str, quantity: str) -> list[str]:
        ours, theirs = (self._lines.get((case, quantity, name)) for name in (OURS, PEER))
        ratio = None
        if ours and theirs and theirs["median"] and quantity != OTHERS:
            ratio = ours["median"] / theirs["median"]
        return [
            case,
            quantity,
            _cell(ours),
            _cell(theirs),
            "" if ratio is None else f"{ratio:.2f}",
            verdict(
                self._expected[case].get(quantity),
                quantity,
                None if ours is None else ours["median"],
                ratio,
            ),
        ]


def verdict(
    expected: Expected | None, quantity: str, ours: float | None, ratio: float | None
) -> str:
    """Return what was expected of a quantity and whether it is met; rates are to be high."""
    if expected is None:
        return ""
    is_rising = quantity.endswith("/s")
    text = f"{'≥' if is_rising else '≤'} {expected.number:g}"
    found = ratio if expected.is_ratio else ours
    if found is None:
        return text
    is_met = found >= expected.number if is_rising else found <= expected.number
    return f"{text} {'met' if is_met else 'MISSED'}"


def _cell(line: Line | None) -> str:
    if line is None:
        return ""
    median, least, most = (_number(line[each]) for each in ("median", "least", "most"))
    return median if least == most else f"{median} ({least}-{most})"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
