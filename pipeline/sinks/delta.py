"""A Delta table, through the deltalake package: one log entry is one commit."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from siltstone.pipeline.sinks.staging import (
    STAGING,
    StagedFile,
    full_disk_told,
    move_into,
    not_changed,
    path_of,
    sweep,
    sweep_moved,
)
from siltstone.pipeline.sinks.state import PROPERTY, TableState, check_columns


class DeltaSink:
    """The Delta table in the folder ``path``; its protocol refuses concurrent jobs."""

    kind = "delta"

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.staging = self.path / STAGING

    def sweep(self) -> None:
        """Delete what killed jobs have left."""
        jobs = {state.job for state in self._states()}
        sweep_moved(self.staging, jobs.__contains__)

    def state(self) -> TableState | None:
        """Return the state in the newest commit of a job; None if there is none."""
        return next(self._states(), None)

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:  # noqa: ARG002  # its versions stay
        """Make sure that files of a schema fit those that stay.

        Raises:
            BadOption: The table has other columns.
        """
        table = self._open()
        if keeps and table is not None:
            check_columns(self.path, pa.schema(table.schema().to_arrow()), schema)

    def files(self) -> list[Path]:
        """Return the files of the table as it is now."""
        table = self._open()
        return [] if table is None else sorted(path_of(uri) for uri in table.file_uris())

    def commit(
        self,
        state: TableState,
        schema: pa.Schema,
        added: Iterable[StagedFile],
        removed: Sequence[Path] | None,
    ) -> str:
        """Remove files from the table (None: all) and add others, in one commit.

        Raises:
            SinkFailed: The disk does not take it, or another writer has changed the table
                meanwhile.
        """
        table = self._open()
        moved = move_into(self.path, self.staging, state.job, added)
        now_ms = state.taken_at_ms
        adds: list[AddAction | RemoveAction] = [
            AddAction(file.path.name, file.size, {}, now_ms, True, _statistics(file))
            for file in moved
        ]
        properties = CommitProperties(custom_metadata={PROPERTY: state.to_json()})
        delta_schema = Schema.from_arrow(schema)
        try:
            with full_disk_told(self.path):
                if table is None:
                    first = [each for each in adds if isinstance(each, AddAction)]
                    create_table_with_add_actions(
                        str(self.path), delta_schema, first, commit_properties=properties
                    )
                elif removed is None:
                    table.create_write_transaction(
                        adds, "overwrite", delta_schema, commit_properties=properties
                    )
                else:
                    gone = [RemoveAction(path.name, True, now_ms) for path in removed]
                    table.create_write_transaction(
                        [*gone, *adds], "append", delta_schema, commit_properties=properties
                    )
        except DeltaError as error:
            raise not_changed(f"Delta table {self.path}", moved, error) from error
        sweep(self.staging)
        return str(DeltaTable(str(self.path)).version())

    def _states(self) -> Iterator[TableState]:
        """Yield the states in the commits of jobs, the newest first."""
        table = self._open()
        for commit in [] if table is None else table.history():
            text = commit.get(PROPERTY)
            if text is not None:
                yield TableState.from_json(text)

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
