"""A job on a table whose steps are known, a writer that meddles at them, and what must come out."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.table import Transaction

from siltstone.pipeline.engine import Engine, LocalEngine, SparkEngine
from siltstone.pipeline.errors import PipelineError
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, SnapshotSummary, snapshot
from siltstone.pipeline.jobs.stream import stream
from siltstone.pipeline.sinks import delta_spark, iceberg_spark, staging
from siltstone.pipeline.sinks.lake import Lake
from siltstone.pipeline.sinks.staging import StagedFile
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.sinks.table import open_table
from tests.support.keyed_log import KeyedLog
from tests.support.lakes import OtherWriter, read

Rows = dict[tuple[int, bytes], bytes]
LAKES = ("delta:{}/table", "iceberg:{}/w/table")
MEDDLING = ("compact", "rewrite", "vacuum", "upsert", "delete", "expire")
JOBS: "dict[str, Callable[[Watched], object]]" = {
    "whole": lambda watched: watched.snapshot(),
    "increment": lambda watched: watched.snapshot(incremental=True),
    "stream": lambda watched: watched.stream(),
}


class Killed(BaseException):
    """The process of the job ends here."""


class Watched:
    """A topic, a table of it, and a dictionary of what the table must have.

    At each step of a job ``meddle`` is called with the step's name; what it does to the table is
    followed in the dictionary by the order in which things happen.
    """

    def __init__(
        self,
        root: Path,
        target: str,
        monkeypatch: pytest.MonkeyPatch,
        seed: int,
        engine: Engine | None = None,
    ) -> None:
        self.engine = engine or LocalEngine(1)
        self.log = KeyedLog(root / "log", partitions=2, seed=seed)
        self.target = target.format(root)
        self.other = OtherWriter(self.target)
        self.expected: Rows = {}
        self.steps: list[str] = []
        self.meddle: Callable[[str], None] = lambda _: None
        self._offsets: dict[int, int] = {}
        self._moments: dict[str, tuple[Rows, dict[int, int]]] = {}
        self.is_foreign = False
        self._is_inside = False
        self._watch(monkeypatch)

    def snapshot(self, **wanted: Any) -> SnapshotSummary:
        """Take a snapshot."""
        spec = SnapshotSpec(topic="t", target=self.target, **wanted)
        return snapshot(self.engine, {"archive": str(self.log.root)}, spec)

    def stream(self) -> None:
        """Follow the topic to its end, by increments of a few records."""
        options = {"archive": str(self.log.root), "maxOffsetsPerTrigger": "25"}
        stream(self.engine, options, SnapshotSpec(topic="t", target=self.target), once=True)

    def upsert(self, values: Mapping[tuple[int, bytes], bytes]) -> None:
        """Put rows in place as another writer, of keys that the topic may have."""
        self.other.upsert(self._rows(values))
        self.expected |= values

    def delete(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Delete rows as another writer."""
        self.other.delete(keys)
        for key in keys:
            self.expected.pop(key, None)
        self.is_foreign = self.is_foreign and bool(self.expected)  # a job may fill an empty table

    def make_again(self, values: Rows | None = None) -> None:
        """Delete the table, as another writer; with rows it makes one of its own."""
        self.other.make_again()
        self.expected, self._offsets, self._moments = {}, {}, {}
        self.is_foreign = bool(values)
        if values:
            self.other.create(self._rows(values))
            self.expected |= values

    def note(self) -> None:
        """Note the version of the table, to which `restore` may go back."""
        if self.has_table():
            self._moments[self.other.version()] = dict(self.expected), dict(self._offsets)

    def restore(self, chance: random.Random) -> None:
        """Go back to one of the noted versions, as another writer."""
        versions = self.other.versions() & self._moments.keys() - {self.other.version()}
        if versions:
            version = chance.choice(sorted(versions))
            self.other.restore(version)
            expected, offsets = self._moments[version]
            self.expected, self._offsets = dict(expected), dict(offsets)

    def _rows(self, values: Mapping[tuple[int, bytes], bytes]) -> pa.Table:
        rows = [
            {"key": key, "value": value, "partition": partition, "offset": 0, "timestamp": 0}
            for (partition, key), value in values.items()
        ]
        return pa.Table.from_pylist(rows, schema=SnapshotSpec(topic="t", target="").schema)

    def has_table(self) -> bool:
        """Tell whether the table has rows."""
        return bool(open_table(self.target).files())

    def found(self) -> Rows:
        """Return what a reader finds; no key comes twice."""
        rows = read(self.target)
        found: Rows = {}
        for row in [] if rows is None else rows.to_pylist():
            at = row["partition"], row["key"]
            assert at not in found, f"{at} is in the table twice"
            found[at] = row["value"]
        return found

    def _committed(self, state: TableState, *, replaces: bool) -> None:
        """Follow a commit of a job: it has the records between the table's offsets and its own."""
        assert not self.is_foreign, "a job has changed the table of another writer"
        if replaces:
            self.expected, self._offsets = {}, {}
        for partition, offset, key, value in self.log.records:
            if self._offsets.get(partition, 0) <= offset < state.offsets.get(partition, 0):
                self.expected.pop((partition, key), None)
                if value is not None:
                    self.expected[partition, key] = value
        self._offsets = dict(state.offsets)

    def _step(self, name: str) -> None:
        if self._is_inside:
            return
        self._is_inside = True
        self.steps.append(name)
        try:
            self.meddle(name)
        finally:
            self._is_inside = False

    def _watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(staging, "_PAUSE_SECONDS", 0.0)
        committed = Lake.committed
        replacing: list[bool] = []

        def note_mode(method: Callable[..., str]) -> Callable[..., str]:
            def noted(sink: Lake, *arguments: Any, **named: Any) -> str:
                replacing.append(named.get("replaces", False))  # a job may run within a commit
                try:
                    return method(sink, *arguments, **named)
                finally:
                    replacing.pop()

            return noted

        def watch(
            sink: Lake,
            state: TableState,
            files: Sequence[StagedFile],
            work: Callable[[], Iterable[StagedFile]],
        ) -> str:
            def working() -> Iterable[StagedFile]:
                self._step("a commit begins")
                kept = work()
                self._committed(state, replaces=replacing[-1])
                self._step("it is made")
                return kept

            return committed(sink, state, files, working)

        monkeypatch.setattr(Lake, "committed", watch)
        for name in ("commit", "merge"):
            monkeypatch.setattr(Lake, name, note_mode(getattr(Lake, name)))
        for kind, name in (
            (Lake, "look"),
            (Lake, "state"),
            (Lake, "check"),
            (LocalEngine, "run"),
            (SparkEngine, "run"),
            (DeltaTable, "merge"),
            (delta_spark.SparkTable, "merge"),
            (iceberg_spark.SparkTable, "merge"),
            (DeltaTable, "create_write_transaction"),
            (Transaction, "commit_transaction"),
        ):
            self._wrap(monkeypatch, kind, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        original = getattr(kind, name)
        is_commit = kind not in {Lake, LocalEngine, SparkEngine}  # `working` has the step after it

        def wrapped(*arguments: Any, **named: Any) -> Any:
            self._step(f"before {name}")
            result = original(*arguments, **named)
            if not is_commit:
                self._step(f"after {name}")
            return result

        monkeypatch.setattr(kind, name, wrapped)


def meddle(watched: Watched, how: str, chance: random.Random) -> None:
    """Do something to the table as another writer, if it exists."""
    if not watched.has_table():
        return
    keys = [(chance.randrange(2), b"k%d" % chance.randrange(420)) for _ in range(3)]
    if how == "upsert":
        watched.upsert({key: b"other-%d" % chance.randrange(1000) for key in keys})
    elif how == "delete":
        watched.delete(keys)
    else:
        getattr(watched.other, how)()


class Schedule:
    """A random schedule of jobs and of other writers, also within jobs, which may be killed.

    Within a job another one may run, too. The table is deleted, also for one of another writer, or
    an earlier version restored; the topic is deleted and made again.
    """

    def __init__(self, watched: Watched, chance: random.Random) -> None:
        self._watched = watched
        self._chance = chance
        self._refused: list[str] = []

    def play(self, jobs: int = 12) -> None:
        """Play so many jobs; after each the table must be the expected one."""
        watched = self._watched
        for number in range(jobs):
            watched.log.write(self._chance.randrange(60))
            self._before(number)
            job = self._chance.choice(list(JOBS))
            watched.meddle = self._within
            self._run(job)
            watched.meddle = lambda _: None
            assert watched.found() == watched.expected, f"job {number}, {job}"
            watched.note()
        if watched.is_foreign:
            watched.make_again()
        watched.log.write(30)
        watched.snapshot(incremental=True)
        assert watched.found() == watched.expected
        assert not [sentence for sentence in self._refused if "\n" in sentence]

    def _before(self, number: int) -> None:
        watched, chance = self._watched, self._chance
        if chance.random() < 0.3:
            meddle(watched, chance.choice(MEDDLING), chance)
        drawn = chance.random()
        if drawn < 0.03:
            watched.log.remake(topic_id=100 + number)
        elif watched.has_table() and drawn < 0.1:
            watched.make_again({(0, b"k1"): b"foreign"} if drawn < 0.05 else None)
        elif watched.has_table() and drawn < 0.15:
            watched.restore(chance)

    def _within(self, _: str) -> None:
        drawn = self._chance.random()
        if drawn < 0.06:
            meddle(self._watched, self._chance.choice(MEDDLING), self._chance)
        elif drawn < 0.07:
            raise Killed
        elif drawn < 0.08:
            self._run(self._chance.choice(list(JOBS)))

    def _run(self, job: str) -> None:
        try:
            JOBS[job](self._watched)
        except Killed:
            pass
        except PipelineError as refusal:
            self._refused.append(str(refusal))
