"""``make beside``: histories on the wire, played on our broker and on Apache Kafka in step.

Each side has clients and a model of its own, so the model judges both. What is asked and answered
on one side is compared with the other. What was played is kept by commit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.beside.fitting import fit
from tests.simulator.beside.side import Side
from tests.simulator.campaign import find_commit
from tests.simulator.clients.rules import BOOKS
from tests.simulator.history import STEPS, draw
from tests.simulator.model.log import Wrong
from tests.support.kafka import ROOT, KafkaJars, cache_folder
from tests.support.side_by_side import both, codes_of, compare

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from tests.simulator.history import Plan, Step
    from tests.support.oracle import Broker

SETTINGS: Final = {
    "node.id": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "1500",
    "group.consumer.max.session.timeout.ms": "600000",
    "group.consumer.session.timeout.ms": "300000",
    "group.consumer.assignment.interval.ms": "0",
    "num.network.threads": "1",
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "100",
    "log.initial.task.delay.ms": "100",
    "log.cleaner.enable": "false",
}
_EITHER: Final[Mapping[str, AbstractSet[tuple[int, int]]]] = {
    "DeleteGroups": {(69, 0)},
    "OffsetDelete": {(69, 0)},
    "OffsetCommit": {(0, 113), (113, 0)},
}
"""Pairs of errors, ours first. A commit that was refused leaves an empty group in Kafka. A member's
partitions go by the ids of topics, and so does whether it may commit in an older epoch."""
_TOO_LARGE: Final = {10, 18}
_ENOUGH: Final = 5
"""So many differences of a history are told."""
_TELLS_EVERY: Final = 10
_OF_A_PAIR: Final = 40
"""So many histories are played before both brokers begin afresh."""


class Pair:
    """A history on both brokers in step."""

    def __init__(self, plan: Plan, brokers: Iterable[Broker]) -> None:
        self.plan = fit(plan)
        now_ms = int(time.time() * 1000)
        self.sides = [Side(self.plan, each, now_ms) for each in brokers]
        self.requests = 0
        self.differences: list[str] = []
        self._has_parted = False

    def play(self) -> None:
        """Play all steps and judge, up to a difference in what was asked; then tidy up."""
        names = len(self.plan.parts["records"])
        tidy: list[Step] = [
            ["rule", book, key, None] for book, keys in BOOKS.items() for key in keys
        ]
        tidy += [["delete", at / names, 0] for at in range(names)]
        with closing(self.sides[0]), closing(self.sides[1]):
            for side in self.sides:
                side.prepare()
            for number, step in [(-1, ["setup"]), *self.plan.steps, (STEPS, ["judge"])]:
                if not self._play_step(number, step):
                    break
            for step in tidy:
                for side in self.sides:
                    with suppress(Wrong):
                        side.play(STEPS, step, side.now_ms)

    def _play_step(self, number: int, step: Step) -> bool:
        """Play a step on each side; tell whether the next one may come."""
        now_ms = int(time.time() * 1000)
        for side, name in zip(self.sides, ("ours", "Kafka"), strict=True):
            try:
                side.play(number, step, now_ms)
            except Wrong as error:
                self.differences.append(f"{number} {step}: the model says of {name}: {error}")
                return False
        mine, other = (side.noted for side in self.sides)
        self.requests += len(mine)
        for (what, asked, told), (_, also_asked, also_told) in zip(mine, other, strict=False):
            either = _EITHER.get(what.partition(" ")[0], frozenset())
            found = [*compare(asked, also_asked, "asked"), *compare(told, also_told, "", either)]
            self.differences += [f"{number} {step}: {what} {asked!r:.200} {each}" for each in found]
            self._has_parted |= what.startswith("Produce") and _may_part(asked, told)
        if len(mine) != len(other):
            self.differences.append(f"{number} {step}: {len(mine)} requests, {len(other)} of Kafka")
            return False
        return not self._has_parted and len(self.differences) < _ENOUGH


def _may_part(asked: Any, told: Any) -> bool:
    """Tell whether Kafka alone will end a transaction in a partition that has refused its batch."""
    return asked["transactional_id"] is not None and bool(set(codes_of(told)) & _TOO_LARGE)


def play(jars: KafkaJars, seeds: Sequence[int]) -> Iterator[tuple[int, int, list[str]]]:
    """Play histories on one pair of brokers; yield each seed, its requests and its differences."""
    with tempfile.TemporaryDirectory() as root, both(jars, Path(root), SETTINGS) as brokers:
        for seed in seeds:
            pair = Pair(draw(seed), brokers)
            pair.play()
            yield seed, pair.requests, pair.differences


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.beside", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds (100)")
    options = parser.parse_args(arguments)
    commit = find_commit(ROOT)
    kept = cache_folder() / "beside" / f"{commit}.jsonl"
    done = {}
    if commit is not None and kept.exists():
        done = {row[0]: row for row in map(json.loads, kept.read_text().splitlines())}
    wanted = range(options.first, options.first + options.seeds)
    left = [seed for seed in wanted if seed not in done]
    try:
        jars = KafkaJars.find()
    except LookupError as lack:
        print(f"beside: {lack}", file=sys.stderr)
        return 2
    for at in range(0, len(left), _OF_A_PAIR):
        for row in play(jars, left[at : at + _OF_A_PAIR]):
            done[row[0]] = row
            for each in row[2]:
                print(f"seed {row[0]}: {each}", flush=True)
            if len(done) % _TELLS_EVERY == 0:
                print(f"{len(done)} histories", flush=True)
            if commit is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                with kept.open("a") as file:
                    file.write(json.dumps(row) + "\n")
    requests = sum(done[seed][1] for seed in wanted)
    others = [seed for seed in wanted if done[seed][2]]
    print(f"{len(wanted)} histories, {requests} requests, {len(others)} with differences {others}")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
