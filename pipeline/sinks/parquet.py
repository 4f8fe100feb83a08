"""A new folder of Parquet files, on this machine or in an object store.

No step exchanges such a folder as a whole in a store, so a job makes it and none changes it. Tasks
write below a name that readers ignore. At the end the files get their places, one by one, and the
state file comes last: a reader that comes before it may find a part of the rows.
"""

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from siltstone.pipeline.errors import Refused, SourceUnavailable
from siltstone.pipeline.sinks.staging import Folder, StagedFile, conflict, full_disk_told
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.stores import join

STATE_FILE: Final = "_siltstone.json"
"""Readers ignore names that begin with an underscore."""
_STAGING: Final = "_siltstone-"
_AT_ONCE: Final = 16


class ParquetFolder:
    """The folder at a path, or at a URI that pyarrow opens."""

    has_deleted_rows: ClassVar[bool] = False
    """Whether some rows of the files count no more."""

    def __init__(self, place: str) -> None:
        """Find the file system.

        Raises:
            SourceUnavailable: pyarrow does not know it.
        """
        self.place = place.rstrip("/") if "://" in place else str(Path(place).absolute())
        try:
            self._files, path = fs.FileSystem.from_uri(self.place)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"pyarrow.fs cannot open {place}: {error}") from error
        self.home = Folder(files=self._files, path=path, uri=self.place)
        """Where the files get their places."""
        name = f"{_STAGING}{uuid.uuid4().hex[:12]}"
        self.folder = Folder(files=self._files, path=join(path, name), uri=join(self.place, name))
        """Where tasks write."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delete what tasks have written when the block ends."""
        try:
            yield
        finally:
            with suppress(OSError):  # a store that is not reached, or a folder that is missing
                self._files.delete_dir(self.folder.path)

    def look(self) -> None:
        """Do nothing: `files` looks each time."""

    def state(self) -> None:
        """Return None: a new folder has no rows of a job before."""

    def files(self) -> list[str]:
        """Return the files of rows.

        Raises:
            SinkFailed: The store is not reached.
        """
        return [join(self.place, name) for name in self._names() if name.endswith(".parquet")]

    def check(self, schema: pa.Schema, *, keeps: bool) -> None:  # noqa: ARG002  # no file would have another
        """Check that the folder is new, but for what killed jobs have left.

        Raises:
            Refused: It has files.
        """
        names = self._names()
        if names:
            raise Refused(
                f"{self.place} has {names[0]} already, and no step changes such a folder as a "
                "whole; name a new one, or take a table, such as delta:/data/users"
            )

    def commit(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> str:
        """Move the files to their places; if one cannot be, none is left.

        Raises:
            Conflict: Something else has come meanwhile.
            SinkFailed: The store does not take them.
        """
        del replaces  # no file would have another
        names = [file.name for file in files] or [self.folder.new_name()]
        made = list(names)  # no name that another job may have
        try:
            with full_disk_told(self.place):
                self._place(names, schema, is_empty=not files)
                made.append(STATE_FILE)
                with self.home.create(STATE_FILE) as opened:
                    opened.write(state.to_json().encode())
        except BaseException:
            for name in made:
                with suppress(OSError):
                    self.home.delete(name)
            raise
        return state.job

    def _names(self) -> list[str]:
        selector = fs.FileSelector(self.home.path, allow_not_found=True)
        with full_disk_told(self.place):
            found = sorted(each.base_name for each in self._files.get_file_info(selector))
        return [name for name in found if not name.startswith(_STAGING)]

    def _place(self, names: Sequence[str], schema: pa.Schema, *, is_empty: bool) -> None:
        if is_empty:
            with self.home.create(names[0]) as opened:
                pq.write_table(schema.empty_table(), opened)
        else:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._move, names))
        if len(self._names()) != len(names):
            raise conflict(self.place, FileExistsError("it has other files"))

    def _move(self, name: str) -> None:
        self._files.move(join(self.folder.path, name), join(self.home.path, name))
