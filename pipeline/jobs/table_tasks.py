"""The tasks of a table: they write the last row of each key, or every row, into files.

A tombstone is a row whose value is null: it removes its key from the table. A whole snapshot drops
tombstones at its end; an increment keeps them, for the table may still hold their keys.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby
from typing import Final

import pyarrow as pa

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

_READ: Final = b"rows_read"
_KEYLESS: Final = b"without_key"
_PASSED_OVER: Final = b"passed_over"


@dataclass(slots=True, kw_only=True)
class TaskResult:
    """The files of a task; those of an increment have tombstones, too."""

    files: tuple[StagedFile, ...] = ()
    rows: int = 0
    """Without the tombstones."""
    rows_read: int = 0
    tombstones: int = 0
    without_key: int = 0
    passed_over: int = 0
    """Damaged places, with ``onCorrupt=skip``."""


@dataclass(frozen=True, kw_only=True)
class TableTasks:
    """The tasks of one table; it is sent to the executors."""

    folder: Folder
    schema: pa.Schema
    by_time: bool = False
    is_increment: bool = False

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to scan."""
        names = tuple(self.schema.names)
        return (*names, "timestampMs") if self.by_time else names

    def last_rows(self, splits: Sequence[Split]) -> TaskResult:
        """Write the last row of each key of some partitions, whose splits are in order."""
        scanned = Scanned()
        groups = groupby(splits, lambda split: split.topic_partition)
        return self._write((self._latest(group, scanned) for _, group in groups), scanned)

    def all_rows(self, splits: Sequence[Split]) -> TaskResult:
        """Write all rows of some splits, tombstones and rows without a key, too."""
        scanned = Scanned()
        batches = chain.from_iterable(
            scan(split, self.columns, scanned=scanned) for split in splits
        )
        files = write_tables(self.folder, self.schema, row_groups(batches))
        rows = sum(file.rows for file in files)
        return TaskResult(
            files=tuple(files), rows=rows, rows_read=rows, passed_over=scanned.corrupt
        )

    def spread(self, places: int, splits: Sequence[Split]) -> Iterator[tuple[int, pa.Table]]:
        """Keep the last row of each key of a split, and yield them by the hash of the key."""
        scanned = Scanned()
        rows = self._latest(splits, scanned)
        table = rows.finish()
        counts = {
            _READ: str(scanned.records).encode(),
            _KEYLESS: str(rows.without_key).encode(),
            _PASSED_OVER: str(scanned.corrupt).encode(),
        }
        if table is None:
            return
        for place, part in shares(table, places):
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
            scanned.records += int(counts.get(_READ, b"0"))
            rows.without_key += int(counts.get(_KEYLESS, b"0"))
            rows.add_table(table.replace_schema_metadata(None))
        return self._write([rows], scanned)

    def _latest(self, splits: Iterable[Split], scanned: Scanned) -> LatestRows:
        rows = LatestRows(by=("timestampMs", "offset") if self.by_time else ())
        for split in splits:
            for batch in scan(split, self.columns, scanned=scanned):
                rows.add(batch)
        return rows

    def _write(self, parts: Iterable[LatestRows], scanned: Scanned) -> TaskResult:
        result = TaskResult()
        with ParquetFiles(self.folder, self.schema) as written:
            for rows in parts:
                table = rows.finish()
                result.without_key += rows.without_key
                if table is None:
                    continue
                tombstones = table["value"].null_count
                live = table.filter(table["value"].is_valid()) if tombstones else table
                result.rows += live.num_rows
                result.tombstones += tombstones
                kept = table if self.is_increment else live
                written.write(kept.select(self.schema.names))
        result.files = tuple(written.staged)
        result.rows_read, result.passed_over = scanned.records, scanned.corrupt
        return result


def size_of(splits: Sequence[Split]) -> int:
    """Return the bytes that a task reads."""
    return sum(split.size for split in splits)
