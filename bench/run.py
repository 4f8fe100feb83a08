"""``make bench``: measures the broker, alone or beside Apache Kafka, and prints one table.

Rounds alternate between the brokers and the table shows medians; every case also becomes one line
of JSON for each quantity. ``bench/README.md`` says what each case answers and what we expect.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.brokers import OURS, PEER, START_SECONDS, make_broker, resident_mib
from bench.cases import Fetch, Pace, Produce, Result
from bench.clients.cases import asking_cases, many_partition_cases
from bench.clients.everything import Everything
from bench.clients.mixes import mix_cases
from bench.comparison import Expected, verdict
from bench.encrypted import Logins, OverTls
from bench.fresh import ManyPartitions, Start
from bench.load import Load, cache_folder
from bench.machine import ballast, facts
from bench.rules import ManyRules
from bench.stored import store
from bench.strangers import BesideStrangers
from bench.tools import AssignedConsumer, ConsumerPerfTool, PerfTool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.brokers import Broker
    from bench.cases import LoadCase
    from bench.fresh import FreshCase

FLOOR = "floor"
LOADS: tuple[LoadCase, ...] = (
    Produce(name="produce 100 B, 1x1", connections=1, inflight=1),
    Produce(name="produce 100 B, 8x1", connections=8, inflight=1),
    Produce(
        name="produce 100 B, 8x8",
        connections=8,
        inflight=8,
        expected={"requests/s": Expected(4.5)},
    ),
    Produce(name="produce 100 B, 50x1", connections=50, inflight=1),
    Produce(
        name="produce 64 KiB, 4x1",
        connections=4,
        inflight=1,
        batch_bytes=64 << 10,
        record_bytes=1000,
    ),
    Produce(
        name="produce 1 MiB, 4x1",
        connections=4,
        inflight=1,
        batch_bytes=1 << 20,
        record_bytes=1000,
    ),
    Fetch(
        name="fetch 1 MiB, 4, dropped",
        connections=4,
        max_bytes=1 << 20,
        expected={"GB/s": Expected(1.1), "CPU s/GB": Expected(1)},
    ),
    Fetch(name="fetch 1 MiB, 4, copied", connections=4, max_bytes=1 << 20, sink="copy"),
    Fetch(name="fetch 64 KiB, 4, dropped", connections=4, max_bytes=64 << 10),
    Fetch(name="fetch 1 MiB, 50, dropped", connections=50, max_bytes=1 << 20),
    PerfTool(name="perf tool 100 B", record_bytes=100),
    PerfTool(name="perf tool 100 B, lz4", record_bytes=100, codec="lz4"),
    PerfTool(name="perf tool 1 KiB", record_bytes=1024),
    PerfTool(name="perf tool 1 KiB, lz4", record_bytes=1024, codec="lz4"),
    AssignedConsumer(name="librdkafka consumer 100 B", record_bytes=100),
    PerfTool(
        name="perf tool 100 B, 12 partitions",
        record_bytes=100,
        topic="bench-twelve",
        partitions=12,
        expected={"records/s": Expected(1.1), "CPU us/record": Expected(0.35)},
    ),
    PerfTool(
        name="perf tool 1 KiB, 12 partitions",
        record_bytes=1024,
        topic="bench-twelve",
        partitions=12,
        expected={"records/s": Expected(1.05), "CPU us/record": Expected(0.6)},
    ),
    ConsumerPerfTool(
        name="consumer perf tool 100 B, 12 partitions",
        record_bytes=100,
        topic="bench-twelve-consumed",
        partitions=12,
        expected={"records/s": Expected(1.1), "CPU us/record": Expected(0.35)},
    ),
    *many_partition_cases(),
    *mix_cases(),
    *asking_cases(),
)
FRESH: tuple[FreshCase, ...] = (
    Start(),
    ManyPartitions(name="1,000 partitions", partitions=1000, bytes_each=2_000_000),
    ManyPartitions(name="5,000 partitions", partitions=5000, bytes_each=20_000),
    Everything(),
    BesideStrangers(),
    ManyRules(),
    OverTls(),
    Logins(),
)
CASES: tuple[LoadCase | FreshCase, ...] = (*LOADS, *FRESH)
FIRST = (
    "produce 100 B, 8x1",
    "produce 100 B, 8x8",
    "produce 64 KiB, 4x1",
    "fetch 1 MiB, 4, dropped",
    "start, empty folder",
)
Samples = dict[str, list[Result]]
"""Results, by the broker's name or ``FLOOR``."""


def main(words: Sequence[str]) -> int:
    """Measure what is asked for and print the table."""
    options = _parse(words)
    wanted = [
        case.name
        for case in CASES
        if (options.all or options.case or case.name in FIRST)
        and (not options.case or any(word in case.name for word in options.case))
    ]
    names = [OURS, PEER] if options.peer else [OURS]
    if options.only_peer:
        names = [PEER]
    pace = Pace(measure=options.seconds, warm_ours=1.0, warm_peer=options.warm)
    load = Load()
    samples: dict[str, Samples] = {}
    output = Path(options.json) if options.json else cache_folder() / "bench" / "last.jsonl"
    output.parent.mkdir(parents=True, exist_ok=True)
    about = {
        "ballast_gib": options.ballast,
        "seconds": options.seconds,
        "peer_warm_seconds": options.warm,
        **facts(),
    }

    def keep() -> None:
        """Write what is known so far: a run that is cut short has the cases before."""
        lines = _lines(samples, about)
        output.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        if options.out:
            store(Path(options.out), "core", _table(samples, names), lines, about)

    with tempfile.TemporaryDirectory(prefix="siltstone-bench-", dir=options.folder) as folder:
        loads = [case for case in LOADS if case.name in wanted]
        if loads:
            with ballast(options.ballast):
                for name, found in _measure_loads(
                    load, loads, names, pace, options.rounds, Path(folder)
                ):
                    samples[name] = found
                    keep()
        for case in FRESH:
            if case.name in wanted:
                samples[case.name] = _measure_fresh(
                    load, case, names, pace, options.rounds, Path(folder)
                )
                keep()
    print(_table(samples, names))
    print(f"\n{about['machine']}, {about['date']}, commit {about['commit']}; lines in {output}")
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.run", description=__doc__)
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka beside ours")
    parser.add_argument("--only-peer", action="store_true", help="measure Apache Kafka alone")
    parser.add_argument("--all", action="store_true", help="every case, not only the first table")
    parser.add_argument("--case", action="append", help="cases whose name contains this")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case (3)")
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds of a round (4)")
    parser.add_argument(
        "--warm", type=float, default=35.0, help="seconds of each load that warm a JVM up (35)"
    )
    parser.add_argument(
        "--ballast", type=float, default=0.0, help="GiB to hold meanwhile (0; see bench/README.md)"
    )
    parser.add_argument("--folder", help="where the brokers' data lies (the temporary folder)")
    parser.add_argument("--json", help="where the JSON lines go (.cache/bench/last.jsonl)")
    parser.add_argument("--out", help="folder for core-DATE.md and .jsonl as well")
    return parser.parse_args(words)


def _measure_loads(
    load: Load,
    cases: Sequence[LoadCase],
    names: Sequence[str],
    pace: Pace,
    rounds: int,
    folder: Path,
) -> Iterator[tuple[str, Samples]]:
    """Start every broker once, then alternate between them within each case; weigh them last."""
    with ExitStack() as stack:
        brokers: list[Broker] = []
        for name in names:
            broker = make_broker(name, folder / name)
            stack.callback(_close, broker)
            _say(f"starting {name}")
            broker.start(START_SECONDS)
            brokers.append(broker)
        for case in cases:
            found: Samples = {name: [] for name in (*names, FLOOR)}
            for broker in brokers:
                _say(f"{case.name}: warming {broker.name}")
                case.prepare(load, broker, pace)
            for number in range(rounds):
                for broker in brokers:
                    _say(f"{case.name}: round {number + 1} of {rounds}, {broker.name}")
                    found[broker.name].append(case.measure(load, broker, pace))
            found[FLOOR].append(case.measure_floor(load, pace, folder))
            yield case.name, found
        weighed = {broker.name: [{"resident MiB": resident_mib(broker)}] for broker in brokers}
        yield "after all of this", weighed


def _measure_fresh(
    load: Load,
    case: FreshCase,
    names: Sequence[str],
    pace: Pace,
    rounds: int,
    folder: Path,
) -> Samples:
    found: Samples = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            _say(f"{case.name}: round {number + 1} of {rounds}, {name}")
            with tempfile.TemporaryDirectory(dir=folder) as fresh:
                found[name].append(case.measure(load, name, Path(fresh), pace))
    return found


def _close(broker: Broker) -> None:
    """End a broker; what it printed last goes with an error that is on its way."""
    if sys.exc_info()[0] is not None or not broker.daemon.running:
        _say(broker.daemon.printed()[-2000:])
    broker.close()


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def _table(samples: dict[str, Samples], names: Sequence[str]) -> str:
    with_ratio = len(names) > 1
    ratio_head = ["ratio"] if with_ratio else []
    heads = ["case", "quantity", *names, *ratio_head, FLOOR, "expected"]
    aims = {case.name: case.expected for case in CASES}
    rows = [heads]
    for case, found in samples.items():
        for quantity in found[names[0]][0]:
            medians = {name: _median(found[name], quantity) for name in found}
            row = [case, quantity, *(_number(medians.get(name)) for name in names)]
            ratio = _ratio(medians[names[0]], medians[names[1]]) if with_ratio else None
            if with_ratio:
                row.append(_number(ratio))
            aim = aims.get(case, {}).get(quantity)
            judged = verdict(aim, quantity, medians.get(OURS), ratio)
            rows.append([*row, _number(medians.get(FLOOR)), judged])
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    printed = []
    for number, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column in {0, 1, len(heads) - 1} else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        printed.append("| " + " | ".join(cells) + " |")
        if not number:
            printed.append("|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(printed)


def _lines(samples: dict[str, Samples], about: dict[str, object]) -> list[dict[str, object]]:
    return [
        {
            "case": case,
            "broker": name,
            "quantity": quantity.rpartition(" ")[0] or quantity,
            "unit": quantity.rpartition(" ")[2],
            "n": len(results),
            "median": _median(results, quantity),
            "least": min(result[quantity] for result in results),
            "most": max(result[quantity] for result in results),
            **about,
        }
        for case, found in samples.items()
        for name, results in found.items()
        for quantity in (results[0] if results else ())
    ]


def _median(results: Sequence[Result], quantity: str) -> float | None:
    values = [result[quantity] for result in results if quantity in result]
    return statistics.median(values) if values else None


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
