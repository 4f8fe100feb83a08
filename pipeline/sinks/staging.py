"""Files that tasks write beside a table; a commit makes them part of it.

Each attempt of a task writes under names of its own. An attempt that is thrown away, by a retry or
by speculation, leaves files that no commit names; the next job deletes them.
"""

import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from siltstone.pipeline.errors import PipelineError, Refused

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


class Staging:
    """The folder beside a table in which its jobs write, one job at a time.

    A job has a folder of its own in it, and holds the folder itself by a lock, which ends with the
    process, however that ends.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / f"job-{uuid.uuid4().hex[:12]}"
        """The folder of this job."""

    @contextmanager
    def held(self, table: Path, was_committed: Callable[[str], bool]) -> Iterator[None]:
        """Keep other jobs from the table until the block ends; delete the files of killed ones.

        ``was_committed`` tells whether a commit is in the table.

        Raises:
            Refused: Another job holds it.
            SinkFailed: The place cannot be written.
        """
        missing = [each for each in (self.root, *self.root.parents) if not each.exists()]
        with full_disk_told(table):
            fd = self._lock(table)
        try:
            _sweep_left(self.root, was_committed)
            yield
        finally:
            if not _notes(self.root):  # otherwise the next job checks if it was committed
                sweep(self.root)
                with suppress(OSError):  # newer files stay
                    for each in missing[1:]:
                        each.rmdir()
            os.close(fd)

    def _lock(self, table: Path) -> int:
        while True:
            self.root.mkdir(parents=True, exist_ok=True)
            try:
                fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # an earlier job has just removed it
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.root.exists() and os.path.samestat(os.fstat(fd), self.root.stat()):
                    return fd
            except BlockingIOError as error:
                os.close(fd)
                raise Refused(
                    f"another job is writing {table}; run this one again when that has ended"
                ) from error
            except OSError:
                os.close(fd)
                raise
            os.close(fd)


def path_of(uri: str) -> Path:
    """Return where a file of a table is, by a path or a file URL."""
    return Path(unquote(urlparse(uri).path) if "://" in uri else uri)


class ParquetFiles:
    """Writes tables into files of about `FILE_BYTES` in a folder; use it in a ``with``.

    Leaving the block by an exception deletes the written files.
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

    Their names are first noted in the staging folder, for the next job if this one is killed.
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
    """Delete a staging folder."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _sweep_left(root: Path, was_committed: Callable[[str], bool]) -> None:
    """Delete the files of killed jobs, which may have been about to commit."""
    for path in _notes(root):
        try:
            note = json.loads(path.read_text())
        except ValueError:
            continue  # killed before it had moved a file
        if not was_committed(note["job"]):
            for name in note["files"]:
                Path(name).unlink(missing_ok=True)
    for left in root.iterdir():
        if left.is_dir():
            sweep(left)
        else:
            left.unlink()


def _notes(root: Path) -> list[Path]:
    return [*root.glob(_MOVED), *root.glob(f"*/{_MOVED}")]


def taken_out(there: Sequence[Path], removed: Sequence[Path] | None, table: Path) -> list[Path]:
    """Return the files that a commit takes out of a table: all of them for None.

    Raises:
        Refused: One is not in the version that was read.
    """
    if removed is None:
        return list(there)
    missing = sorted(set(removed) - set(there))
    if missing:
        raise Refused(
            f"{missing[0].name} is not in the version of {table} that was read, so the table was "
            "not changed; run the job again"
        )
    return list(removed)


def other_writer(table: Path) -> Refused:
    """Return the error for a table whose newest rows another program has written."""
    return Refused(
        f"{table} has rows, and the newest are not of a job of this pipeline: another writer made "
        "or changed it, so its part of the topic is not known; name another table, or delete "
        "its rows to have it built from the start"
    )


def not_changed(table: str, staging: Path, moved: Iterable[StagedFile], reason: object) -> Refused:
    """Delete the files of a commit, since another writer was first, and return the error."""
    for file in moved:
        file.path.unlink(missing_ok=True)
    sweep(staging)
    return Refused(
        f"the {table} was not changed: another writer has changed it since it was read "
        f"({reason}); run the job again"
    )


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
        raise SinkFailed(f"{folder} cannot be written ({error}); the table is as it was") from error
