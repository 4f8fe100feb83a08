"""The waits of a test and of a scrape: ``python -m bench.waits`` (a minute and a half).

``bench/README.md`` says what each row answers. Rows are the best of some rounds: what else the
machine does makes them longer, and nothing makes them shorter. ``--case`` names some of them.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench.watched import p99_times_calm
from siltstone.broker.http.metrics.exposition import SLICE_SECONDS, Scrapes
from siltstone.broker.process.loop_share import LoopShare
from siltstone.testing import Kafka, broker
from tests.support.metrics import make_sources, with_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = Path(__file__).parents[1] / "examples" / "testing"
ROUNDS = 5
TOPICS = 10


class Row(NamedTuple):
    """A figure and its aim."""

    case: str
    figure: str
    result: float
    aim: float


def first_test() -> Iterator[Row]:
    """Until a broker serves, by the clock and less what it waited for a processor."""
    by_clock, alone = [], []
    for _ in range(ROUNDS):
        began = time.monotonic()
        with broker() as kafka:
            by_clock.append(time.monotonic() - began)
            alone.append(by_clock[-1] - _waited_seconds(kafka.pid))
    yield Row("first test", "s until its broker serves, less its waits for a core", min(alone), 0.6)
    yield Row("first test", "s by the clock", min(by_clock), 0.6)


def _waited_seconds(pid: int) -> float:
    """Return how long a process, its first thread, has waited for a processor that others had."""
    _, waited, _ = Path(f"/proc/{pid}/schedstat").read_text().split()
    return int(waited) / 1e9


def next_test() -> Iterator[Row]:
    """The work of the fixtures for a test: its topic is made, and all is taken away after it."""
    with broker() as kafka:
        medians = [statistics.median(_prepare(kafka) for _ in range(TOPICS)) for _ in range(ROUNDS)]
    yield Row("next test", "ms for its topic, and for taking all away", min(medians) * 1000, 5)


def _prepare(kafka: Kafka) -> float:
    began = time.monotonic()
    topics, groups = kafka.admin.list_all()
    kafka.create_topic()
    kafka.heal()
    kafka.clear_but(topics, groups)
    return time.monotonic() - began


def a_day() -> Iterator[Row]:
    """The clock is moved, and all is done that is due then."""
    with broker() as kafka:
        kafka.create_topic(partitions=20)
        taken = []
        for _ in range(ROUNDS):
            began = time.monotonic()
            kafka.clock.advance(days=1)
            taken.append(time.monotonic() - began)
    yield Row("a day passes", "ms", min(taken) * 1000, 100)


def project() -> Iterator[Row]:
    """The example project's ten tests, in this environment."""
    taken = []
    for _ in range(2):
        began = time.monotonic()
        subprocess.run(  # our own tests
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=PROJECT,
            check=True,
            capture_output=True,
        )
        taken.append(time.monotonic() - began)
    yield Row("ten tests", "s, those of examples/testing", min(taken), 10)


def scrape() -> Iterator[Row]:
    """Processor time of the loop's thread, with the lag of 5,000 partitions of groups."""
    sources = make_sources({f"topic-{n:04d}": 10 for n in range(1000)})
    committed = {
        (f"group-{g}", f"topic-{n // 10:04d}", n % 10): 7 for g in range(5) for n in range(1000)
    }
    scrapes = Scrapes(with_offsets(sources, committed, 5000))
    whole, longest = [], []
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            spent = []
            lines = enumerate(scrapes.lines(), 1)
            is_over = False
            while not is_over:
                began = time.thread_time()
                _, is_over = scrapes.write_slice(lines, LoopShare(SLICE_SECONDS))
                spent.append(time.thread_time() - began)
            whole.append(sum(spent))
            longest.append(max(spent))
    finally:
        gc.enable()
    yield Row("scrape", "ms of processor time, 10,000 partitions", min(whole) * 1000, 150)
    yield Row("scrape", "ms at once, at most", min(longest) * 1000, 3)


def watched() -> Iterator[Row]:
    """2,000 produces a second while a page is open and a scrape comes each second."""
    yield Row("watched", "p99 of small produces, times the calm one", p99_times_calm(), 1.2)


CASES: dict[str, Callable[[], Iterator[Row]]] = {
    "first test": first_test,
    "next test": next_test,
    "a day passes": a_day,
    "ten tests": project,
    "scrape": scrape,
    "watched": watched,
}


def main(arguments: list[str]) -> int:
    """Print the rows; return 1 if one misses its aim."""
    parser = argparse.ArgumentParser(
        prog="bench.waits", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--case", action="append", choices=CASES, metavar="CASE")
    options = parser.parse_args(arguments)
    missed = 0
    print("| case | figure | result | aim |\n| --- | --- | --- | --- |")
    for name in options.case or CASES:
        for row in CASES[name]():
            verdict = "" if row.result <= row.aim else " missed"
            missed += bool(verdict)
            result = f"{row.result:.3g}"
            print(f"| {row.case} | {row.figure} | {result} | ≤ {row.aim:g}{verdict} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
