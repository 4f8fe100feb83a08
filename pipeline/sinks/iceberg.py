"""An Iceberg table, through pyiceberg: one snapshot is one commit.

The catalogue is ``catalog.db`` in the warehouse folder, unless the environment configures one of
the name ``siltstone`` for pyiceberg.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import TableProperties, _parquet_files_to_data_files

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

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

NAMESPACE = "default"


class IcebergSink:
    """The table ``name`` of the warehouse in a folder; of two concurrent jobs one is refused."""

    kind = "iceberg"

    def __init__(self, warehouse: Path, name: str) -> None:
        self._warehouse = warehouse.absolute()
        self._namespace, _, self._name = name.rpartition(".")
        self._namespace = self._namespace or NAMESPACE
        self.path = self._warehouse / self._namespace / self._name
        self.staging = self.path / STAGING

    def sweep(self) -> None:
        """Delete what killed jobs have left."""
        table = self.open()
        snapshots = [] if table is None else table.snapshots()
        jobs = {state.job for each in snapshots if (state := _state_of(each)) is not None}
        sweep_moved(self.staging, jobs.__contains__)

    def state(self) -> TableState | None:
        """Return the state in the current snapshot, if a job has made it."""
        table = self.open()
        snapshot = None if table is None else table.current_snapshot()
        return None if snapshot is None else _state_of(snapshot)

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:  # noqa: ARG002  # its snapshots stay
        """Make sure that files of a schema fit the table, whose columns do not change.

        Raises:
            BadOption: It has other columns.
        """
        table = self.open()
        if table is not None:
            check_columns(self.path, table.schema().as_arrow(), schema)

    def files(self) -> list[Path]:
        """Return the files of the current snapshot."""
        table = self.open()
        if table is None or table.current_snapshot() is None:
            return []
        return sorted(path_of(task.file.file_path) for task in table.scan().plan_files())

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
        table = self.open() or self._create(schema)
        moved = move_into(self.path / "data", self.staging, state.job, added)
        try:
            with full_disk_told(self.path):
                self.overwrite(table, state, moved, removed)
        except CommitFailedException as error:
            raise not_changed(f"Iceberg table {self.path}", moved, error) from error
        sweep(self.staging)
        current = table.refresh().current_snapshot()
        return "" if current is None else str(current.snapshot_id)

    def open(self) -> "Table | None":
        """Return the table as it is now; None if there is none."""
        if not self._warehouse.exists():
            return None
        try:
            return self._catalog().load_table((self._namespace, self._name))
        except NoSuchTableError:
            return None

    def overwrite(
        self,
        table: "Table",
        state: TableState,
        moved: Sequence[StagedFile],
        removed: Sequence[Path] | None,
    ) -> None:
        """Take files out of the table and put others in, in one snapshot that has the state."""
        gone = None if removed is None else {str(path) for path in removed}
        old = [] if table.current_snapshot() is None else list(table.scan().plan_files())
        with table.transaction() as transaction:
            if transaction.table_metadata.name_mapping() is None:
                mapping = table.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            update = transaction.update_snapshot(snapshot_properties={PROPERTY: state.to_json()})
            with update.overwrite() as overwrite:
                for task in old:
                    if gone is None or str(path_of(task.file.file_path)) in gone:
                        overwrite.delete_data_file(task.file)
                paths = [file.path.as_uri() for file in moved]
                for data_file in _parquet_files_to_data_files(
                    table_metadata=transaction.table_metadata, file_paths=paths, io=table.io
                ):
                    overwrite.append_data_file(data_file)

    def _create(self, schema: pa.Schema) -> "Table":
        self._warehouse.mkdir(parents=True, exist_ok=True)
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._namespace)
        return catalog.create_table(
            (self._namespace, self._name), schema=schema, location=self.path.as_uri()
        )

    def _catalog(self) -> "Catalog":
        return load_catalog(
            "siltstone",
            type="sql",
            uri=f"sqlite:///{self._warehouse}/catalog.db",
            warehouse=self._warehouse.as_uri(),
        )


def _state_of(snapshot: "Snapshot") -> TableState | None:
    if snapshot.summary is None:
        return None
    text = snapshot.summary.additional_properties.get(PROPERTY)
    return None if text is None else TableState.from_json(text)
