"""A job on a table whose steps are known, a writer that meddles at them, and what must come out."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.table import Transaction

from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.jobs.snapshot import SnapshotSpec, SnapshotSummary, snapshot
from siltstone.pipeline.jobs.stream import BatchWriter, Origin, StreamSpec, StreamSummary
from siltstone.pipeline.sinks import staging
from siltstone.pipeline.sinks.lake import Lake
from siltstone.pipeline.sinks.staging import StagedFile
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.sinks.table import open_table
from tests.support.keyed_log import KeyedLog
from tests.support.lakes import Batch, OtherWriter, read

Rows = dict[tuple[int, bytes], bytes]
LAKES = ("delta:{}/table", "iceberg:{}/w/table")
MEDDLING = ("compact", "rewrite", "vacuum", "upsert", "expire")


class Killed(BaseException):
    """The process of the job ends here."""


class Watched:
    """A topic, a table of it, and a dictionary of what the table must have.

    At each step of a job ``meddle`` is called with the step's name; what it does to the table is
    followed in the dictionary by the order in which things happen.
    """

    def __init__(self, root: Path, target: str, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
        self.log = KeyedLog(root / "log", partitions=2, seed=seed)
        self.target = target.format(root)
        self.other = OtherWriter(self.target)
        self.expected: Rows = {}
        self.steps: list[str] = []
        self.meddle: Callable[[str], None] = lambda _: None
        self._offsets: dict[int, int] = {}
        self._spec = StreamSpec(topic="t", target=self.target, checkpoint=root / "checkpoint")
        self._batches = 0
        self._is_inside = False
        self._watch(monkeypatch)

    def snapshot(self, **wanted: Any) -> SnapshotSummary:
        """Take a snapshot."""
        spec = SnapshotSpec(topic="t", target=self.target, **wanted)
        return snapshot(LocalEngine(1), {"archive": str(self.log.root)}, spec)

    def stream(self) -> None:
        """Write all records as a batch of a stream: it takes those that the table lacks."""
        rows = [
            {"key": key, "value": value, "partition": partition, "offset": offset, "timestamp": 0}
            for partition, offset, key, value in self.log.records
        ]
        batch = Batch(pa.Table.from_pylist(rows, schema=self._spec.schema))
        sink = open_table(self.target)
        with sink.held():
            origin = Origin(topic_id="AAAAAAAAAAAAAAAAAAAABw")
            writer = BatchWriter(sink, self._spec, StreamSummary(), LocalEngine(1), origin)
            writer.write(batch, self._batches)  # type: ignore[arg-type]

    def upsert(self, values: Mapping[tuple[int, bytes], bytes]) -> None:
        """Put rows in place as another writer, of keys that the topic may have."""
        rows = [
            {"key": key, "value": value, "partition": partition, "offset": 0, "timestamp": 0}
            for (partition, key), value in values.items()
        ]
        self.other.upsert(pa.Table.from_pylist(rows, schema=self._spec.schema))
        self.expected |= values

    def make_again(self) -> None:
        """Delete the table, as another writer."""
        self.other.make_again()
        self.expected, self._offsets = {}, {}

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
        committed, commit = Lake.committed, Lake.commit
        replacing: list[bool] = []

        def note_mode(sink: Any, *arguments: Any, replaces: bool) -> str:
            replacing.append(replaces)
            try:
                return commit(sink, *arguments, replaces=replaces)
            finally:
                replacing.clear()

        def watch(
            sink: Lake,
            state: TableState,
            files: Sequence[StagedFile],
            work: Callable[[], Iterable[StagedFile]],
        ) -> str:
            def working() -> Iterable[StagedFile]:
                self._step("a commit begins")
                kept = work()
                self._committed(state, replaces=bool(replacing and replacing[-1]))
                self._step("it is made")
                return kept

            return committed(sink, state, files, working)

        monkeypatch.setattr(Lake, "committed", watch)
        monkeypatch.setattr(Lake, "commit", note_mode)
        for kind, name in (
            (Lake, "look"),
            (Lake, "state"),
            (Lake, "check"),
            (LocalEngine, "run"),
            (BatchWriter, "_stage"),
            (DeltaTable, "merge"),
            (DeltaTable, "create_write_transaction"),
            (Transaction, "commit_transaction"),
        ):
            self._wrap(monkeypatch, kind, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, kind: type, name: str) -> None:
        original = getattr(kind, name)
        is_commit = kind in {DeltaTable, Transaction}  # `working` has the step after it

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
    if how == "upsert":
        keys = [(chance.randrange(2), b"k%d" % chance.randrange(420)) for _ in range(3)]
        watched.upsert({key: b"other-%d" % chance.randrange(1000) for key in keys})
    else:
        getattr(watched.other, how)()
