"""The tasks of a snapshot: they write the last row of each key into files.

A tombstone is a row whose value is null: it removes its key from the table. A whole snapshot drops
tombstones at its end; an increment keeps them, for the table may still hold their keys.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.errors import CorruptLog
from siltstone.pipeline.latest import LatestRows, shares
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scan import scan
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.pipeline.sinks.staging import Folder, StagedFile, write_tables

_MAX_SAMPLED: Final = 10_000
_READ: Final = b"rows_read"
_KEYLESS: Final = b"without_key"
_PASSED_OVER: Final = b"passed_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareTask:
    """Splits of one partition in order, and the share of their keys that the task takes."""

    splits: tuple[Split, ...]
    share: int
    shares: int

    @property
    def size(self) -> int:
        """Return the bytes that it reads."""
        return sum(split.size for split in self.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The files of a task; those of an increment have tombstones, too."""

    files: tuple[StagedFile, ...]
    rows: int
    """Without the tombstones."""
    rows_read: int
    tombstones: int
    without_key: int
    sample: frozenset[bytes]
    """Hashes of some of the keys, to compare with other tasks that may have the same ones."""
    has_repeats: bool
    """Whether a key is in several partitions of this task."""
    passed_over: int
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
        """Keep the last row of each key of a partition, or of a share of its keys."""
        rows = LatestRows(by=("timestampMs", "offset") if self.by_time else ())
        scanned = Scanned()
        for split in task.splits:
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
        return self._write(rows, scanned.corrupt if task.share == 0 else 0)

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
        passed_over = 0
        for table in tables:
            counts = table.schema.metadata or {}
            passed_over += int(counts.get(_PASSED_OVER, b"0"))
            rows.rows_in += int(counts.get(_READ, b"0"))
            rows.without_key += int(counts.get(_KEYLESS, b"0"))
            rows.add_table(table.replace_schema_metadata(None), is_counted=False)
        return self._write(rows, passed_over, is_sampled=False)

    def append(self, tables: Iterable[pa.Table]) -> list[StagedFile]:
        """Write all rows of some tables, tombstones too."""
        return write_tables(
            self.folder, self.schema, (_shaped(each, self.schema) for each in tables)
        )

    def _write(self, rows: LatestRows, passed_over: int, *, is_sampled: bool = True) -> TaskResult:
        table = rows.finish()
        files: list[StagedFile] = []
        sample: frozenset[bytes] = frozenset()
        has_repeats = False
        live_rows = tombstones = 0
        if table is not None:
            tombstones = table["value"].null_count
            live = table.filter(table["value"].is_valid()) if tombstones else table
            if not self.by_time:
                sample = _sample_of(live["key"]) if is_sampled else sample
                has_repeats = rows.has_repeats(live)
            live_rows = live.num_rows
            written = table if self.is_increment else live
            files = write_tables(self.folder, self.schema, [_shaped(written, self.schema)])
        return TaskResult(
            files=tuple(files),
            rows=live_rows,
            rows_read=rows.rows_in,
            tombstones=tombstones,
            without_key=rows.without_key,
            sample=sample,
            has_repeats=has_repeats,
            passed_over=passed_over,
        )


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
