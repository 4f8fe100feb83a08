"""Files that tasks write beside a table; a commit makes them part of it.

Each attempt of a task writes under names of its own. An attempt that is thrown away, by a retry or
by speculation, leaves files that no commit names. The job deletes them at its end; those of a
killed job stay until the table's own maintenance (VACUUM, removal of orphan files) deletes them.
"""

import errno
import random
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from siltstone.pipeline.errors import PipelineError, Refused, python_error_in
from siltstone.pipeline.stores import join

R = TypeVar("R")

ROW_GROUP_ROWS: Final = 256 << 10
_GROUP_BYTES: Final = 32 << 20
FILE_BYTES: Final = 256 << 20
COMPRESSION: Final = "snappy"
NO_SPACE: Final = "No space left on device"
"""The kernel's words for it, the same in Python, Arrow, Rust and Java."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m|↳")
_MOST_SAID: Final = 300
TRIES: Final = 12
_PAUSE_SECONDS: Final = 0.05
_MOST_SECONDS: Final = 2.0


class SinkFailed(PipelineError):  # noqa: N818  # as all of `pipeline.errors`
    """The table cannot be written; it is as it was."""


class Conflict(Refused):
    """Another writer has committed since the table was read; nothing was changed."""


def retried(attempt: Callable[[], R]) -> R:
    """Return the result of an attempt, which is made again on fresh state after a conflict.

    Raises:
        Refused: Other writers were first each time.
    """
    for number in range(TRIES):
        try:
            return attempt()
        except Conflict as error:
            if number == TRIES - 1:
                raise Refused(
                    f"{error}; that was so {TRIES} times, so run the job again when they rest"
                ) from error
            most = min(_MOST_SECONDS, _PAUSE_SECONDS * 2**number)
            time.sleep(random.uniform(most / 2, most))  # noqa: S311  # a pause is no secret
    raise AssertionError


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A Parquet file that a task has written."""

    name: str
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """The folder in which the tasks of a job write, on any file system; it is sent to them."""

    files: fs.FileSystem
    path: str
    uri: str
    """As the table's library names it."""
    run: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    """A part of the names of all files of this job."""

    @classmethod
    def local(cls, path: str) -> Self:
        """Return a folder of this machine."""
        return cls(files=fs.LocalFileSystem(), path=path, uri=path)

    def place(self, file: StagedFile) -> str:
        """Return where a file is, as the table's library names it."""
        return join(self.uri, file.name)

    def new_name(self) -> str:
        """Return a name for one more file."""
        return f"part-{self.run}-{uuid.uuid4().hex}.parquet"

    def create(self, name: str) -> pa.NativeFile:
        """Open a new file to write it."""
        self.files.create_dir(self.path, recursive=True)
        return self.files.open_output_stream(join(self.path, name))

    def read(self, file: StagedFile, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of a file, with all columns or some."""
        with self.files.open_input_file(join(self.path, file.name)) as opened:
            return pq.ParquetFile(opened).read(columns)

    def missing(self, files: Iterable[StagedFile]) -> list[str]:
        """Return the names of those files that do not exist."""
        names = [file.name for file in files]
        found = self.files.get_file_info([join(self.path, name) for name in names])
        pairs = zip(names, found, strict=True)
        return [name for name, facts in pairs if facts.type == fs.FileType.NotFound]

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with suppress(FileNotFoundError):
            self.files.delete_file(join(self.path, name))

    def sweep(self, kept: Collection[str]) -> None:
        """Delete all files of this job but some."""
        selector = fs.FileSelector(self.path, allow_not_found=True)
        for facts in self.files.get_file_info(selector):
            if facts.base_name.startswith(f"part-{self.run}-") and facts.base_name not in kept:
                self.delete(facts.base_name)


class ParquetFiles:
    """Writes tables into files of about `FILE_BYTES` in a folder; use it in a ``with``.

    Leaving the block by an exception deletes the written files.
    """

    def __init__(self, folder: Folder, schema: pa.Schema, file_bytes: int = FILE_BYTES) -> None:
        self.staged: list[StagedFile] = []
        self._folder = folder
        self._schema = schema
        self._file_bytes = file_bytes
        self._name = ""
        self._file: pa.NativeFile | None = None
        self._writer: pq.ParquetWriter | None = None
        self._rows = 0
        self._bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._finish()
            return
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None and self._file is not None:
                self._writer.close()
                self._file.close()
        for name in [*(each.name for each in self.staged), self._name]:
            if name:
                self._folder.delete(name)

    def write(self, table: pa.Table) -> None:
        """Add rows, which have the schema's columns.

        Raises:
            SinkFailed: The disk is full.
        """
        if not table.num_rows:
            return
        with full_disk_told(self._folder.uri):
            if self._writer is None:
                self._open()
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)  # type: ignore[union-attr]
        self._rows += table.num_rows
        self._bytes += table.nbytes
        if self._bytes >= self._file_bytes:
            self._finish()

    def _open(self) -> None:
        self._name = self._folder.new_name()
        self._file = self._folder.create(self._name)
        self._writer = pq.ParquetWriter(
            self._file, self._schema, compression=COMPRESSION, use_dictionary=False
        )

    def _finish(self) -> None:
        if self._writer is None or self._file is None:
            return
        with full_disk_told(self._folder.uri):
            self._writer.close()
            size = self._file.tell()
            self._file.close()
        self.staged.append(StagedFile(name=self._name, rows=self._rows, size=size))
        self._writer = self._file = None
        self._name = ""
        self._rows = self._bytes = 0


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join record batches to tables that make row groups of a good size."""
    held: list[pa.RecordBatch] = []
    total = 0
    for batch in batches:
        held.append(batch)
        total += batch.nbytes
        if total >= _GROUP_BYTES:
            yield pa.Table.from_batches(held)
            held, total = [], 0
    if held:
        yield pa.Table.from_batches(held)


def write_tables(folder: Folder, schema: pa.Schema, tables: Iterable[pa.Table]) -> list[StagedFile]:
    """Write tables into a folder and return the files.

    Raises:
        SinkFailed: The disk is full.
    """
    with ParquetFiles(folder, schema) as written:
        for table in tables:
            written.write(table)
    return written.staged


def other_writer(table: str) -> Refused:
    """Return the error for a table with rows, in whose commits no state is found."""
    return Refused(
        f"{table} has rows, and no commit of a job of this pipeline is known: another writer made "
        "it or made it again, or its history was cleaned, so its part of the topic is not known; "
        "name another table, or delete its rows to have it built from the start"
    )


def conflict(table: str, reason: Exception) -> Conflict:
    """Return the error for a table that another writer has changed."""
    return Conflict(
        f"{table} was not changed: another writer has changed it since it was read ({said(reason)})"
    )


def full_disk(place: object) -> SinkFailed:
    """Return the error for a full disk."""
    return SinkFailed(
        f"the disk of {place} is full; make room and run the job again: the table is as it was"
    )


def said(error: Exception) -> str:
    """Return an error of a library as a part of a sentence.

    Rust's has colours and many lines, and Spark's the stacks of Java and of a task.
    """
    text = python_error_in(str(error)) or str(error).partition("\n\tat ")[0]
    plain = " ".join(_COLOUR.sub("", text).split())
    return plain if len(plain) <= _MOST_SAID else f"{plain[:_MOST_SAID]} ..."


def not_written(place: object, error: Exception) -> SinkFailed:
    """Return the sentence of an error that a disk or a library reports."""
    is_full = isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}
    if is_full or NO_SPACE in str(error):
        return full_disk(place)
    return SinkFailed(f"{place} cannot be written ({said(error)}); the table is as it was")


@contextmanager
def full_disk_told(place: object) -> Iterator[None]:
    """Turn an error of a disk into `SinkFailed`, which says what to do.

    Raises:
        SinkFailed: The disk is full.
    """
    try:
        yield
    except OSError as error:
        raise not_written(place, error) from error
