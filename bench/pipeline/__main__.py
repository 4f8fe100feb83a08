"""The pipeline against Spark's own Kafka connector: same topics, same session, one table.

    python -m bench.pipeline --jars .cache/connector-jars --out bench/results
    python -m bench.pipeline --case "A, all columns" --rounds 1

Topic A has records of about 122 B in two partitions, B of 1 KiB, A-lz4 is A compressed. Every case
is warmed up and then run ``--rounds`` times, its sources in turn; then its lines take the place of
what the file of the day had of it, so that a run may be cut short. ``bench/README.md`` says more.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench import stored
from bench.load import cache_folder
from bench.machine import facts
from bench.pipeline import report
from bench.pipeline.cases import PIN, cases
from bench.pipeline.filling import fill, fill_back, fill_many
from bench.pipeline.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.pipeline.cases import Case

Result = dict[str, float]

_WARM_SECONDS = 5.0
_MOST_WARM_UPS = 5


def main(words: Sequence[str]) -> int:
    """Measure what is asked for, and write and print the table."""
    options = _parse(words)
    about = {**facts(), "records_of_A": options.records}
    path = options.out / f"pipeline-{about['date']}.jsonl"
    if not options.show:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        try:
            _measure_all(options, path, about)
        except KeyboardInterrupt:
            _say("interrupted; what is measured counts")
    lines = stored.read(path)
    text = report.Table(lines).text()
    print(text)
    if lines:
        stored.store(options.out, "pipeline", text, lines, about)
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.pipeline", description=__doc__)
    parser.add_argument("--records", type=int, default=4_000_000, help="of topic A (4,000,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each source (3)")
    parser.add_argument("--case", action="append", help="whose name has this in it (repeatable)")
    parser.add_argument("--seconds", type=float, default=1e9, help="then no case is begun")
    parser.add_argument("--jars", type=Path, default=Path(".cache/connector-jars"))
    parser.add_argument("--out", type=Path, default=cache_folder() / "bench", help="a folder")
    parser.add_argument("--show", action="store_true", help="print the table of the day only")
    return parser.parse_args(words)


def _measure_all(options: argparse.Namespace, path: Path, about: dict[str, object]) -> None:
    began = time.perf_counter()
    jars = sorted(options.jars.glob("*.jar"))
    if not jars:
        raise SystemExit(f"{options.jars} has no jars of the connector; make jars copies them")
    with (
        tempfile.TemporaryDirectory(prefix="siltstone-bench-") as folder,
        Home(Path(folder), jars, options.records) as home,
    ):
        words = options.case or [""]
        wanted = [case for case in cases(home) if any(word in case.name for word in words)]
        _fill(home, wanted)
        for case in wanted:
            if time.perf_counter() - began > options.seconds:
                _say(f"{case.name} and what follows are left out: {options.seconds:g} s are over")
                return
            samples = {case.name: _measure(home, case, options.rounds)}
            stored.merge(path, stored.lines_of(samples, about))


def _fill(home: Home, wanted: Sequence[Case]) -> None:
    topics = dict.fromkeys(case.topic for case in wanted)
    for topic in topics:
        if topic is not None:
            _say(f"writing {topic.name}")
            fill(home, topic)
    fill_back(home)
    if any(case.name == PIN for case in wanted):
        fill_many(home)


def _measure(home: Home, case: Case, rounds: int) -> dict[str, list[Result]]:
    """Return what each source came to in each round."""
    found: dict[str, list[Result]] = {source: [] for source in case.works}
    for source, work in case.works.items():
        _say(f"{case.name}, {source}: warmed up in {_warm_up(work):.2f} s")
    for number in range(1, rounds + 1):
        for source, work in case.works.items():
            result = _once(home, case, work)
            figures = ", ".join(f"{each:.3g} {name}" for name, each in result.items())
            _say(f"{case.name}, {source}, round {number}: {figures}")
            found[source].append(result)
    return found


def _warm_up(work: Callable[[], object]) -> float:
    """Do a work once, a quick one some more times: the JVM compiles what it has often run."""
    began = time.perf_counter()
    for _ in range(_MOST_WARM_UPS):
        work()
        if time.perf_counter() - began > _WARM_SECONDS:
            break
    return time.perf_counter() - began


def _once(home: Home, case: Case, work: Callable[[], Result | None]) -> Result:
    before = home.processor_seconds()
    began = time.perf_counter()
    more = work()
    taken = time.perf_counter() - began
    after = home.processor_seconds()
    if case.topic is None or more is not None:
        return more or {}
    return {
        report.SECONDS: taken,
        report.RECORDS: home.records // case.topic.share / taken / 1e6,
        report.BYTES: home.size_of(case.topic.name) / taken / 1e6,
        report.SPARK_CPU: after[0] - before[0],
        report.BROKER_CPU: after[1] - before[1],
    }


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
