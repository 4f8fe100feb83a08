"""Transactions beside Apache Kafka: ``python -m bench.transactions --out bench/results``.

Each round starts the load of one case against one broker, ``bench.transaction_load`` in processes
of their own; rounds alternate between the two brokers, which both run all the time. The peer is
warmed up by the same load first. Medians are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.brokers import OURS, PEER, Broker, make_broker
from bench.machine import facts
from bench.stored import store
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC: Final = "bench"
PARTITIONS: Final = 8
_TICK_MS: Final = 10


class Case(NamedTuple):
    """A load, how many producers of it, and what is expected of us, as a share of the peer's."""

    title: str
    kind: str
    producers: int
    expected: dict[str, float]


CASES: Final = (
    Case("librdkafka, 1 producer", "librdkafka", 1, {"transactions/s": 2}),
    Case("librdkafka, 8 producers", "librdkafka", 8, {"transactions/s": 2}),
    Case("transaction.version 2, 1 producer", "frames", 1, {"transactions/s": 2}),
    Case("transaction.version 2, 8 producers", "frames", 8, {"transactions/s": 2}),
    Case("produce to read_committed consume", "latency", 1, {"p99 ms": 0.5}),
)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write it with its lines of JSON if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=12, help="seconds of load for the peer")
    parser.add_argument("--case", default="", help="only cases whose title has these words")
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    parser.add_argument("--out", type=Path, help="folder for transactions-DATE.md and .jsonl")
    options = parser.parse_args(arguments)
    names = (OURS,) if options.no_peer else (OURS, PEER)
    about = facts()
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        brokers = {name: make_broker(name, Path(folder) / name) for name in names}
        for broker in brokers.values():
            broker.start()
            stack.callback(broker.close)
            Confluent(broker.bootstrap).create(TOPIC, PARTITIONS, {})
        for case in CASES:
            if options.case not in case.title:
                continue
            lines += measure(case, brokers, options, about)
            if options.out is not None:  # after each case: a run that is cut short has the others
                store(options.out, "transactions", render(lines), lines, about)
    print(render(lines))
    return 0


def measure(
    case: Case, brokers: dict[str, Broker], options: argparse.Namespace, about: dict[str, object]
) -> list[dict[str, Any]]:
    """Return a line for each broker and quantity."""
    for name, broker in brokers.items():
        run(case, broker, options.warm if name == PEER else 1.0)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in brokers}
    for _ in range(options.rounds):
        for name, broker in brokers.items():
            samples[name].append(run(case, broker, options.seconds))
    return [
        {
            "case": case.title,
            "broker": name,
            "quantity": quantity,
            "n": len(found),
            "median": statistics.median(each[quantity] for each in found),
            "least": min(each[quantity] for each in found),
            "most": max(each[quantity] for each in found),
            "expected": case.expected.get(quantity),
            **about,
        }
        for name, found in samples.items()
        for quantity in found[0]
    ]


def run(case: Case, broker: Broker, seconds: float) -> dict[str, float]:
    """Return what one round of a load came to, all its producers together."""
    began = processor_ms(broker)
    loads = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.transaction_load", case.kind, broker.bootstrap),
                *(TOPIC, str(seconds), str(number)),
            ],
            stdout=subprocess.PIPE,
        )
        for number in range(case.producers)
    ]
    results = [json.loads(load.communicate()[0]) for load in loads]
    if case.kind == "latency":
        return {name: value for name, value in results[0].items() if name != "samples"}
    rate = sum(each["transactions/s"] for each in results)
    count = sum(each["count"] for each in results)
    return {"transactions/s": rate, "CPU us": (processor_ms(broker) - began) * 1000 / count}


def processor_ms(broker: Broker) -> int:
    """Return the processor time that a broker has had."""
    stat = Path(f"/proc/{broker.daemon.pid}/stat").read_text(encoding="ascii")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_MS


def render(lines: Sequence[dict[str, Any]]) -> str:
    """Return the table: a row for each case and quantity."""
    rows = ["| case | quantity | siltstone | Apache Kafka | ratio | expected |", "| --- " * 6 + "|"]
    found = {(line["case"], line["quantity"], line["broker"]): line for line in lines}
    for (case, quantity, broker), ours in found.items():
        if broker != OURS:
            continue
        peer = found.get((case, quantity, PEER))
        cells = [case, quantity, f"{ours['median']:.4g}", "", ""]
        if peer is not None:
            cells[3:] = f"{peer['median']:.4g}", f"{ours['median'] / peer['median']:.2f}"
        cells.append("" if ours["expected"] is None else str(ours["expected"]))
        rows.append("| " + " | ".join(cells) + " |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
