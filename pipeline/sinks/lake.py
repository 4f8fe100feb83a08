"""A table in whose log a library writes commits: the parts that Delta and Iceberg share.

A commit is made on the version that was read, and the library refuses it if another writer was
first. So no lock is needed, and tables may be in any store that the library knows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import ClassVar, Final

import pyarrow as pa

from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.staging import (
    Folder,
    SinkFailed,
    StagedFile,
    conflict,
    not_written,
    other_writer,
    said,
)
from siltstone.pipeline.sinks.state import TableState, check_columns

_LOOKED_AT: Final = 50
"""In how many commits a job looks for its own, after an error."""


class Lake(ABC):
    """A table of Delta or Iceberg. All methods use the version of the last `look`."""

    keeps_columns: ClassVar[bool]
    """Whether older versions are read by the columns of the newest."""
    place: str
    """The table in sentences."""

    def __init__(self) -> None:
        self._kept: set[str] = set()
        self._unknown = 0  # commits of which it is not known whether and with which files

    @contextmanager
    def held(self) -> Iterator[None]:
        """Use the newest version; when the block ends, delete files that are in no commit."""
        self.look()
        try:
            yield
        finally:
            if not self._unknown and "folder" in self.__dict__:  # otherwise no task has written
                with suppress(OSError):  # a store that is not reached
                    self.folder.sweep(self._kept)

    @cached_property
    @abstractmethod
    def folder(self) -> Folder:
        """Where tasks write."""

    @abstractmethod
    def files(self) -> list[str]:
        """Return where the files of the version are."""

    @property
    @abstractmethod
    def has_deleted_rows(self) -> bool:
        """Whether some rows of the files count no more, by vectors or files of deletes."""

    @abstractmethod
    def _version(self) -> str:
        """Return the name of the version; empty without a table."""

    def _moment(self) -> str:
        """Return a text that each commit changes, also one of no rows."""
        return self._version()

    @abstractmethod
    def _commits(self) -> Iterator[tuple[str | None, bool]]:
        """Yield the state of each commit that led to the version, and if it changed rows."""

    @abstractmethod
    def _columns(self) -> tuple[pa.Schema | None, Sequence[str]]:
        """Return the columns, None without a table, and those that divide its files."""

    @abstractmethod
    def _write(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> None:
        """Commit files, in the place of all rows or beside them."""

    @abstractmethod
    def _merge(self, engine: Engine, state: TableState, rewrite: Rewrite) -> Iterable[StagedFile]:
        """Commit changed rows; return the files of ours that are in the commit."""

    def compact(self) -> None:  # noqa: B027  # not each library can
        """Put many small files together, if the library can."""

    def look(self) -> None:
        """Use the newest version from now on."""
        self.__dict__.pop("_table", None)

    def state(self) -> TableState | None:
        """Return the newest state in the commits that led to the version; None without rows.

        Commits of other writers may lie above it. If one of them took all rows away, the table
        begins again.

        Raises:
            Refused: It has rows, and no state.
        """
        is_changed = False
        for text, changes_rows in self._commits():
            if text is not None:
                is_ended = is_changed and not self.files()
                return None if is_ended else TableState.from_json(text)
            is_changed = is_changed or changes_rows
        if self.files():
            raise other_writer(self.place)
        return None

    @property
    def home(self) -> Folder:
        """Where its files are."""
        return self.folder

    def check(self, schema: pa.Schema, *, keeps: bool) -> None:
        """Check that files of a schema fit the table; ``keeps`` says that other files stay.

        Raises:
            BadOption: The table has other columns, or is divided by some.
        """
        there, divisions = self._columns()
        if divisions:
            raise BadOption(
                f"the files of {self.place} are divided by {', '.join(divisions)}, and a job "
                "writes files of all rows; name another table"
            )
        if there is not None and (keeps or self.keeps_columns):
            check_columns(self.place, there, schema)

    def commit(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> str:
        """Add files to the table, or put them in the place of all rows; return the version.

        Raises:
            Conflict: The table has a newer version than the one that was read.
            SinkFailed: It cannot be written.
        """

        def work() -> Sequence[StagedFile]:
            self._write(state, schema, files, replaces=replaces)
            return files

        return self.committed(state, files, work)

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
            Conflict: The table has a newer version than the one that was read.
            SinkFailed: It cannot be written.
        """
        rewrite = Rewrite(
            folder=self.folder, schema=schema, changes=changes, by_partition=by_partition
        )
        version = self.committed(state, changes, lambda: self._merge(engine, state, rewrite))
        for file in changes:
            if file.name not in self._kept:
                self.folder.delete(file.name)
        return version

    def not_opened(self, error: Exception) -> SinkFailed:
        """Return the sentence of an error that came while the table was opened."""
        return SinkFailed(
            f"the table {self.place} cannot be opened ({said(error)}); see whether its store or "
            "catalogue is reached, and with which settings"
        )

    def committed(
        self,
        state: TableState,
        files: Sequence[StagedFile],
        work: Callable[[], Iterable[StagedFile]],
    ) -> str:
        """Do the work of a commit, of which some files must be left, and return the version."""
        before = self._moment()
        if gone := self.folder.missing(files):
            raise SinkFailed(
                f"{gone[0]} of {self.place} was deleted before it was committed, as by a VACUUM "
                "that keeps files for less time than a job takes; run the job again"
            )
        self._unknown += 1
        try:
            kept = work()
            self._kept.update(file.name for file in kept)
            self._unknown -= 1
        except Exception as error:  # noqa: BLE001  # the library's own, and those of its stores
            self._find_outcome(state.job, before, error)
        self.look()
        return self._version()

    def _find_outcome(self, job: str, before: str, error: Exception) -> None:
        """Return if the commit was made in spite of an error; raise what the error means."""
        try:
            self.look()
            newest = islice(self._commits(), _LOOKED_AT)
            if any(TableState.from_json(text).job == job for text, _ in newest if text):
                return  # its files are not known, so this job sweeps nothing any more
            after = self._moment()
        except Exception as second:  # noqa: BLE001  # as above
            raise SinkFailed(
                f"whether {self.place} was changed is not known ({said(error)}; {said(second)}); "
                "run the job again: it goes on from what the table has"
            ) from error
        self._unknown -= 1
        if after != before:
            raise conflict(self.place, error) from error
        raise not_written(self.place, error) from error
