"""Tables that change by one commit, Delta and Iceberg, and new folders of Parquet files."""

import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import DataScan, FileScanTask, Transaction

from siltstone.pipeline import engine
from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.engine import LocalEngine
from siltstone.pipeline.errors import BadOption, Refused
from siltstone.pipeline.jobs.replay import ReplaySpec, replay
from siltstone.pipeline.sinks import iceberg, staging
from siltstone.pipeline.sinks.parquet import ParquetFolder
from siltstone.pipeline.sinks.staging import (
    Conflict,
    Folder,
    ParquetFiles,
    SinkFailed,
    retried,
    write_tables,
)
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.sinks.table import TableSink, open_table
from tests.support import lakes

SCHEMA = pa.schema([("key", pa.binary()), ("offset", pa.int64())])
LOG_ENTRY = "create_write_transaction"
KINDS = ("delta:{}/d", "iceberg:{}/w/users")


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
    return [file for table in tables for file in write_tables(sink.folder, SCHEMA, [table])]


def offsets(sink: TableSink) -> list[int]:
    """Return what a reader finds."""
    found = [pq.read_table(path, columns=["offset"])["offset"] for path in sink.files()]
    return sorted(offset for column in found for offset in column.to_pylist())


def names(folder: Path) -> set[str]:
    """Return all data files below a folder, of a table or not."""
    return {path.name for path in folder.rglob("part-*.parquet")}


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of each kind that does not exist yet."""
    where: str = request.param.format(tmp_path)
    return where


@pytest.mark.slow
def test_commits(target: str) -> None:
    """A commit adds files or replaces all, and says up to where the table is."""
    sink = open_table(target)
    assert sink.state() is None
    assert sink.files() == []
    sink.commit(state("a", 4), SCHEMA, stage(sink, rows(0, 1), rows(2, 3)), replaces=True)
    assert offsets(open_table(target)) == [0, 1, 2, 3]

    sink.commit(state("b", 5), SCHEMA, stage(sink, rows(4)), replaces=False)

    again = open_table(target)
    assert offsets(again) == [0, 1, 2, 3, 4]
    assert again.state() == state("b", 5)
    again.commit(state("c", 9), SCHEMA, stage(again, rows(8)), replaces=True)
    assert offsets(again) == [8]


KEYED = pa.schema([(name, TYPES[name]) for name in ("key", "value", "partition", "offset")])


def keyed(*found: tuple[str, str | None, int, int]) -> pa.Table:
    """Return rows of key, value, partition and offset."""
    named = [
        {"key": key.encode(), "value": value and value.encode(), "partition": at, "offset": offset}
        for key, value, at, offset in found
    ]
    return pa.Table.from_pylist(named, schema=KEYED)


def held_rows(target: str) -> list[tuple[str, str, int]]:
    """Return key, value and partition of what a table has, by its own library."""
    found = lakes.read(target)
    named = [] if found is None else found.to_pylist()
    return sorted((row["key"].decode(), row["value"].decode(), row["partition"]) for row in named)


@pytest.mark.slow
@pytest.mark.parametrize("by_partition", [True, False])
def test_merges(target: str, by_partition: bool) -> None:
    """A row takes the place of those with its key, one without a value takes them away.

    The files of the changes go with the commit: a stream may never end.
    """
    sink = open_table(target)
    old = [keyed(("a", "1", 0, 0), ("b", "1", 0, 1)), keyed(("a", "1", 1, 0), ("c", "1", 1, 1))]
    files = [file for each in old for file in write_tables(sink.folder, KEYED, [each])]
    sink.commit(state("a", 2), KEYED, files, replaces=True)
    new = keyed(("a", "2", 0, 2), ("b", None, 0, 3), ("d", "2", 0, 4), ("e", None, 0, 5))
    changes = write_tables(sink.folder, KEYED, [new])

    sink.merge(LocalEngine(1), state("b", 6), KEYED, changes, by_partition=by_partition)

    other = [("a", "1", 1)] if by_partition else []
    assert held_rows(target) == sorted([("a", "2", 0), *other, ("c", "1", 1), ("d", "2", 0)])
    assert open_table(target).state() == state("b", 6)
    assert sink.folder.missing(changes) == [file.name for file in changes]


@pytest.mark.slow
def test_a_merge_by_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are rewritten in other processes, to which all that this takes is sent."""
    monkeypatch.setattr(engine, "_SMALL_BYTES", 0)
    target = f"iceberg:{tmp_path}/w/users"
    sink = open_table(target)
    old = [keyed((f"a{number}", "1", 0, 0), (f"b{number}", "1", 0, 1)) for number in range(3)]
    files = [file for each in old for file in write_tables(sink.folder, KEYED, [each])]
    sink.commit(state("a", 2), KEYED, files, replaces=True)
    changes = write_tables(sink.folder, KEYED, [keyed(("a1", "2", 0, 2), ("b2", None, 0, 3))])

    with closing(LocalEngine(2)) as processes:
        sink.merge(processes, state("b", 4), KEYED, changes, by_partition=True)

    kept = [("a0", "1", 0), ("a1", "2", 0), ("a2", "1", 0), ("b0", "1", 0), ("b1", "1", 0)]
    assert held_rows(target) == kept


def test_a_merge_of_nothing(target: str) -> None:
    """The state goes on, also where no row changes."""
    sink = open_table(target)
    files = write_tables(sink.folder, KEYED, [keyed(("a", "1", 0, 0))])
    sink.commit(state("a", 2), KEYED, files, replaces=True)
    gone = write_tables(sink.folder, KEYED, [keyed(("x", None, 0, 3))])

    for end, changes in ((4, gone), (6, [])):
        sink.merge(LocalEngine(1), state("b", end), KEYED, changes, by_partition=True)
        assert open_table(target).state() == state("b", end)

    assert held_rows(target) == [("a", "1", 0)]


def test_table_without_rows(target: str) -> None:
    """A table may be empty, and is one all the same."""
    sink = open_table(target)

    sink.commit(state("a", 0), SCHEMA, [], replaces=True)

    assert offsets(open_table(target)) == []
    assert open_table(target).state() == state("a", 0)


OTHER = pa.schema([("key", pa.string()), ("offset", pa.int64()), ("more", pa.int32())])


def test_files_of_other_columns(target: str) -> None:
    """They do not come beside those there are, and the sentence names what differs."""
    sink = open_table(target)
    sink.check(OTHER, keeps=True)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)

    sink.check(pa.schema(reversed(list(SCHEMA))), keeps=True)
    with pytest.raises(BadOption, match=r"\(key binary\) than .* \(key string, more int32\)"):
        sink.check(OTHER, keeps=True)


def test_nested_columns_are_the_same_again(target: str) -> None:
    """Each format has its own name for what is in a list."""
    sink = open_table(target)
    schema = pa.schema([(name, TYPES[name]) for name in ("key", "timestamp", "headers")])
    sink.commit(state("a", 2), schema, [], replaces=True)

    sink.check(schema, keeps=True)


def test_an_iceberg_table_keeps_its_columns(tmp_path: Path) -> None:
    """Its older snapshots are read by them."""
    sink = open_table(f"iceberg:{tmp_path}/w/users")
    sink.commit(state("a", 2), SCHEMA, [], replaces=True)

    with pytest.raises(BadOption, match="has other columns"):
        sink.check(OTHER, keeps=False)


def test_an_iceberg_table_in_a_folder_with_a_blank(tmp_path: Path) -> None:
    """Its files are in the folder that was named, and not in one with %20 in its name."""
    target = f"iceberg:{tmp_path}/a b % c/users"
    sink = open_table(target)
    sink.check(SCHEMA, keeps=False)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)

    assert {each.name for each in tmp_path.iterdir()} == {"a b % c"}
    assert offsets(open_table(target)) == [0, 1]
    with lakes.iceberg_table(target) as table:
        assert len(table.scan().to_arrow()) == 2


def test_an_iceberg_table_with_equality_deletes(tmp_path: Path) -> None:
    """Flink and Kafka Connect write them; pyiceberg does not read them, and a sentence says so."""
    target = f"iceberg:{tmp_path}/w/users"
    sink = open_table(target)
    sink.check(SCHEMA, keeps=False)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)
    (data,) = sink.files()
    with lakes.iceberg_table(target) as table, table.transaction() as change:
        deletes = parquet_file_to_data_file(table.io, table.metadata, data)
        deletes[0] = DataFileContent.EQUALITY_DELETES
        with change.update_snapshot().overwrite() as overwrite:
            overwrite.append_data_file(deletes)

    with pytest.raises(Refused, match=r"equality deletes.*rewrite them first"):
        replay(LocalEngine(1), {"bootstrap": "h:1"}, ReplaySpec(source=target, topic="t"))


def test_killed_before_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader sees the table as it was."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(DeltaTable, "create_write_transaction", killed)
    monkeypatch.setattr(iceberg, "parquet_file_to_data_file", killed)
    with pytest.raises(KeyboardInterrupt):
        sink.commit(state("b", 4), SCHEMA, stage(sink, rows(2, 3)), replaces=True)
    monkeypatch.undo()

    again = open_table(target)
    assert offsets(again) == [0, 1]
    assert again.state() == state("a", 2)


@pytest.mark.slow
def test_killed_after_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit stays, although the job does not know of it: its files are not swept."""
    sink = open_table(target)
    sink.commit(state("a", 1), SCHEMA, stage(sink, rows(0)), replaces=True)

    def killed(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), sink.held():  # noqa: PT012  # the end of both counts
        staged = stage(sink, rows(2, 3))
        monkeypatch.setattr(type(sink), "look", killed)
        sink.commit(state("b", 4), SCHEMA, staged, replaces=True)
    monkeypatch.undo()

    again = open_table(target)
    with again.held():
        assert offsets(again) == [2, 3]
        assert again.state() == state("b", 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """A commit that was made in spite of an error is not made twice, and its files stay."""
    target = kind.format(tmp_path)
    sink = open_table(target)

    def losing(commit: Callable[..., Any]) -> Callable[..., Any]:
        def lose(*arguments: Any, **named: Any) -> None:
            commit(*arguments, **named)
            raise OSError("the connection was reset")

        return lose

    with sink.held():
        sink.commit(state("a", 1), SCHEMA, stage(sink, rows(0)), replaces=True)
        with monkeypatch.context() as lost:
            for library, name in ((DeltaTable, LOG_ENTRY), (Transaction, "commit_transaction")):
                lost.setattr(library, name, losing(getattr(library, name)))
            sink.commit(state("b", 2), SCHEMA, stage(sink, rows(1)), replaces=False)
        sink.commit(state("c", 3), SCHEMA, stage(sink, rows(2)), replaces=False)

    assert offsets(open_table(target)) == [0, 1, 2]


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
        write_tables(Folder.local(f"{tmp_path}/s"), SCHEMA, [rows(0), rows(1)])

    assert not names(tmp_path)


@pytest.mark.slow
def test_full_disk_in_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that the disk refuses leaves the table as it was, and no files."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)
    kept = {Path(path).name for path in sink.files()}

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(DeltaTable, "create_write_transaction", refuse)
    monkeypatch.setattr(iceberg, "parquet_file_to_data_file", refuse)
    with pytest.raises(SinkFailed, match=r"is full; make room .* as it was"), sink.held():
        sink.commit(state("b", 4), SCHEMA, stage(sink, rows(2, 3)), replaces=True)
    monkeypatch.undo()

    assert offsets(open_table(target)) == [0, 1]
    assert open_table(target).state() == state("a", 2)
    assert names(Path(target.partition(":")[2]).parent) == kept


def test_files_of_a_size(tmp_path: Path) -> None:
    """Rows go into files of about a size, each with its rows."""
    folder = Folder.local(str(tmp_path))
    with ParquetFiles(folder, SCHEMA, file_bytes=100) as written:
        for start in range(0, 40, 10):
            written.write(rows(*range(start, start + 10)))

    assert [file.rows for file in written.staged] == [10, 10, 10, 10]


@pytest.mark.parametrize(
    "wrong", ["hudi:/x", "parquet:", "iceberg:table", "iceberg:/table", "iceberg:a.b"]
)
def test_no_such_target(wrong: str) -> None:
    """A target of no kind is named."""
    with pytest.raises(BadOption, match=r"--to"):
        open_table(wrong)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("parquet:gs://b/t", "which a job makes and none changes"),
        ("s3://b/t", "which a job makes and none changes"),
        ("users", "which a job makes and none changes"),
        ("iceberg:abfss://b/w/t", "names no catalogue"),
    ],
)
def test_no_place_for_such_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, why: str
) -> None:
    """A target that its library cannot change is refused, and no folder of its name is made."""
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Refused, match=why):
        open_table(place)

    assert list(tmp_path.iterdir()) == []


def test_another_writer_on_top(target: str) -> None:
    """The state is found below commits of other writers."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)
    lakes.OtherWriter(target).append(rows(9))

    assert open_table(target).state() == state("a", 2)


def test_a_table_of_another_writer(tmp_path: Path) -> None:
    """Where no commit has a state, nobody knows what part of a topic the rows are."""
    write_deltalake(f"{tmp_path}/d", rows(0))

    with pytest.raises(Refused, match="no commit of a job of this pipeline is known"):
        open_table(f"delta:{tmp_path}/d").state()


def test_a_table_whose_rows_were_deleted(target: str) -> None:
    """Without rows there is nothing to go on from, so the table begins again."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)
    if target.startswith("delta:"):
        DeltaTable(target[6:]).delete()
    else:
        with lakes.iceberg_table(target) as table:
            table.delete(AlwaysTrue())

    again = open_table(target)
    assert again.state() is None
    again.commit(state("b", 1), SCHEMA, stage(again, rows(5)), replaces=True)
    assert offsets(open_table(target)) == [5]
    assert open_table(target).state() == state("b", 1)


@pytest.mark.slow
@pytest.mark.parametrize("replaces", [True, False])
def test_another_writer_in_mid_job(target: str, replaces: bool) -> None:
    """A commit onto another version than the one that was read changes nothing; a later may."""
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1), rows(2)), replaces=True)
    with sink.held():
        staged = stage(sink, rows(3))
        assert sink.state() == state("a", 2)
        lakes.OtherWriter(target).append(rows(9))

        with pytest.raises(Conflict, match="another writer has changed it since it was read"):
            sink.commit(state("b", 3), SCHEMA, staged, replaces=replaces)
        assert offsets(open_table(target)) == [0, 1, 2, 9]
        sink.look()
        sink.commit(state("b", 3), SCHEMA, staged, replaces=replaces)

    assert offsets(open_table(target)) == ([3] if replaces else [0, 1, 2, 3, 9])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_another_writer_before_the_first_commit(tmp_path: Path, kind: str) -> None:
    """A table that somebody made since it was looked for is not taken over."""
    target = kind.format(tmp_path)
    sink, other = open_table(target), open_table(target)
    assert sink.state() is None
    other.commit(state("a", 2), SCHEMA, stage(other, rows(0, 1)), replaces=True)

    with pytest.raises(Conflict, match="another writer has changed it"):
        sink.commit(state("b", 3), SCHEMA, stage(sink, rows(3)), replaces=True)

    assert offsets(open_table(target)) == [0, 1]


def test_tries_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job whose every attempt meets another writer says so in one sentence."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    def attempt() -> None:
        raise staging.conflict("t", FileExistsError("version 3 exists"))

    with pytest.raises(
        Refused, match=r"\(version 3 exists\); that was so 12 times, so run the job"
    ):
        retried(attempt)
    assert len(pauses) == staging.TRIES - 1


@pytest.mark.parametrize("kind", KINDS)
def test_maintenance_keeps_the_state(tmp_path: Path, kind: str) -> None:
    """After a compaction, a vacuum and an expiry of all older snapshots a job goes on."""
    target = kind.format(tmp_path)
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), replaces=True)
    other = lakes.OtherWriter(target)

    for work in (other.compact, other.rewrite, other.vacuum, other.expire, other.rewrite):
        work()
        assert open_table(target).state() == state("a", 2)

    again = open_table(target)
    again.commit(state("b", 3), SCHEMA, stage(again, rows(2)), replaces=False)
    assert offsets(open_table(target)) == [0, 1, 2]


def test_a_restored_delta_table(tmp_path: Path) -> None:
    """A RESTORE takes back commits with their states; one to a time leaves it open to which."""
    target = f"delta:{tmp_path}/d"
    for number in range(4):
        sink = open_table(target)
        sink.commit(state("a", number), SCHEMA, stage(sink, rows(number)), replaces=False)
    DeltaTable(f"{tmp_path}/d").restore(1)

    assert open_table(target).state() == state("a", 1)
    assert offsets(open_table(target)) == [0, 1]


def test_an_iceberg_table_that_was_rolled_back(tmp_path: Path) -> None:
    """The state is that of the snapshot: not of younger ones, and also if others have expired."""
    target = f"iceberg:{tmp_path}/w/users"
    for number in range(3):
        sink = open_table(target)
        sink.commit(state("a", number), SCHEMA, stage(sink, rows(number)), replaces=False)
    with lakes.iceberg_table(target) as table:
        table.manage_snapshots().rollback_to_snapshot(table.snapshots()[1].snapshot_id).commit()
    assert open_table(target).state() == state("a", 1)
    lakes.OtherWriter(target).append(rows(9))
    assert open_table(target).state() == state("a", 1)

    lakes.OtherWriter(target).expire()
    assert open_table(target).state() == state("a", 1)

    for path in sorted((tmp_path / "w/default/users/metadata").glob("*.metadata.json"))[:-1]:
        path.unlink()
    with pytest.raises(Refused, match="its history was cleaned"):
        open_table(target).state()


def test_a_delta_table_with_one_more_column(tmp_path: Path) -> None:
    """A column that another writer has added stays, also where a merge changes no row."""
    target = f"delta:{tmp_path}/d"
    sink = open_table(target)
    files = write_tables(sink.folder, KEYED, [keyed(("a", "1", 0, 0))])
    sink.commit(state("a", 2), KEYED, files, replaces=True)
    more = keyed(("b", "1", 0, 0)).append_column("more", pa.array(["x"]))
    write_deltalake(f"{tmp_path}/d", more, mode="append", schema_mode="merge")

    again = open_table(target)
    for end, rows in ((3, keyed(("x", None, 0, 3))), (4, keyed(("a", "2", 0, 4)))):
        changes = write_tables(again.folder, KEYED, [rows])
        again.merge(LocalEngine(1), state("b", end), KEYED, changes, by_partition=True)

    assert held_rows(target) == [("a", "2", 0), ("b", "1", 0)]
    found = lakes.read(target)
    assert found is not None
    assert sorted(found["more"].to_pylist(), key=str) == [None, "x"]


def test_a_delta_table_whose_log_was_cleaned(tmp_path: Path) -> None:
    """Where the commit that had the state is gone, the rows are of unknown offsets: refused."""
    target = f"delta:{tmp_path}/d"
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), replaces=True)
    table = DeltaTable(f"{tmp_path}/d")
    table.optimize.compact()
    table.create_checkpoint()
    for commit in (tmp_path / "d/_delta_log").glob("*0.json"):
        commit.unlink()

    with pytest.raises(Refused, match="its history was cleaned"):
        open_table(target).state()


@pytest.mark.parametrize(
    "operation",
    [
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "REPLACE TABLE AS SELECT",
        "CLONE",
    ],
)
def test_a_delta_table_that_was_made_again(tmp_path: Path, operation: str) -> None:
    """CREATE OR REPLACE TABLE leaves nothing of what was before, whichever name Spark gives it."""
    target = f"delta:{tmp_path}/d"
    sink = open_table(target)
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0), rows(1)), replaces=True)
    DeltaTable.create(f"{tmp_path}/d", pa.schema(SCHEMA), mode="overwrite")
    entry = tmp_path / f"d/_delta_log/{1:020}.json"
    entry.write_text(entry.read_text().replace('"CREATE OR REPLACE TABLE"', f'"{operation}"'))
    write_deltalake(f"{tmp_path}/d", rows(5), mode="append")

    with pytest.raises(Refused, match="made it again"):
        open_table(target).state()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_a_vacuum_took(tmp_path: Path, kind: str) -> None:
    """A commit does not name a file that is gone."""
    target = kind.format(tmp_path)
    sink = open_table(target)
    staged = stage(sink, rows(0, 1))
    sink.folder.delete(staged[0].name)

    with pytest.raises(SinkFailed, match="was deleted before it was committed, as by a VACUUM"):
        sink.commit(state("b", 3), SCHEMA, staged, replaces=True)

    assert open_table(target).files() == []


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_deleted_beside_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A replay reads whole files, so it refuses one of which some rows are deleted."""
    target = kind.format(tmp_path)
    sink = open_table(target)
    sink.commit(state("a", 30), SCHEMA, stage(sink, rows(*range(30))), replaces=True)
    assert not sink.has_deleted_rows
    if kind.startswith("delta"):
        delete_by_a_vector(tmp_path / "d/_delta_log")
    else:
        plan = DataScan.plan_files

        def deleted(scan: DataScan) -> list[FileScanTask]:
            return [FileScanTask(task.file, {task.file}) for task in plan(scan)]

        monkeypatch.setattr(DataScan, "plan_files", deleted)

    with pytest.raises(BadOption, match="would be sent: rewrite those files first"):
        replay(LocalEngine(1), {"bootstrap": "h:1"}, ReplaySpec(source=target, topic="t"))


def delete_by_a_vector(log: Path) -> None:
    """Delete six rows of the only file, by a vector in the log."""
    vector = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (file,) = [action["add"] for action in actions if "add" in action]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    changes = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
        {"remove": {"path": file["path"], "dataChange": True}},
        {"add": {**file, "deletionVector": vector}},
    ]
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, changes)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_divided_table(tmp_path: Path, kind: str) -> None:
    """A job writes files of all rows, which such a table cannot have."""
    target = kind.format(tmp_path)
    if kind.startswith("delta"):
        write_deltalake(f"{tmp_path}/d", rows(0), partition_by=["offset"])
    else:
        sink = open_table(target)
        sink.commit(state("b", 3), SCHEMA, [], replaces=True)
        with lakes.iceberg_table(target) as table, table.update_spec() as update:
            update.add_identity("offset")

    with pytest.raises(BadOption, match="are divided by offset"):
        open_table(target).check(SCHEMA, keeps=True)


@pytest.mark.parametrize("kind", KINDS)
def test_two_jobs_at_once(tmp_path: Path, kind: str) -> None:
    """None takes the other's files, and the one that comes second finds the first's commit."""
    first, second = open_table(kind.format(tmp_path)), open_table(kind.format(tmp_path))
    with first.held():
        staged = stage(first, rows(0))
        assert first.state() is None
        with second.held():
            second.commit(state("b", 1), SCHEMA, stage(second, rows(1)), replaces=False)
            stage(second, rows(7))
        with pytest.raises(Conflict):
            first.commit(state("a", 1), SCHEMA, staged, replaces=False)
        first.look()
        assert first.state() == state("b", 1)
        first.commit(state("a", 2), SCHEMA, staged, replaces=False)

    assert offsets(first) == [0, 1]
    assert len(names(tmp_path)) == 2


def test_a_refused_job_leaves_nothing(target: str, tmp_path: Path) -> None:
    """A job that ends before its commit leaves no file behind."""
    sink = open_table(target)

    with sink.held():
        stage(sink, rows(0))

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.filterwarnings("error")
def test_the_catalogue_is_closed(tmp_path: Path) -> None:
    """No connection to the catalogue's database outlives a job."""
    target = f"iceberg:{tmp_path}/w/users"
    sink = open_table(target)
    with sink.held():
        sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), replaces=True)
        assert sink.state() == state("a", 2)

    opened = {path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    assert not [path for path in opened if path.name == "catalog.db"]


@pytest.mark.parametrize("count", [0, 1])
def test_a_folder_that_was_filled_meanwhile_stays_as_it_is(tmp_path: Path, count: int) -> None:
    """The job that comes second takes away its own files alone; one without rows has one, too."""
    first, second = (ParquetFolder(f"{tmp_path}/new") for _ in range(2))
    (tmp_path / "new").mkdir()
    staged = [write_tables(each.folder, SCHEMA, [rows(7)])[:count] for each in (first, second)]
    first.commit(state("first", 8), SCHEMA, staged[0], replaces=False)
    before = sorted(each.name for each in (tmp_path / "new").glob("[!_]*"))

    with pytest.raises(Conflict):
        second.commit(state("second", 8), SCHEMA, staged[1], replaces=False)

    assert sorted(each.name for each in (tmp_path / "new").glob("[!_]*")) == before
    assert len(before) == 1
    assert (tmp_path / "new/_siltstone.json").exists()


@pytest.mark.parametrize("name", ["note.txt", "part-0.parquet"])
def test_a_folder_of_somebody_elses(tmp_path: Path, name: str) -> None:
    """A job makes a new folder, and changes none that has something in it."""
    (tmp_path / name).write_text("precious")

    with pytest.raises(Refused, match=f"has {name} already"):
        ParquetFolder(str(tmp_path)).check(SCHEMA, keeps=False)
