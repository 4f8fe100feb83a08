"""Tables that change by one commit: Parquet, Delta and Iceberg."""

import os
from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.errors import BadOption, Refused
from siltstone.pipeline.jobs.stream import BatchWriter, StreamSpec, StreamSummary, check_topic
from siltstone.pipeline.sinks import delta, iceberg, parquet, staging
from siltstone.pipeline.sinks.staging import ParquetFiles, SinkFailed, write_tables
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.sinks.table import TableSink, open_table
from siltstone.storage.clock import Clock

SCHEMA = pa.schema([("key", pa.binary()), ("offset", pa.int64())])
KINDS = ("parquet:{}/p", "delta:{}/d", "iceberg:{}/w/users")


def rows(*offsets: int) -> pa.Table:
    """Return a row for each offset."""
    return pa.table({"key": [b"%d" % at for at in offsets], "offset": offsets}, schema=SCHEMA)


def state(job: str, end: int) -> TableState:
    """Return a state that ends there."""
    return TableState(
        job=job,
        topic="t",
        topic_id="id",
        taken_at_ms=5,
        key_scope="partition",
        columns=("key binary", "offset int64"),
        offsets={0: end},
    )


def stage(sink: TableSink, *tables: pa.Table) -> list[staging.StagedFile]:
    """Write each table into a file of its own."""
    folder = sink.staging.folder
    return [file for table in tables for file in write_tables(folder, SCHEMA, [table])]


def offsets(sink: TableSink) -> list[int]:
    """Return what a reader finds."""
    paths = [str(path) for path in sink.files()]
    if not paths:
        return []
    found: list[int] = ds.dataset(paths, schema=SCHEMA).to_table()["offset"].to_pylist()
    return sorted(found)


def names(folder: Path) -> set[str]:
    """Return all data files below a folder, of a table or not."""
    return {path.name for path in folder.rglob("part-*.parquet")}


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of each kind that does not exist yet."""
    where: str = request.param.format(tmp_path)
    return where


def test_commits(target: str) -> None:
    """A commit takes files away and adds others, and says up to where the table is."""
    sink = open_table(target)
    assert sink.state() is None
    assert sink.files() == []
    first, second = stage(sink, rows(0, 1), rows(2, 3))
    sink.commit(state("a", 4), SCHEMA, [first, second], None)
    assert offsets(open_table(target)) == [0, 1, 2, 3]
    gone = [path for path in sink.files() if path.name == first.path.name]

    sink.commit(state("b", 5), SCHEMA, stage(sink, rows(4)), gone)

    again = open_table(target)
    assert offsets(again) == [2, 3, 4]
    assert again.state() == state("b", 5)
    again.commit(state("c", 9), SCHEMA, stage(again, rows(8)), None)
    assert offsets(again) == [8]


def test_table_without_rows(target: str) -> None:
    """A table may be empty, and is one all the same."""
    sink = open_table(target)

    sink.commit(state("a", 0), SCHEMA, [], None)

    assert offsets(open_table(target)) == []
    assert open_table(target).state() == state("a", 0)


OTHER = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("more", pa.int32())])


def test_files_of_other_columns(target: str) -> None:
    """They do not come beside those there are, and the sentence names what differs."""
    sink = open_table(target)
    sink.check(OTHER, keeps=True)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)

    sink.check(pa.schema(reversed(list(SCHEMA))), keeps=True)
    with pytest.raises(BadOption, match=r"\(key binary\) than .* \(key string, more int32\)"):
        sink.check(OTHER, keeps=True)


def test_nested_columns_are_the_same_again(target: str) -> None:
    """Each format has its own name for what is in a list."""
    sink = open_table(target)
    schema = pa.schema([(name, TYPES[name]) for name in ("key", "timestamp", "headers")])
    sink.commit(state("a", 2), schema, [], None)

    sink.check(schema, keeps=True)


@pytest.mark.parametrize("takes_over", [False, True])
def test_a_folder_of_somebody_elses(tmp_path: Path, takes_over: bool) -> None:
    """A table takes its folder's place, so nothing may be in it that is no table's."""
    (tmp_path / "note.txt").write_text("precious")
    sink = open_table(f"parquet:{tmp_path}")

    with pytest.raises(BadOption, match=r"has note\.txt, which would go; name another folder"):
        sink.check(SCHEMA, keeps=False, takes_over=takes_over)


def test_parquet_of_somebody_elses(tmp_path: Path) -> None:
    """Files that no job has written go only where that is what was asked for."""
    pq.write_table(rows(1), tmp_path / "part-0.parquet")
    (tmp_path / "_SUCCESS").touch()
    sink = open_table(f"parquet:{tmp_path}")

    sink.check(SCHEMA, keeps=True, takes_over=True)
    with pytest.raises(BadOption, match="is no table of ours"):
        sink.check(SCHEMA, keeps=False)


def test_an_iceberg_table_keeps_its_columns(tmp_path: Path) -> None:
    """Its older snapshots are read by them."""
    sink = open_table(f"iceberg:{tmp_path}/w/users")
    sink.commit(state("a", 2), SCHEMA, [], None)

    with pytest.raises(BadOption, match="has other columns"):
        sink.check(OTHER, keeps=False)


def test_killed_before_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the table as it was, and the next job takes the leftovers away."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)
    kept = {path.name for path in sink.files()}

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(parquet, "exchange", killed)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", killed)
    monkeypatch.setattr(iceberg.IcebergSink, "overwrite", killed)
    with pytest.raises(KeyboardInterrupt):
        sink.commit(state("b", 4), SCHEMA, stage(sink, rows(2, 3)), None)
    monkeypatch.undo()

    again = open_table(target)
    assert offsets(again) == [0, 1]
    assert again.state() == state("a", 2)
    with again.held():
        assert names(sink.path.parent) == kept


def test_killed_after_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit stays, although the staging folder was not swept any more."""
    sink = open_table(target)
    sink.commit(state("a", 1), SCHEMA, stage(sink, rows(0)), None)

    def killed(_: Path) -> None:
        raise KeyboardInterrupt

    for module in (parquet, delta, iceberg):
        monkeypatch.setattr(module, "sweep", killed)
    with pytest.raises(KeyboardInterrupt):
        sink.commit(state("b", 4), SCHEMA, stage(sink, rows(2, 3)), None)
    monkeypatch.undo()

    again = open_table(target)
    with again.held():
        assert offsets(again) == [2, 3]
        assert again.state() == state("b", 4)
    assert not again.staging.root.exists()


def test_full_disk_while_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task on a full disk says so in a sentence and takes its files away."""
    write = pq.ParquetWriter.write_table
    calls: list[int] = []

    def fill(self: object, table: pa.Table, **options: object) -> None:
        calls.append(table.num_rows)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        write(self, table, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fill)
    with pytest.raises(SinkFailed, match="is full; make room"):
        write_tables(tmp_path / "s", SCHEMA, [rows(0), rows(1)])

    assert not names(tmp_path)


def test_full_disk_in_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that the disk refuses leaves the table as it was."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)
    staged = stage(sink, rows(2, 3))

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(SinkFailed, match="as it was"):
        sink.commit(state("b", 4), SCHEMA, staged, None)
    monkeypatch.undo()

    assert offsets(open_table(target)) == [0, 1]
    assert open_table(target).state() == state("a", 2)


def test_files_of_a_size(tmp_path: Path) -> None:
    """Rows go into files of about a size, which tell their offsets."""
    with ParquetFiles(tmp_path, SCHEMA, file_bytes=100) as written:
        for start in range(0, 40, 10):
            written.write(rows(*range(start, start + 10)))

    assert [(file.rows, file.min_offset, file.max_offset) for file in written.staged] == [
        (10, 0, 9),
        (10, 10, 19),
        (10, 20, 29),
        (10, 30, 39),
    ]


@pytest.mark.parametrize("wrong", ["hudi:/x", "parquet:", "iceberg:table", "iceberg:/table"])
def test_no_such_target(wrong: str) -> None:
    """A target of no kind is named."""
    with pytest.raises(BadOption, match=r"--to"):
        open_table(wrong)


def test_readers_of_parquet_see_one_state(tmp_path: Path) -> None:
    """The folder is exchanged: no listing ever mixes two states."""
    sink = open_table(f"parquet:{tmp_path}/p")
    seen: set[tuple[str, ...]] = set()
    states: set[tuple[str, ...]] = set()
    for number in range(20):
        staged: Iterable[staging.StagedFile] = stage(sink, rows(number), rows(number + 100))
        states.add(tuple(sorted(file.path.name for file in staged)))
        sink.commit(state(str(number), number), SCHEMA, staged, None)
        seen.add(tuple(path.name for path in sink.files()))

    assert seen == states


def test_a_stream_into_the_table_of_another_topic(target: str) -> None:
    """Its offsets say nothing of this one: rows below them would be taken for known."""
    sink = open_table(target)
    spec = StreamSpec(topic="t", target=target, checkpoint=sink.path)
    check_topic(sink, spec, "id")
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)

    check_topic(sink, spec, "id")
    check_topic(sink, spec, "")
    with pytest.raises(BadOption, match="is of topic t, and the stream of other"):
        check_topic(sink, replace(spec, topic="other"), "id")
    with pytest.raises(BadOption, match="topic t was deleted and made again since"):
        check_topic(sink, spec, "another id")


class Batch:
    """The part of Spark's DataFrame that a stream uses: it is written as Parquet."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self.write = self

    def select(self, columns: list[str]) -> "Batch":
        """Return the batch with these columns."""
        return Batch(self._rows.select(columns))

    def mode(self, _: str) -> "Batch":
        """Return the batch: its folder is new."""
        return self

    def parquet(self, folder: str) -> None:
        """Write the rows."""
        Path(folder).mkdir(parents=True)
        pq.write_table(self._rows, Path(folder) / "part-0.parquet")


@pytest.mark.parametrize("upsert", [False, True])
def test_batches_of_a_stream(target: str, upsert: bool) -> None:
    """Each offset counts once; also a first batch without rows leaves a table to go on from."""
    sink = open_table(target)
    spec = StreamSpec(topic="t", target=target, checkpoint=Path("c"), upsert=upsert)
    with sink.held():
        writer = BatchWriter(sink, spec, StreamSummary(), Clock(), "id")

        def write(number: int, *offsets: int) -> None:
            values = {
                "key": [b"k%d" % (at % 2) for at in offsets],
                "value": [b"v%d" % at for at in offsets],
                "partition": [0] * len(offsets),
                "offset": offsets,
                "timestamp": [0] * len(offsets),
            }
            writer.write(Batch(pa.table(values, schema=spec.schema)), number)  # type: ignore[arg-type]

        write(0)
        write(1, 0, 1, 2)
        write(1, 0, 1, 2)
        write(2, 3)

    found = ds.dataset([str(path) for path in sink.files()]).to_table()["offset"].to_pylist()
    assert sorted(found) == ([2, 3] if upsert else [0, 1, 2, 3])
    held = sink.state()
    assert held is not None
    assert held.offsets == {0: 4}


def test_a_checkpoint_that_is_further_than_its_table(target: str) -> None:
    """The second batch finds no table: what the first one wrote was taken away."""
    sink = open_table(target)
    spec = StreamSpec(topic="t", target=target, checkpoint=Path("c"))
    with sink.held(), pytest.raises(Refused, match="the checkpoint c has: the table was taken"):
        BatchWriter(sink, spec, StreamSummary(), Clock()).write(None, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", ["record", "topic", "export"])
def test_a_stream_into_a_table_of_other_rows(target: str, scope: str) -> None:
    """A merge by partition and key is right only beside rows that were kept in the same way."""
    sink = open_table(target)
    spec = StreamSpec(topic="t", target=target, checkpoint=sink.path)
    held = replace(state("a", 2), key_scope=scope)
    sink.commit(held, SCHEMA, stage(sink, rows(0, 1)), None)

    with pytest.raises(BadOption, match="this stream keeps the last row of each key"):
        check_topic(sink, spec, "id")


def test_no_uri_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A target in object storage is refused, and no folder of its name is made."""
    monkeypatch.chdir(tmp_path)

    for target in ("delta:s3://b/t", "parquet:gs://b/t", "iceberg:abfss://b/w/t", "hdfs://n/t"):
        with pytest.raises(Refused, match="is no place that can be written"):
            open_table(target)

    assert list(tmp_path.iterdir()) == []


def append_elsewhere(target: str, *offsets: int) -> None:
    """Add rows as another writer does, which knows of no state."""
    sink = open_table(target)
    if isinstance(sink, delta.DeltaSink):
        write_deltalake(str(sink.path), rows(*offsets), mode="append")
    elif isinstance(sink, iceberg.IcebergSink):
        table = sink.open()
        assert table is not None
        with closing(table.catalog):
            table.append(rows(*offsets))
    else:
        pq.write_table(rows(*offsets), sink.path / "part-of-another.parquet")


def test_another_writer_on_top(target: str) -> None:
    """A table whose newest rows are another writer's has no state to go on from."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)
    append_elsewhere(target, 9)

    with pytest.raises(Refused, match="the newest are not of a job of this pipeline"):
        open_table(target).state()


def test_a_table_whose_rows_were_deleted(target: str) -> None:
    """Without rows there is nothing to go on from, so another writer's commit does not matter."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)
    append_elsewhere(target, 9)
    if isinstance(sink, delta.DeltaSink):
        DeltaTable(str(sink.path)).delete()
    elif isinstance(sink, iceberg.IcebergSink):
        table = sink.open()
        assert table is not None
        with closing(table.catalog):
            table.delete(AlwaysTrue())
    else:
        for path in sink.path.glob("*.parquet"):
            path.unlink()

    again = open_table(target)
    assert again.state() is None
    again.commit(state("b", 1), SCHEMA, stage(again, rows(5)), None)
    assert offsets(open_table(target)) == [5]
    assert open_table(target).state() == state("b", 1)


def test_another_writer_in_mid_job(target: str) -> None:
    """A commit onto another version than the one that was read changes nothing."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1), rows(2)), None)
    with sink.held():
        assert sink.state() == state("a", 2)
        gone = sink.files()[:1]
        append_elsewhere(target, 9)

        for removed in (gone, None, []):
            with pytest.raises(Refused, match="another writer has changed it since it was read"):
                sink.commit(state("b", 3), SCHEMA, stage(sink, rows(3)), removed)

    assert offsets(open_table(target)) == [0, 1, 2, 9]
    assert not sink.staging.root.exists()
    assert len(list(sink.path.rglob("*.parquet"))) == 3


@pytest.mark.parametrize("kind", KINDS[1:])
def test_another_writer_before_the_first_commit(tmp_path: Path, kind: str) -> None:
    """A table that somebody made since it was looked for is not taken over."""
    target = kind.format(tmp_path)
    sink, other = open_table(target), open_table(target)
    assert sink.state() is None
    other.commit(state("a", 2), SCHEMA, stage(other, rows(0, 1)), None)

    with pytest.raises(Refused, match="another writer has changed it"):
        sink.commit(state("b", 3), SCHEMA, stage(sink, rows(3)), None)

    assert offsets(open_table(target)) == [0, 1]


def test_a_compaction_keeps_the_state(tmp_path: Path) -> None:
    """Delta's OPTIMIZE, VACUUM and properties change no row: the state below is the table's."""
    target = f"delta:{tmp_path}/d"
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), None)
    table = DeltaTable(str(sink.path))
    table.optimize.compact()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})

    again = open_table(target)
    assert again.state() == state("a", 2)
    again.commit(state("b", 3), SCHEMA, stage(again, rows(2)), again.files())
    assert offsets(open_table(target)) == [2]


def test_a_delta_table_whose_log_was_cleaned(tmp_path: Path) -> None:
    """Where the commit that had the state is gone, the rows are of unknown offsets: refused."""
    target = f"delta:{tmp_path}/d"
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), None)
    table = DeltaTable(str(sink.path))
    table.optimize.compact()
    table.create_checkpoint()
    for commit in (sink.path / "_delta_log").glob("*0.json"):
        commit.unlink()

    with pytest.raises(Refused, match="the newest are not of a job"):
        open_table(target).state()


def test_iceberg_replacement_keeps_the_state(tmp_path: Path) -> None:
    """A snapshot that only replaces files has the rows of before, and so their state."""
    target = f"iceberg:{tmp_path}/w/users"
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), None)
    assert isinstance(sink, iceberg.IcebergSink)
    table = sink.open()
    assert table is not None
    newest = table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    replaced = newest.model_copy(
        update={
            "snapshot_id": newest.snapshot_id + 1,
            "parent_snapshot_id": newest.snapshot_id,
            "sequence_number": (newest.sequence_number or 0) + 1,
            "summary": Summary(Operation.REPLACE),
        }
    )
    with closing(table.catalog), table.transaction() as transaction:
        head = {"ref-name": "main", "type": "branch", "snapshot-id": replaced.snapshot_id}
        update = SetSnapshotRefUpdate.model_validate(head)
        transaction._apply((AddSnapshotUpdate(snapshot=replaced), update))

    assert open_table(target).state() == state("a", 2)


def test_a_file_that_is_not_there_is_not_taken_out(target: str) -> None:
    """A commit that would remove a file of another version changes nothing."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)

    with pytest.raises(Refused, match=r"part-gone\.parquet is not in the version"):
        sink.commit(state("b", 3), SCHEMA, [], [sink.path / "part-gone.parquet"])

    assert offsets(open_table(target)) == [0, 1]


def test_two_jobs_at_once(target: str) -> None:
    """The second is refused in a sentence, and what the first has staged stays."""
    first, second = open_table(target), open_table(target)
    with first.held():
        staged = stage(first, rows(0))
        with pytest.raises(Refused, match=r"another job is writing .*; run this one again"):
            second.held().__enter__()
        first.commit(state("a", 1), SCHEMA, staged, None)
    with second.held():
        assert second.state() == state("a", 1)


def test_a_refused_job_leaves_nothing(target: str, tmp_path: Path) -> None:
    """A job that ends before its commit leaves no folder behind."""
    sink = open_table(target)

    with sink.held():
        stage(sink, rows(0))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("error")
def test_the_catalogue_is_closed(tmp_path: Path) -> None:
    """No connection to the catalogue's database outlives a job."""
    target = f"iceberg:{tmp_path}/w/users"
    sink = open_table(target)
    with sink.held():
        sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)
        assert sink.state() == state("a", 2)

    opened = {path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    assert not [path for path in opened if path.name == "catalog.db"]
