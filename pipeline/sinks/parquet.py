"""A folder of Parquet files that is exchanged as a whole.

A commit builds the next folder beside the table and exchanges the two names in one system call, so
a reader finds either the old or the new files. Files that stay are linked, not copied.
"""

import ctypes
import errno
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.sinks.staging import (
    StagedFile,
    Staging,
    full_disk_told,
    not_changed,
    other_writer,
    sweep,
    taken_out,
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

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.staging = Staging(self.path.with_name(f".{self.path.name}-staging"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from the table until the block ends.

        Raises:
            Refused: Another job holds it.
        """
        with self.staging.held(self.path, lambda _: True):
            self.look()
            yield

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
            raise other_writer(self.path)
        state = TableState.from_json(text)
        if there != set(json.loads(text).get(_FILES, there)):
            raise other_writer(self.path)
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

    def files(self) -> list[Path]:
        """Return the files of the table."""
        return list(self._seen.files)

    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        added: Iterable[StagedFile],
        removed: Sequence[Path] | None,
    ) -> str:
        """Remove files from the table (None: all) and add others, in one step.

        Raises:
            SinkFailed: The disk does not take it; the table is as it was.
            Refused: The folder has changed since it was read.
        """
        gone = set(taken_out(self.files(), removed, self.path))
        following = self.staging.folder / f"next-{state.job}"
        with full_disk_told(self.path):
            following.mkdir(parents=True)
            for kept in set(self.files()) - gone:
                _link_or_copy(kept, following / kept.name)
            for file in added:
                os.rename(file.path, following / file.path.name)  # noqa: PTH104  # as it says
            if not any(following.glob("*.parquet")):
                empty = following / "part-empty.parquet"
                pq.write_table(schema.empty_table(), empty)
            names = sorted(path.name for path in following.glob("*.parquet"))
            noted = json.loads(state.to_json()) | {_FILES: names}
            (following / STATE_FILE).write_text(json.dumps(noted))
            files.fsync_directory(following)
            if self._look_again() != self._seen:
                raise not_changed(
                    f"table {self.path}", self.staging.folder, (), "its files are others"
                )
            if self.path.exists():
                exchange(following, self.path)
            else:
                os.rename(following, self.path)  # noqa: PTH104  # as it says
            files.fsync_directory(self.path.parent)
            sweep(self.staging.folder)
        self.look()
        return state.job

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
