"""Removes changed keys from the files of a table, which are rewritten, for an increment."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.pipeline.engine import Engine
from siltstone.pipeline.jobs.latest_tasks import CHANGES_SCHEMA
from siltstone.pipeline.sinks.staging import StagedFile, write_tables
from siltstone.pipeline.sinks.table import TableSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """Files that held changed keys, and those that take their place."""

    removed: list[Path] = field(default_factory=list)
    added: list[StagedFile] = field(default_factory=list)


def merge(
    engine: Engine,
    sink: TableSink,
    schema: pa.Schema,
    changes: Sequence[StagedFile],
    *,
    by_partition: bool,
) -> Merged:
    """Rewrite the files of a table that hold changed keys, without these keys.

    With ``by_partition`` the same key in another partition is another key.
    """
    paths = tuple(change.path for change in changes)
    work = partial(_rewrite, sink.staging.folder, schema, paths, by_partition)
    merged = Merged()
    files = sink.files()
    for path, replacement in zip(
        files,
        engine.run("merge", files, work, lambda path: path.stat().st_size),
        strict=True,
    ):
        if replacement is not None:
            merged.removed.append(path)
            merged.added.extend(replacement)
    return merged


def _rewrite(
    folder: Path, schema: pa.Schema, changes: Sequence[Path], by_partition: bool, path: Path
) -> list[StagedFile] | None:
    """Return the file that takes the place of a file; None if it holds no changed key."""
    changed = pa.concat_tables(
        [pq.read_table(each, schema=CHANGES_SCHEMA) for each in changes]
    ).combine_chunks()
    keys = pq.read_table(path, columns=["key", "partition"], partitioning=None)
    hit = _hits(keys, changed, by_partition=by_partition)
    if not pc.any(hit).as_py():
        return None
    table = pq.read_table(path, partitioning=None).select(schema.names).cast(schema)
    return write_tables(folder, schema, [table.filter(pc.invert(hit))])


def _hits(rows: pa.Table, changed: pa.Table, *, by_partition: bool) -> pa.ChunkedArray:
    """Tell for each row whether its key has changed."""
    keys = rows["key"].cast(pa.binary())
    if not by_partition:
        return pc.is_in(keys, value_set=changed["key"])
    hit = pa.chunked_array([pa.array([False] * rows.num_rows, pa.bool_())])
    for partition in pc.unique(rows["partition"]).to_pylist():
        there = changed.filter(pc.equal(changed["partition"], partition))["key"]
        if len(there):
            mine = pc.equal(rows["partition"], partition)
            hit = pc.or_(hit, pc.and_(mine, pc.is_in(keys, value_set=there)))
    return hit
