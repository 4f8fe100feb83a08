"""Groups beside Apache Kafka: ``python -m bench.groups --out bench/results``.

Rounds of ``bench.group_load`` alternate between the two brokers, which both run all the time; the
peer is warmed up by the same load first. Starting with committed offsets and the memory of many
groups are measured at the end, once for each broker. Medians are shown.
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
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.brokers import OURS, PEER, Broker, make_broker, resident_mib
from bench.machine import facts
from bench.stored import store
from bench.transactions import processor_ms, render
from tests.support.clients.confluent import Confluent

if TYPE_CHECKING:
    from collections.abc import Sequence

TOPIC: Final = "bench"
PARTITIONS: Final = 100
SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}


class Case(NamedTuple):
    """A load, and what is expected of us, as a share of the peer's."""

    title: str
    kind: str
    expected: dict[str, float]


CASES: Final = (
    Case("offset commits, 100 groups", "commits", {"requests/s": 3}),
    Case("heartbeats, 100 groups", "heartbeats", {"requests/s": 3}),
    Case("50 members", "stable", {"ms after start": 0.5, "ms after one left": 0.5}),
)


def main(arguments: Sequence[str]) -> int:
    """Measure, print the table, and write it with its lines of JSON if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm", type=float, default=15, help="seconds of load for the peer")
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--no-peer", action="store_true", help="measure ours alone")
    parser.add_argument("--out", type=Path, help="folder for groups-DATE.md and .jsonl")
    options = parser.parse_args(arguments)
    names = (OURS,) if options.no_peer else (OURS, PEER)
    samples: dict[tuple[str, str], list[dict[str, float]]] = {}
    expected = {case.title: case.expected for case in CASES}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        brokers = {name: make_broker(name, Path(folder) / name, SETTINGS) for name in names}
        for broker in brokers.values():
            broker.start()
            stack.callback(broker.close)
            Confluent(broker.bootstrap).create(TOPIC, PARTITIONS, {})
        for case in CASES:
            for name, broker in brokers.items():
                warm(case, broker, options.warm if name == PEER else 1.0)
            for _ in range(options.rounds):
                for name, broker in brokers.items():
                    found = samples.setdefault((case.title, name), [])
                    found.append(run(case.kind, broker, options.seconds))
        for name, broker in brokers.items():
            title = f"{options.groups} groups of one member"
            samples[title, name] = [memory(broker, options.groups)]
            title = f"start with {options.offsets} offsets"
            expected[title] = {"s": 0.7}
            samples[title, name] = [start_loaded(broker, options.offsets)]
    about = facts()
    lines = [
        {
            "case": title,
            "broker": name,
            "quantity": quantity,
            "n": len(found),
            "median": statistics.median(each[quantity] for each in found),
            "least": min(each[quantity] for each in found),
            "most": max(each[quantity] for each in found),
            "expected": expected.get(title, {}).get(quantity),
            **about,
        }
        for (title, name), found in samples.items()
        for quantity in found[0]
    ]
    table = render(lines)
    print(table)
    if options.out is not None:
        store(options.out, "groups", table, lines, about)
    return 0


def load(kind: str, broker: Broker, amount: float) -> dict[str, float]:
    """Return what one run of a load measured."""
    command = [sys.executable, "-m", "bench.group_load", kind, broker.bootstrap, TOPIC, str(amount)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{kind} at {broker.name}: {done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    return result


def warm(case: Case, broker: Broker, seconds: float) -> None:
    """Give a broker the load before it counts."""
    if case.kind == "stable":
        for _ in range(int(seconds)):
            load(case.kind, broker, 0)
    else:
        load(case.kind, broker, seconds)


def run(kind: str, broker: Broker, seconds: float) -> dict[str, float]:
    """Return one round of a case; the processor time is the broker's, for each request."""
    began = processor_ms(broker)
    result = load(kind, broker, seconds)
    count = result.pop("count", 0)
    if count:
        result["CPU us"] = (processor_ms(broker) - began) * 1000 / count
    return result


def memory(broker: Broker, count: int) -> dict[str, float]:
    """Return what many groups add to the memory of a broker that has been working."""
    before = resident_mib(broker)
    load("many", broker, count)
    return {"MiB": resident_mib(broker) - before}


def start_loaded(broker: Broker, count: int) -> dict[str, float]:
    """Return the seconds from exec to the moment when all offsets can be asked for."""
    load("fill", broker, count)
    broker.stop()
    began = broker.launch()
    ready = load("loaded", broker, count)["ready ns"]
    return {"s": (ready - began) / 1e9}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
