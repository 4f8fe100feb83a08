"""``make bench-clean``: our cleaner and Apache Kafka's on the same data, in one table.

    python -m bench.clean --set A --peer --rounds 5 --json bench/results/clean-2026-11-21.jsonl

Rounds alternate between the brokers, each on a fresh copy of the same folder. What is measured is
put into the file of lines, in the place of what it had of the same case, and the table is of all
that is in the file. ``bench/README.md`` says what each case answers.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.clean import asking, homes, interference
from bench.clean.floor import measure_floor
from bench.clean.homes import KAFKA, SILTSTONE, SMALL_KAFKA, Contender
from bench.clean.passes import OTHERS, measure_pass
from bench.clean.report import CANNED, FLOOR, Table
from bench.clean.sets import SETS
from bench.load import Load, cache_folder
from bench.machine import facts
from bench.stored import lines_of, merge, read

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.cases import Result
    from bench.clean.sets import DataSet

Samples = dict[str, dict[str, list["Result"]]]
"""Results, by case and contender."""

_INTERFERENCE = "interference"
_ASKING = "asking"
_OTHERS = (_INTERFERENCE, _ASKING)
_OTHERS_CORES = 0.3


def main(words: Sequence[str]) -> int:
    """Measure what is asked for and print the table."""
    options = _parse(words)
    path = Path(options.json) if options.json else cache_folder() / "bench" / "clean.jsonl"
    if options.show:
        _print_table(Table(read(path)))
        return 0
    contenders = (SILTSTONE, KAFKA, SMALL_KAFKA) if options.peer else (SILTSTONE,)
    wanted = options.set or [each.name for each in SETS] + list(_OTHERS)
    sets = [each.scaled(options.scale) for each in SETS if each.name in wanted]
    whole = SETS[0].scaled(options.scale)
    if options.prepare:
        _prepare(sets, contenders)
        if _INTERFERENCE in wanted:
            _prepare([whole], contenders[:2], interference.COPIES)
        return 0
    about = {"scale": options.scale, **facts()}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    samples: Samples = {}
    try:
        _measure_sets(samples, sets, contenders, options)
        if _INTERFERENCE in wanted:
            _measure_interference(samples, whole, contenders[:2], options.rounds)
        if _ASKING in wanted:
            _measure_asking(samples, whole, options.rounds)
    finally:  # a run that is interrupted keeps its measurements
        merged = merge(path, lines_of(samples, about))
    _print_table(Table(merged))
    print(f"\nlines in {path}")
    return 0


def _print_table(table: Table) -> None:
    print(f"{table.text()}\n\nMedian (least-most). {table.about()}.")


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.clean", description=__doc__)
    names = [each.name for each in SETS]
    parser.add_argument(
        "--set", action="append", choices=[*names, *_OTHERS], help="only this (may be repeated)"
    )
    parser.add_argument("--peer", action="store_true", help="measure Apache Kafka beside ours")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case (3)")
    parser.add_argument("--tries", type=int, default=2, help="of a round that others disturb (2)")
    parser.add_argument("--scale", type=float, default=1.0, help="records of each set, times (1)")
    parser.add_argument("--json", help="the file of lines (.cache/bench/clean.jsonl)")
    parser.add_argument("--prepare", action="store_true", help="write the sets, measure nothing")
    parser.add_argument("--show", action="store_true", help="print the table of the file only")
    return parser.parse_args(words)


def _prepare(sets: Sequence[DataSet], contenders: Sequence[Contender], partitions: int = 1) -> None:
    for data_set in sets:
        for contender in contenders:
            _say(f"{data_set.name}: preparing for {contender.name}")
            homes.home_of(contender, data_set, partitions)


def _measure_sets(
    samples: Samples,
    sets: Sequence[DataSet],
    contenders: Sequence[Contender],
    options: argparse.Namespace,
) -> None:
    for data_set in sets:
        found: dict[str, list[Result]] = {each.name: [] for each in contenders}
        found[FLOOR] = [measure_floor(data_set)]
        samples[data_set.name] = found
        for turn in range(options.rounds):
            for contender in contenders:
                _say(f"{data_set.name}: round {turn + 1} of {options.rounds}, {contender.name}")
                result = _measure_undisturbed(contender, data_set, options.tries)
                found[contender.name].append(result)
            found[FLOOR].append(measure_floor(data_set))
        if not _is_equal(found):
            del samples[data_set.name]
            raise RuntimeError(f"{data_set.name}: what is left differs: {found}")


def _measure_undisturbed(contender: Contender, data_set: DataSet, tries: int) -> Result:
    """Measure a pass again if others used the machine meanwhile, but not for ever."""
    results: list[Result] = []
    while len(results) < tries:
        results.append(measure_pass(contender, data_set))
        if results[-1][OTHERS] <= _OTHERS_CORES:
            break
        _say(f"  others used {results[-1][OTHERS]:.2f} cores meanwhile")
    return min(results, key=lambda result: result[OTHERS])


def _is_equal(found: dict[str, list[Result]]) -> bool:
    """Tell whether all brokers left the same number of records."""
    passes = [result for name in found if name != FLOOR for result in found[name]]
    return len({result["left records"] for result in passes}) == 1


def _measure_interference(
    samples: Samples, data_set: DataSet, contenders: Sequence[Contender], rounds: int
) -> None:
    load = Load()
    for turn in range(rounds):
        for contender in contenders:
            _say(f"interference: round {turn + 1} of {rounds}, {contender.name}")
            measured = interference.measure_interference(load, contender, data_set)
            for case, result in measured:
                samples.setdefault(case, {}).setdefault(contender.name, []).append(result)
        for case, result in interference.measure_floor(load, data_set):
            samples.setdefault(case, {}).setdefault(CANNED, []).append(result)


def _measure_asking(samples: Samples, data_set: DataSet, rounds: int) -> None:
    load = Load()
    explained = samples.setdefault(asking.EXPLAIN, {}).setdefault(SILTSTONE.name, [])
    predicted = samples.setdefault(asking.DRY_RUN, {}).setdefault(SILTSTONE.name, [])
    for turn in range(rounds):
        _say(f"explain and dry run: round {turn + 1} of {rounds}")
        explained.append(asking.measure_explain(load))
        predicted.append(asking.measure_dry_run(data_set))


def _say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
