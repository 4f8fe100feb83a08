"""A new folder of Parquet files in an object store, which no step exchanges as a whole.

Tasks write below a name that readers ignore. At the end the files get their places, one by one, and
the state file comes last: a reader that comes before it may find a part of the rows.
"""

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from siltstone.pipeline.errors import Refused, SourceUnavailable
from siltstone.pipeline.sinks.parquet import STATE_FILE
from siltstone.pipeline.sinks.staging import Folder, StagedFile, conflict, full_disk_told
from siltstone.pipeline.sinks.state import TableState
from siltstone.pipeline.stores import join

_STAGING: Final = "_siltstone-"
_AT_ONCE: Final = 16


class StoredFolder:
    """The folder at a URI that pyarrow opens. A job makes it, and none changes it."""

    def __init__(self, uri: str) -> None:
        """Find the store.

        Raises:
            SourceUnavailable: pyarrow does not know it.
        """
        self.place = uri.rstrip("/")
        try:
            self._files, self._path = fs.FileSystem.from_uri(self.place)
        except (OSError, ValueError) as error:
            raise SourceUnavailable(f"pyarrow.fs cannot open {uri}: {error}") from error
        name = f"{_STAGING}{uuid.uuid4().hex[:12]}"
        self.folder = Folder(
            files=self._files, path=join(self._path, name), uri=join(self.place, name)
        )
        """Where tasks write."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delete what tasks have written when the block ends."""
        try:
            yield
        finally:
            with suppress(OSError):  # a store that is not reached
                self._files.delete_dir(self.folder.path)

    def look(self) -> None:
        """Do nothing: `files` looks each time."""

    def files(self) -> list[str]:
        """Return all files of the place, but for those of jobs that were killed.

        Raises:
            SinkFailed: The store is not reached.
        """
        with full_disk_told(self.place):
            found = self._files.get_file_info(fs.FileSelector(self._path, allow_not_found=True))
        return [each.path for each in found if not each.base_name.startswith(_STAGING)]

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:  # noqa: ARG002  # no file would have another
        """Check that no file of the place would stay or go.

        Raises:
            Refused: Files would be added or replaced.
        """
        if keeps or takes_over:
            raise Refused(
                f"{self.place} cannot be changed by one step, as a folder of this machine can; "
                "leave --mode out and name a new place, or take a table, such as "
                "delta:s3://bucket/users"
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
                with self._files.open_output_stream(self._at(STATE_FILE)) as opened:
                    opened.write(state.to_json().encode())
        except BaseException:
            for name in made:
                with suppress(OSError):
                    self._files.delete_file(self._at(name))
            raise
        return state.job

    def _place(self, names: Sequence[str], schema: pa.Schema, *, is_empty: bool) -> None:
        if is_empty:
            pq.write_table(schema.empty_table(), self._at(names[0]), filesystem=self._files)
        else:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._move, names))
        if len(self.files()) != len(names):
            raise conflict(self.place, FileExistsError("it has other files"))

    def _move(self, name: str) -> None:
        self._files.move(join(self.folder.path, name), self._at(name))

    def _at(self, name: str) -> str:
        return join(self._path, name)
