"""The tasks of a snapshot: they write the last row of each key into files.

A tombstone is a row whose value is null: it removes its key from the table. A whole snapshot drops
tombstones at its end; an increment keeps them, for the table may still hold their keys.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.errors import CorruptLog
from siltstone.pipeline.latest import LatestRows, shares
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.sinks.staging import (
    Folder,
    ParquetFiles,
    StagedFile,
    row_groups,
    write_tables,
)

_MAX_SAMPLED: Final = 10_000
_READ: Final = b"rows_read"
_KEYLESS: Final = b"without_key"
_PASSED_OVER: Final = b"passed_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTask:
    """Splits of some partitions, in order, and the share of their keys that the task takes."""

    splits: tuple[Split, ...]
    share: int
    shares: int

    @property
    def size(self) -> int:
        """Return the bytes that it reads."""
        return sum(split.size for split in self.splits)


@dataclass(slots=True, kw_only=True)
class TaskResult:
    """The files of a task; those of an increment have tombstones, too."""

    files: tuple[StagedFile, ...] = ()
    rows: int = 0
    """Without the tombstones."""
    rows_read: int = 0
    tombstones: int = 0
    without_key: int = 0
    sample: frozenset[bytes] = frozenset()
    """Hashes of some of the keys, to compare with other tasks that may have the same ones."""
    has_repeats: bool = False
    """Whether a key is in several partitions of this task."""
    passed_over: int = 0
    """Damaged places, with ``onCorrupt=skip``."""


@dataclass(frozen=True, kw_only=True)
class LatestTasks:
    """The tasks of one snapshot; it is sent to the executors."""

    folder: Folder
    schema: pa.Schema
    by_time: bool
    is_increment: bool

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to scan."""
        names = tuple(self.schema.names)
        return (*names, "timestampMs") if self.by_time else names

    def share(self, task: ShareTask) -> TaskResult:
        """Keep the last row of each key of some partitions, or of a share of its keys."""
        scanned = Scanned()
        groups = groupby(task.splits, lambda split: split.topic_partition)
        parts = (self._latest(group, task, scanned) for _, group in groups)
        return self._write(parts, scanned if task.share == 0 else Scanned())

    def _latest(self, splits: Iterable[Split], task: ShareTask, scanned: Scanned) -> LatestRows:
        rows = LatestRows(by=("timestampMs", "offset") if self.by_time else ())
        for split in splits:
            for batch in scan(split, self.columns, scanned=scanned):
                if task.shares == 1:
                    rows.add(batch)
                    continue
                table = pa.Table.from_batches([batch])
                rows.rows_in += table.num_rows
                keyed = table.filter(table["key"].is_valid())
                for number, part in shares(keyed, task.shares):
                    if number == task.share:
                        rows.add_table(part, is_counted=False)
        return rows

    def all_rows(self, task: ShareTask) -> TaskResult:
        """Write all rows of some splits, tombstones and rows without a key, too."""
        scanned = Scanned()
        batches = chain.from_iterable(
            scan(split, self.columns, scanned=scanned) for split in task.splits
        )
        tables = (_shaped(table, self.schema) for table in row_groups(batches))
        files = write_tables(self.folder, self.schema, tables)
        rows = sum(file.rows for file in files)
        return TaskResult(
            files=tuple(files), rows=rows, rows_read=rows, passed_over=scanned.corrupt
        )

    def spread(self, task: ShareTask) -> Iterator[tuple[int, pa.Table]]:
        """Keep the last row of each key of a split, and yield them by the hash of the key."""
        rows = LatestRows(by=("timestampMs", "offset") if self.by_time else ())
        scanned = Scanned()
        for split in task.splits:
            for batch in scan(split, self.columns, scanned=scanned):
                rows.add(batch)
        table = rows.finish()
        counts = {
            _READ: str(rows.rows_in).encode(),
            _KEYLESS: str(rows.without_key).encode(),
            _PASSED_OVER: str(scanned.corrupt).encode(),
        }
        if table is None:
            return
        for place, part in shares(table, task.shares):
            yield place, part.replace_schema_metadata(counts)
            counts = {}
        if counts:
            yield 0, table.replace_schema_metadata(counts)

    def gather(self, _place: int, tables: Iterator[pa.Table]) -> TaskResult:
        """Keep the last row of each key of some splits, which come in any order."""
        if self.by_time:
            rows = LatestRows(by=("timestampMs", "offset"))
        else:
            rows = LatestRows(by=("offset",), keys=("key", "partition"))
        scanned = Scanned()
        for table in tables:
            counts = table.schema.metadata or {}
            scanned.corrupt += int(counts.get(_PASSED_OVER, b"0"))
            rows.rows_in += int(counts.get(_READ, b"0"))
            rows.without_key += int(counts.get(_KEYLESS, b"0"))
            rows.add_table(table.replace_schema_metadata(None), is_counted=False)
        return self._write([rows], scanned, is_sampled=False)

    def _write(
        self, parts: Iterable[LatestRows], scanned: Scanned, *, is_sampled: bool = True
    ) -> TaskResult:
        """Write the last rows of each part, which is a partition unless the parts are one."""
        result = TaskResult()
        with ParquetFiles(self.folder, self.schema) as written:
            for rows in parts:
                table = rows.finish()
                result.rows_read += rows.rows_in
                result.without_key += rows.without_key
                if table is None:
                    continue
                tombstones = table["value"].null_count
                live = table.filter(table["value"].is_valid()) if tombstones else table
                result.rows += live.num_rows
                result.tombstones += tombstones
                if not self.by_time:
                    sample = _sample_of(live["key"]) if is_sampled else frozenset()
                    result.has_repeats |= rows.has_repeats(live) or bool(result.sample & sample)
                    result.sample |= sample
                written.write(_shaped(table if self.is_increment else live, self.schema))
        result.files = tuple(written.staged)
        result.passed_over = scanned.corrupt
        return result


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of a schema, converted to text where the schema has text.

    Raises:
        CorruptLog: A value that should be text is not UTF-8.
    """
    columns = []
    for field in schema:
        column = table[field.name]
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowInvalid as error:
                raise CorruptLog(_not_text(table, field.name)) from error
        columns.append(column)
    return pa.table(columns, schema=schema)


def _not_text(table: pa.Table, name: str) -> str:
    for row in table.select([name, "partition", "offset"]).to_pylist():
        try:
            (row[name] or b"").decode()
        except UnicodeDecodeError:
            return (
                f"the {name} at offset {row['offset']} of partition {row['partition']} is not "
                "UTF-8; leave --text out and decode it yourself"
            )
    return f"a {name} is not UTF-8; leave --text out and decode it yourself"


def _sample_of(keys: pa.ChunkedArray) -> frozenset[bytes]:
    """Return hashes of some keys, the same ones in every partition: they go by the last byte."""
    last = pc.binary_slice(keys, -1) if len(keys) else keys
    chosen = keys.filter(pc.is_in(last, value_set=_SAMPLED)).to_pylist()
    return frozenset(hashlib.blake2b(key, digest_size=8).digest() for key in chosen[:_MAX_SAMPLED])


_SAMPLED: Final = pa.array([bytes([number]) for number in range(0, 256, 8)], pa.binary())
