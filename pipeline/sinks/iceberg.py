"""An Iceberg table, through pyiceberg: one snapshot is one commit.

The catalogue is ``catalog.db`` in the warehouse folder, also if pyiceberg is configured for
another.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table import TableProperties, _parquet_files_to_data_files
from pyiceberg.table.snapshots import Operation, ancestors_of

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

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.snapshots import Snapshot

NAMESPACE = "default"


class IcebergSink:
    """The table ``name`` of the warehouse in a folder.

    All methods use the same snapshot. A commit is refused if a newer one exists.
    """

    kind = "iceberg"

    def __init__(self, warehouse: Path, name: str) -> None:
        self._warehouse = warehouse.absolute()
        self._namespace, _, self._name = name.rpartition(".")
        self._namespace = self._namespace or NAMESPACE
        self.path = self._warehouse / self._namespace / self._name
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
        """Use the newest snapshot from now on."""
        self.__dict__.pop("_table", None)

    def state(self) -> TableState | None:
        """Return the state in the newest snapshot that changed rows; None if there are no rows.

        Raises:
            Refused: The table has rows, and another writer made that snapshot.
        """
        if self._table is None:
            return None
        for snapshot in ancestors_of(self._table.current_snapshot(), self._table.metadata):
            state = _state_of(snapshot)
            if state is not None:
                return state
            if snapshot.summary is None or snapshot.summary.operation is not Operation.REPLACE:
                break
        if self.files():
            raise other_writer(self.path)
        return None

    def check(self, schema: pa.Schema, *, keeps: bool, takes_over: bool = False) -> None:  # noqa: ARG002  # its snapshots stay
        """Make sure that files of a schema fit the table, whose columns do not change.

        Raises:
            BadOption: It has other columns.
        """
        if self._table is not None:
            check_columns(self.path, self._table.schema().as_arrow(), schema)

    def files(self) -> list[Path]:
        """Return the files of the snapshot."""
        return sorted(path_of(task.file.file_path) for task in _tasks_of(self._table))

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
            Refused: The table has a newer snapshot than the one that was read.
        """
        gone = taken_out(self.files(), removed, self.path)
        moved: list[StagedFile] = []
        try:
            table = self._table or self._create(schema)
            moved = move_into(self.path / "data", self.staging.folder, state.job, added)
            with full_disk_told(self.path), closing(table.catalog):
                self.overwrite(table, state, moved, gone)
        except (CommitFailedException, TableAlreadyExistsError) as error:
            place = f"Iceberg table {self.path}"
            raise not_changed(place, self.staging.folder, moved, error) from error
        sweep(self.staging.folder)
        self.look()
        current = None if self._table is None else self._table.current_snapshot()
        return "" if current is None else str(current.snapshot_id)

    def open(self) -> "Table | None":
        """Return the table as it is now; None if it does not exist."""
        if not self._catalog_file.exists():
            return None
        with closing(self._catalog()) as catalog, suppress(NoSuchTableError):
            return catalog.load_table((self._namespace, self._name))
        return None

    def overwrite(
        self,
        table: "Table",
        state: TableState,
        moved: Sequence[StagedFile],
        removed: Sequence[Path],
    ) -> None:
        """Take files out of the table and put others in, in one snapshot that has the state."""
        gone = set(removed)
        old = _tasks_of(table)
        # Change it in memory only: pyiceberg would retry a commit, on a snapshot that was not read.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        with table.transaction() as transaction:
            if transaction.table_metadata.name_mapping() is None:
                mapping = table.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            update = transaction.update_snapshot(snapshot_properties={PROPERTY: state.to_json()})
            with update.overwrite() as overwrite:
                for task in old:
                    if path_of(task.file.file_path) in gone:
                        overwrite.delete_data_file(task.file)
                paths = [file.path.as_uri() for file in moved]
                for data_file in _parquet_files_to_data_files(
                    table_metadata=transaction.table_metadata, file_paths=paths, io=table.io
                ):
                    overwrite.append_data_file(data_file)

    def _create(self, schema: pa.Schema) -> "Table":
        with full_disk_told(self.path):
            self._warehouse.mkdir(parents=True, exist_ok=True)
        with closing(self._catalog()) as catalog:
            catalog.create_namespace_if_not_exists(self._namespace)
            return catalog.create_table(
                (self._namespace, self._name), schema=schema, location=self.path.as_uri()
            )

    def _was_committed(self, job: str) -> bool:
        table = self.open()
        states = map(_state_of, () if table is None else table.snapshots())
        return any(state is not None and state.job == job for state in states)

    @cached_property
    def _table(self) -> "Table | None":
        """The snapshot that all methods use."""
        return self.open()

    @property
    def _catalog_file(self) -> Path:
        return self._warehouse / "catalog.db"

    def _catalog(self) -> "Catalog":
        """Return the catalogue, which must be closed: it keeps its database open."""
        return load_catalog(
            "siltstone",
            type="sql",
            uri=f"sqlite:///{self._catalog_file}",
            warehouse=self._warehouse.as_uri(),
        )


def _tasks_of(table: "Table | None") -> "list[FileScanTask]":
    if table is None or table.current_snapshot() is None:
        return []
    return list(table.scan().plan_files())


def _state_of(snapshot: "Snapshot") -> TableState | None:
    if snapshot.summary is None:
        return None
    text = snapshot.summary.additional_properties.get(PROPERTY)
    return None if text is None else TableState.from_json(text)
