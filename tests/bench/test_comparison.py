"""Cases beside Apache Kafka: our broker serves each load, and what is measured is kept."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from bench import comparison, groups, transactions
from bench.brokers import OURS, PEER, Broker
from bench.clean.passes import OTHERS
from bench.comparison import Case, Expected, Suite, Table
from bench.group_cases import Commits, Heartbeats, Memory, Rebalances
from bench.load import Load
from bench.offset_loading import Loading
from bench.stored import lines_of, read
from bench.transactions import Frames

needs_compiler = pytest.mark.skipif(
    not (shutil.which("cc") or shutil.which("gcc")), reason="cc: no C compiler for bench/load.c"
)


class Failing(NamedTuple):
    """A case whose second round fails."""

    results: list[float]
    name: str = "failing"
    expected: Mapping[str, Expected] = {}
    most_rounds: int = 3

    def prepare(self, broker: Broker, seconds: float) -> None:
        """Nothing."""

    def measure(self, broker: Broker, seconds: float) -> dict[str, float]:
        """Take the next result."""
        return {"ms": self.results.pop()}


def _measure(folder: Path, *cases: Case) -> list[dict[str, object]]:
    """Measure our broker alone, once, and return the lines that were kept."""
    words = ["--no-peer", "--rounds", "1", "--seconds", "1", "--out", str(folder)]
    comparison.main(Suite("tested", cases), "", words)
    (lines,) = folder.glob("tested-*.jsonl")
    return read(lines)


@pytest.mark.slow
@needs_compiler
def test_requests_of_groups_are_answered(tmp_path: Path) -> None:
    """The generator takes any refusal for a failure, so these were commits and heartbeats."""
    load = Load()

    lines = _measure(tmp_path, Commits(load), Heartbeats(load))

    rates = {line["case"]: line["median"] for line in lines if line["quantity"] == "requests/s"}
    assert rates.keys() == {"offset commits, 100 groups", "heartbeats, 100 groups"}
    assert all(isinstance(rate, float) and rate > 0 for rate in rates.values())


@pytest.mark.slow
def test_groups_settle_and_are_loaded(tmp_path: Path) -> None:
    """Members become stable, many groups enter, and every offset is back after a start."""
    lines = _measure(tmp_path, Rebalances(members=5), Memory(groups=20), Loading(offsets=1000))

    assert [line["quantity"] for line in lines if line["quantity"] != OTHERS] == [
        "ms after start",
        "ms after one left",
        "MiB",
        "s to all offsets",
        "s of it from the first accept",
        "longest wait ms",
    ]


@pytest.mark.slow
def test_producers_end_transactions(tmp_path: Path) -> None:
    """Each transaction has the epoch that the end of the one before gave."""
    rate, cost, _ = _measure(tmp_path, Frames(2))

    assert isinstance(rate["median"], float)
    assert rate["median"] > 0
    assert cost["quantity"] == "CPU us/transaction"


def test_what_was_measured_is_kept_when_a_round_fails(tmp_path: Path) -> None:
    """A run that is cut short has the rounds before."""
    with pytest.raises(IndexError):
        comparison.main(
            Suite("tested", [Failing([3.0, 2.0])]), "", ["--no-peer", "--out", str(tmp_path)]
        )

    (path,) = tmp_path.glob("tested-*.jsonl")
    line, _ = read(path)
    assert (line["n"], line["least"], line["most"]) == (2, 2.0, 3.0)


def test_table_judges_by_the_direction_of_a_quantity() -> None:
    """Rates are to be high, times low; a limit is of ours alone."""
    case = Rebalances()
    suite = Suite("tested", [case, Memory(groups=10_000), Frames(1)])
    lines = lines_of(
        {
            "50 members": {
                OURS: [{"ms after start": 10.0, "ms after one left": 9.0}],
                PEER: [{"ms after start": 30.0, "ms after one left": 10.0}],
            },
            "10,000 groups of one member": {OURS: [{"MiB": 30.0}], PEER: [{"MiB": 10.0}]},
            "transaction.version 2, 1 producer": {
                OURS: [{"transactions/s": 300.0}],
                PEER: [{"transactions/s": 100.0}],
            },
        },
        {},
    )

    verdicts = [row.split("|")[-2].strip() for row in Table(suite, lines).text().splitlines()[2:]]

    assert verdicts == ["≤ 0.5 met", "≤ 0.5 MISSED", "≤ 60 met", "≥ 2 met"]


@needs_compiler
def test_suites_name_every_case_once() -> None:
    """Lines are kept by the names of cases."""
    cases = [*groups.suite().cases, *transactions.suite().cases]

    assert len({case.name for case in cases}) == len(cases)
