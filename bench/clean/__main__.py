"""``make bench-clean``: our cleaner and Apache Kafka's on the same data, in one table.

    python -m bench.clean --set A --peer --rounds 5 --json bench/results/clean-2026-11-21.jsonl

Rounds alternate between the brokers, each on a fresh copy of the same folder. What is measured is
put into the file of lines, in the place of what it had of the same case, and the table is of all
that is in the file. ``bench/README.md`` says what each case answers.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clean import asking, homes, interference
from bench.clean.floor import measure_floor
from bench.clean.homes import KAFKA, SILTSTONE, SMALL_KAFKA, Contender
from bench.clean.passes import OTHERS, measure_pass
from bench.clean.report import FLOOR, Table, lines_of, merge, read
from bench.clean.sets import SETS
from bench.load import Load, cache_folder
from bench.machine import facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases import Result
    from bench.clean.sets import DataSet

Samples = dict[str, dict[str, list["Result"]]]
"""What was measured, by case and contender."""

_INTERFERENCE = "interference"
_ASKING = "asking"
_OTHERS = (_INTERFERENCE, _ASKING)
_OTHERS_CORES = 0.15
_TRIES = 3


def main(words: Sequence[str]) -> int:
    """Measure what is asked for and print the table."""
    options = _parse(words)
    path = Path(options.json) if options.json else cache_folder() / "bench" / "clean.jsonl"
    if options.show:
        print(Table(read(path)).text())
        return 0
    contenders = (SILTSTONE, KAFKA, SMALL_KAFKA) if options.peer else (SILTSTONE,)
    wanted = options.set or [each.name for each in SETS] + list(_OTHERS)
    sets = [each.scaled(options.scale) for each in SETS if each.name in wanted]
    if options.prepare:
        _prepare(sets, contenders)
        return 0
    samples = _measure_sets(sets, contenders, options.rounds)
    whole = SETS[0].scaled(options.scale)
    if _INTERFERENCE in wanted:
        samples |= _measure_interference(whole, contenders[:2], options.rounds)
    if _ASKING in wanted:
        samples |= _measure_asking(whole, options.rounds)
    about = {"scale": options.scale, **facts()}
    merged = merge(path, lines_of(samples, about))
    print(Table(merged).text())
    print(f"\n{about['machine']}, {about['date']}, commit {about['commit']}; lines in {path}")
    return 0


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.clean", description=__doc__)
    names = [each.name for each in SETS]
    parser.add_argument(
        "--set", action="append", choices=[*names, *_OTHERS], help="only this (may be repeated)"
    )
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka beside ours")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case (3)")
    parser.add_argument("--scale", type=float, default=1.0, help="records of each set, times (1)")
    parser.add_argument("--json", help="the file of lines (.cache/bench/clean.jsonl)")
    parser.add_argument("--prepare", action="store_true", help="write the sets, measure nothing")
    parser.add_argument("--show", action="store_true", help="print the table of the file only")
    return parser.parse_args(words)


def _prepare(sets: Sequence[DataSet], contenders: Sequence[Contender]) -> None:
    for data_set in sets:
        for contender in contenders:
            _say(f"{data_set.name}: preparing for {contender.name}")
            homes.home_of(contender, data_set)


def _measure_sets(sets: Sequence[DataSet], contenders: Sequence[Contender], rounds: int) -> Samples:
    samples: Samples = {}
    for data_set in sets:
        found: dict[str, list[Result]] = {each.name: [] for each in contenders}
        for turn in range(rounds):
            for contender in contenders:
                _say(f"{data_set.name}: round {turn + 1} of {rounds}, {contender.name}")
                found[contender.name].append(_measure_undisturbed(contender, data_set))
        _check_equal(data_set, found)
        found[FLOOR] = [measure_floor(data_set) for _ in range(rounds)]
        samples[data_set.name] = found
    return samples


def _measure_undisturbed(contender: Contender, data_set: DataSet) -> Result:
    """Measure a pass again if others used the machine meanwhile, but not for ever."""
    results: list[Result] = []
    while len(results) < _TRIES:
        results.append(measure_pass(contender, data_set))
        if results[-1][OTHERS] <= _OTHERS_CORES:
            break
        _say(f"  others used {results[-1][OTHERS]:.2f} cores meanwhile")
    return min(results, key=lambda result: result[OTHERS])


def _check_equal(data_set: DataSet, found: dict[str, list[Result]]) -> None:
    """Refuse figures of brokers that did not do the same."""
    left = {result["left records"] for results in found.values() for result in results}
    if len(left) != 1:
        raise RuntimeError(f"{data_set.name}: what is left differs: {found}")


def _measure_interference(
    data_set: DataSet, contenders: Sequence[Contender], rounds: int
) -> Samples:
    load = Load()
    samples: Samples = {}
    for turn in range(rounds):
        for contender in contenders:
            _say(f"interference: round {turn + 1} of {rounds}, {contender.name}")
            measured = interference.measure_interference(load, contender, data_set)
            for case, result in measured:
                samples.setdefault(case, {}).setdefault(contender.name, []).append(result)
    return samples


def _measure_asking(data_set: DataSet, rounds: int) -> Samples:
    load = Load()
    _say("explain and dry run")
    return {
        asking.EXPLAIN: {SILTSTONE.name: [asking.measure_explain(load) for _ in range(rounds)]},
        asking.DRY_RUN: {SILTSTONE.name: [asking.measure_dry_run(data_set) for _ in range(rounds)]},
    }


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
