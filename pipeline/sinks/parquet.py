"""A folder of Parquet files that is exchanged as a whole.

A commit builds the next folder beside the table and exchanges the two names in one system call, so
a reader finds either the old or the new files. Files that stay are linked, not copied.
"""

import ctypes
import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption, Refused
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.staging import (
    Folder,
    StagedFile,
    conflict,
    full_disk_told,
    other_writer,
)
from siltstone.pipeline.sinks.state import TableState, check_columns
from siltstone.storage import files

STATE_FILE: Final = "_siltstone.json"
"""Readers ignore names that begin with an underscore."""
_FILES: Final = "files"
"""In the state file: the names of the files that the job left."""

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


class ParquetTable:
    """The folder ``path``.

    All methods use the folder of one moment. A commit is refused if it has changed since.
    """

    has_deleted_rows: ClassVar[bool] = False
    """Whether some rows of the files count no more."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.place = str(self.path)
        self.staging = self.path.with_name(f".{self.path.name}-staging")
        self.folder = Folder.local(str(self.staging / f"job-{uuid.uuid4().hex[:12]}"))
        """Where tasks write."""

    def compact(self, _: Engine) -> None:
        """Do nothing: files are put together by no library."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from the table until the block ends; delete the files of killed ones.

        A job holds the staging folder by a lock, which ends with the process, however that ends.

        Raises:
            Refused: Another job holds it.
            SinkFailed: The place cannot be written.
        """
        missing = [each for each in self.path.parents if not each.exists()]
        with full_disk_told(self.path):
            fd = self._lock()
        try:
            for left in self.staging.iterdir():
                shutil.rmtree(left)
            self.look()
            yield
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)
            with suppress(OSError):  # newer files stay
                for each in missing:
                    each.rmdir()
            os.close(fd)

    def look(self) -> None:
        """Use the present folder from now on."""
        self.__dict__.pop("_seen", None)

    def state(self) -> TableState | None:
        """Return the state of the table; None if it has no files.

        Raises:
            Refused: It has files that the last job did not leave.
        """
        there = {path.name for path in self._seen.files}
        text = self._seen.state
        if not there:
            return None
        if text is None:
            raise other_writer(self.place)
        state = TableState.from_json(text)
        if there != set(json.loads(text).get(_FILES, there)):
            raise other_writer(self.place)
        return state

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:
        """Check that the folder is a table: a commit replaces it with everything in it.

        ``keeps`` says that other files stay, ``takes_over`` that files which no job has written may
        be deleted.

        Raises:
            BadOption: It has other columns, or files that no job has written.
        """
        names = {path.name for path in self.path.iterdir()} if self.path.exists() else set()
        is_ours = takes_over or STATE_FILE in names
        strange = sorted(name for name in names if not (is_ours and _is_of_table(self.path / name)))
        if strange:
            raise BadOption(
                f"{self.path} is no table of ours: it has {strange[0]}, which would go; name "
                "another folder, or a new one"
            )
        there = self.files()
        if keeps and there:
            check_columns(self.path, pq.read_schema(there[0]), schema)

    def files(self) -> list[str]:
        """Return the files of the table."""
        return [str(path) for path in self._seen.files]

    def commit(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> str:
        """Add files to the table, or put them in the place of all, in one step.

        Raises:
            Conflict: The folder has changed since it was read.
            SinkFailed: The disk does not take it; the table is as it was.
        """
        return self._exchange(state, schema, files, () if replaces else self._seen.files)

    def merge(
        self,
        engine: Engine,
        state: TableState,
        schema: pa.Schema,
        changes: Sequence[StagedFile],
        *,
        by_partition: bool,
    ) -> str:
        """Put changed rows in the place of those with their keys; one without a value deletes.

        Raises:
            Conflict: The folder has changed since it was read.
            SinkFailed: The disk does not take it; the table is as it was.
        """
        rewrite = Rewrite(
            folder=self.folder, schema=schema, changes=changes, by_partition=by_partition
        )
        there = self._seen.files
        work = partial(_rewrite, rewrite)
        found = engine.run("merge", there, work, lambda path: path.stat().st_size)
        kept = [path for path, files in zip(there, found, strict=True) if files is None]
        written = [file for files in found for file in files or ()]
        version = self._exchange(state, schema, [*rewrite.inserted(), *written], kept)
        for file in changes:
            self.folder.delete(file.name)
        return version

    def _exchange(
        self,
        state: TableState,
        schema: pa.Schema,
        added: Sequence[StagedFile],
        kept: Iterable[Path],
    ) -> str:
        following = self.staging / f"next-{uuid.uuid4().hex[:12]}"
        with full_disk_told(self.path):
            following.mkdir(parents=True)
            for path in kept:
                _link_or_copy(path, following / path.name)
            for file in added:
                _link_or_copy(Path(self.folder.place(file)), following / file.name)
            if not any(following.glob("*.parquet")):
                pq.write_table(schema.empty_table(), following / "part-empty.parquet")
            names = sorted(path.name for path in following.glob("*.parquet"))
            noted = json.loads(state.to_json()) | {_FILES: names}
            (following / STATE_FILE).write_text(json.dumps(noted))
            files.fsync_directory(following)
            if self._look_again() != self._seen:
                raise conflict(self.place, FileExistsError("its files are others"))
            if self.path.exists():
                exchange(following, self.path)
            else:
                os.rename(following, self.path)  # noqa: PTH104  # as it says
            files.fsync_directory(self.path.parent)
        for file in added:
            self.folder.delete(file.name)
        self.look()
        return state.job

    def _lock(self) -> int:
        while True:
            self.staging.mkdir(parents=True, exist_ok=True)
            try:
                fd = os.open(self.staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # an earlier job has just removed it
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self.staging.exists() and os.path.samestat(os.fstat(fd), self.staging.stat()):
                    return fd
            except BlockingIOError as error:
                os.close(fd)
                raise Refused(
                    f"another job is writing {self.path}; run this one again when that has ended"
                ) from error
            except OSError:
                os.close(fd)
                raise
            os.close(fd)

    @cached_property
    def _seen(self) -> "_Seen":
        """The moment that all methods use."""
        return self._look_again()

    def _look_again(self) -> "_Seen":
        try:
            text = (self.path / STATE_FILE).read_text()
        except FileNotFoundError:
            text = None
        return _Seen(text, tuple(sorted(self.path.glob("*.parquet"))))


class _Seen(NamedTuple):
    """The text of the state and the files of rows that are in the folder."""

    state: str | None
    files: tuple[Path, ...]


def _rewrite(rewrite: Rewrite, path: Path) -> list[StagedFile] | None:
    """Return the files that take the place of a file; None if it holds no changed key."""
    return rewrite.without_changed(
        lambda columns: pq.read_table(path, columns=list(columns), partitioning=None)
    )


def _is_of_table(path: Path) -> bool:
    """Tell whether Parquet writers leave such files; readers ignore names like ``_a``, ``.a``."""
    return path.is_file() and (path.suffix == ".parquet" or path.name.startswith(("_", ".")))


def _link_or_copy(old: Path, new: Path) -> None:
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in {errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP}:
            raise
        shutil.copy2(old, new)


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two folders, in one step if the system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = (os.fsencode(one), os.fsencode(other))
    if not libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        return
    code = ctypes.get_errno()
    if code not in {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP}:
        raise OSError(code, os.strerror(code), str(other))
    aside = one.with_name(f"{one.name}-old")
    os.rename(other, aside)  # noqa: PTH104  # as it says
    os.rename(one, other)  # noqa: PTH104  # likewise
