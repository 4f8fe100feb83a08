"""Tables that change by one commit: Parquet, Delta and Iceberg."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from siltstone.pipeline.columns import TYPES
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.stream import check_topic
from siltstone.pipeline.sinks import delta, iceberg, parquet, staging
from siltstone.pipeline.sinks.staging import ParquetFiles, SinkFailed, write_tables
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.sinks.table import TableSink, open_table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

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
    return [file for table in tables for file in write_tables(sink.staging, SCHEMA, [table])]


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
    """A table of each kind that is not there yet."""
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
    """Whoever reads sees the table as it was, and the next job takes the leftovers away."""
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
    again.sweep()
    assert names(sink.path.parent) == kept


def test_killed_after_the_commit(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was committed stays, although the staging folder was not swept any more."""
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
    again.sweep()
    assert offsets(again) == [2, 3]
    assert again.state() == state("b", 4)
    assert not again.staging.exists()


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
    """A target that is none is told."""
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
    check_topic(sink, "t", "id")
    sink.commit(state("a", 2), SCHEMA, stage(sink, rows(0, 1)), None)

    check_topic(sink, "t", "id")
    check_topic(sink, "t", "")
    with pytest.raises(BadOption, match="is of topic t, and the stream of other"):
        check_topic(sink, "other", "id")
    with pytest.raises(BadOption, match="topic t was deleted and made again since"):
        check_topic(sink, "t", "another id")
