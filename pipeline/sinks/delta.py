"""A Delta table, through the deltalake package: one log entry is one commit."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from siltstone.pipeline.sinks.staging import (
    STAGING,
    StagedFile,
    Staging,
    full_disk_told,
    move_into,
    not_changed,
    other_writer,
    path_of,
    sweep,
    taken_out,
)
from siltstone.pipeline.sinks.state import PROPERTY, TableState, check_columns

_KEEPING_ROWS: Final = {
    "OPTIMIZE",
    "VACUUM START",
    "VACUUM END",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
}
"""Operations of other writers after which a table has the rows that it had."""


class DeltaSink:
    """The Delta table in the folder ``path``.

    All methods use the same version of the table. A commit is refused if a newer one exists.
    """

    kind = "delta"

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.staging = Staging(self.path / STAGING)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other jobs from the table until the block ends.

        Raises:
            Refused: Another job holds it.
        """
        with self.staging.held(self.path, self._was_committed):
            self.look()
            yield

    def look(self) -> None:
        """Use the newest version from now on."""
        self.__dict__.pop("_table", None)

    def state(self) -> TableState | None:
        """Return the state in the newest commit that changed rows; None for a table without rows.

        Raises:
            Refused: It has rows, and another writer made that commit.
        """
        if self._table is None:
            return None
        for limit in (1, None):  # nearly always the first entry has it
            for commit in self._table.history(limit):
                if PROPERTY in commit:
                    return TableState.from_json(commit[PROPERTY])
                if commit["operation"] not in _KEEPING_ROWS:
                    break
        if self.files():
            raise other_writer(self.path)
        return None

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:  # noqa: ARG002  # its versions stay
        """Check that files of a schema fit the files that stay.

        Raises:
            BadOption: The table has other columns.
        """
        if keeps and self._table is not None:
            check_columns(self.path, pa.schema(self._table.schema().to_arrow()), schema)

    def files(self) -> list[Path]:
        """Return the files of the table."""
        return [] if self._table is None else sorted(map(path_of, self._table.file_uris()))

    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        added: Iterable[StagedFile],
        removed: Sequence[Path] | None,
    ) -> str:
        """Remove files from the table (None: all) and add others, in one commit.

        Raises:
            SinkFailed: The disk does not take it.
            Refused: The table has a newer version than the one that was read.
        """
        table = self._table
        gone = taken_out(self.files(), removed, self.path)
        moved = move_into(self.path, self.staging.folder, state.job, added)
        now_ms = state.taken_at_ms
        adds = [
            AddAction(file.path.name, file.size, {}, now_ms, True, _statistics(file))
            for file in moved
        ]
        properties = CommitProperties(
            custom_metadata={PROPERTY: state.to_json()},
            max_commit_retries=0,  # a retry would commit on a version that was not read
        )
        delta_schema = Schema.from_arrow(schema)
        try:
            with full_disk_told(self.path):
                if table is None:
                    create_table_with_add_actions(
                        str(self.path), delta_schema, adds, commit_properties=properties
                    )
                elif removed is None:
                    table.create_write_transaction(
                        [*adds], "overwrite", delta_schema, commit_properties=properties
                    )
                else:
                    root = path_of(table.table_uri)
                    actions: list[AddAction | RemoveAction] = [
                        RemoveAction(str(path.relative_to(root)), True, now_ms) for path in gone
                    ]
                    table.create_write_transaction(
                        [*actions, *adds], "append", delta_schema, commit_properties=properties
                    )
        except DeltaError as error:
            place = f"Delta table {self.path}"
            raise not_changed(place, self.staging.folder, moved, error) from error
        sweep(self.staging.folder)
        self.look()
        return "" if self._table is None else str(self._table.version())

    def _was_committed(self, job: str) -> bool:
        table = self._open()
        texts = (commit.get(PROPERTY) for commit in ([] if table is None else table.history()))
        return any(TableState.from_json(text).job == job for text in texts if text is not None)

    @cached_property
    def _table(self) -> DeltaTable | None:
        """The version that all methods use."""
        return self._open()

    def _open(self) -> DeltaTable | None:
        try:
            return DeltaTable(str(self.path))
        except TableNotFoundError:
            return None


def _statistics(file: StagedFile) -> str:
    if file.max_offset < 0:
        return f'{{"numRecords": {file.rows}}}'
    return (
        f'{{"numRecords": {file.rows}, "minValues": {{"offset": {file.min_offset}}}, '
        f'"maxValues": {{"offset": {file.max_offset}}}}}'
    )
