"""Files that tasks write beside a table; a commit makes them part of it.

Each attempt of a task writes under names of its own. An attempt that is thrown away, by a retry or
by speculation, leaves files that no commit names; the next job deletes them.
"""

import errno
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.pipeline.errors import PipelineError

STAGING: Final = "_staging"
ROW_GROUP_ROWS: Final = 256 << 10
FILE_BYTES: Final = 256 << 20
COMPRESSION: Final = "snappy"
NO_SPACE: Final = "No space left on device"
"""The kernel's words for it, the same in Python, Arrow and Java."""
_SUFFIX: Final = ".parquet"
_MOVED: Final = "moved.json"


class SinkFailed(PipelineError):  # noqa: N818  # as all of `pipeline.errors`
    """The table cannot be written; it is as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A Parquet file that a task has written; offsets are of its rows, both inclusive."""

    path: Path
    rows: int
    size: int
    min_offset: int = -1
    max_offset: int = -1


def path_of(uri: str) -> Path:
    """Return where a file of a table is, by a path or a file URL."""
    return Path(unquote(urlparse(uri).path) if "://" in uri else uri)


class ParquetFiles:
    """Writes tables into files of about `FILE_BYTES` in a folder; use it in a ``with``.

    Leaving the block by an exception deletes what was written.
    """

    def __init__(self, folder: Path, schema: pa.Schema, file_bytes: int = FILE_BYTES) -> None:
        self.staged: list[StagedFile] = []
        self._folder = folder
        self._schema = schema
        self._file_bytes = file_bytes
        self._path: Path | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._bytes = 0
        self._bounds: list[int] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
            return
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        for path in [*(each.path for each in self.staged), self._path]:
            if path is not None:
                path.unlink(missing_ok=True)

    def write(self, table: pa.Table) -> None:
        """Add rows, which have the schema's columns.

        Raises:
            SinkFailed: The disk is full.
        """
        if not table.num_rows:
            return
        with full_disk_told(self._folder):
            if self._writer is None:
                self._open()
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)  # type: ignore[union-attr]
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if "offset" in table.column_names:
            bounds = pc.min_max(table["offset"]).as_py()
            self._bounds += (bounds["min"], bounds["max"])
        if self._bytes >= self._file_bytes:
            self._finish()

    def _open(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._path = self._folder / f"part-{uuid.uuid4().hex}{_SUFFIX}"
        self._writer = pq.ParquetWriter(
            self._path, self._schema, compression=COMPRESSION, use_dictionary=False
        )

    def _finish(self) -> None:
        if self._writer is None or self._path is None:
            return
        with full_disk_told(self._folder):
            self._writer.close()
        self.staged.append(
            StagedFile(
                path=self._path,
                rows=self._rows,
                size=self._path.stat().st_size,
                min_offset=min(self._bounds, default=-1),
                max_offset=max(self._bounds, default=-1),
            )
        )
        self._writer = self._path = None
        self._rows = self._bytes = 0
        self._bounds = []


def write_tables(folder: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> list[StagedFile]:
    """Write tables into a staging folder and return the files.

    Raises:
        SinkFailed: The disk is full.
    """
    with ParquetFiles(folder, schema) as written:
        for table in tables:
            written.write(table)
    return written.staged


def move_into(
    folder: Path, staging: Path, job: str, staged: Iterable[StagedFile]
) -> list[StagedFile]:
    """Rename staged files into the folder of a table, where they count after a commit.

    Their names are first noted in the staging folder, for `sweep_moved`.
    """
    moved = [replace(file, path=folder / file.path.name) for file in staged]
    with full_disk_told(folder):
        folder.mkdir(parents=True, exist_ok=True)
        staging.mkdir(parents=True, exist_ok=True)
        note = {"job": job, "files": [str(file.path) for file in moved]}
        (staging / _MOVED).write_text(json.dumps(note))
        for file in moved:
            os.rename(staging / file.path.name, file.path)  # noqa: PTH104  # one file system
    return moved


def sweep(folder: Path) -> None:
    """Delete what earlier jobs have left in a staging folder."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def sweep_moved(staging: Path, was_committed: Callable[[str], bool]) -> None:
    """Delete what a killed job has left, perhaps just before its commit."""
    try:
        note = json.loads((staging / _MOVED).read_text())
    except (FileNotFoundError, ValueError):
        note = None
    if note is not None and not was_committed(note["job"]):
        for name in note["files"]:
            Path(name).unlink(missing_ok=True)
    sweep(staging)


def not_changed(table: str, moved: Iterable[StagedFile], error: Exception) -> SinkFailed:
    """Delete the files of a commit that another writer was before, and return the error for it."""
    for file in moved:
        file.path.unlink(missing_ok=True)
    return SinkFailed(f"the {table} was not changed ({error}); run the job again")


def full_disk(folder: Path) -> SinkFailed:
    """Return the error for a full disk."""
    return SinkFailed(
        f"the disk of {folder} is full; make room and run the job again: the table is as it was"
    )


@contextmanager
def full_disk_told(folder: Path) -> Iterator[None]:
    """Turn an error of a full disk into `SinkFailed`, which says what to do.

    Raises:
        SinkFailed: The disk is full.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or NO_SPACE in str(error):
            raise full_disk(folder) from error
        raise SinkFailed(
            f"{folder} can not be written ({error}); the table is as it was"
        ) from error
