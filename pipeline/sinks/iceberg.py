"""An Iceberg table, through pyiceberg: one snapshot is one commit.

A table below a folder is in the SQL catalogue ``catalog.db`` of that folder; other tables are in
the catalogues that pyiceberg is configured for.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, PyArrowFileIO, parquet_file_to_data_file
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import TableProperties
from pyiceberg.table.snapshots import Operation

from siltstone.pipeline.engine import Engine
from siltstone.pipeline.errors import BadOption, Refused
from siltstone.pipeline.sinks.iceberg_spark import find_table
from siltstone.pipeline.sinks.lake import Lake
from siltstone.pipeline.sinks.rewrite import Rewrite
from siltstone.pipeline.sinks.staging import Folder, StagedFile, conflict
from siltstone.pipeline.sinks.state import PROPERTY, TableState

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata

NAMESPACE: Final = "default"


class IcebergSink(Lake):
    """The table ``name`` of a catalogue, or of the one in a warehouse folder."""

    keeps_columns = True

    def __init__(self, name: str, *, catalog: str = "", warehouse: Path | None = None) -> None:
        super().__init__()
        self._catalog_name = catalog
        self._warehouse = None if warehouse is None else warehouse.absolute()
        namespace, _, table = name.rpartition(".")
        self._namespace = namespace or NAMESPACE
        self._identifier = (*self._namespace.split("."), table)
        self._new_columns = pa.schema([])
        self.place = f"{catalog}.{self._namespace}.{table}"
        if self._warehouse is not None:
            self.place = str(self._warehouse / self._namespace / table)

    @cached_property
    def folder(self) -> Folder:
        """Where tasks write; a catalogue says where and by which keys once it has the table."""
        table = self._table
        if table is None and self._warehouse is None:
            table = self._create()
        properties, place = {}, f"file://{self.place}/data"
        if table is not None:
            properties, place = table.io.properties, table.location_provider().data_path
        scheme, host, path = PyArrowFileIO.parse_location(place)
        files = PyArrowFileIO(properties).fs_by_scheme(scheme, host)
        return Folder(files=files, path=path, uri=place)

    def check(self, schema: pa.Schema, *, keeps: bool) -> None:
        """Check that files of a schema fit the table, which has their columns if it is new."""
        self._new_columns = schema
        super().check(schema, keeps=keeps)

    def files(self) -> list[str]:
        """Return the files of the snapshot."""
        return sorted(task.file.file_path.removeprefix("file://") for task in self._tasks())

    @property
    def has_deleted_rows(self) -> bool:
        """Whether some file has files of deletes."""
        return any(task.delete_files for task in self._tasks())

    def _write(
        self, state: TableState, schema: pa.Schema, files: Sequence[StagedFile], *, replaces: bool
    ) -> None:
        self._new_columns = schema
        self._overwrite(state, files, self._tasks() if replaces else [])

    def _merge(self, engine: Engine, state: TableState, rewrite: Rewrite) -> Iterable[StagedFile]:
        table = self._table
        by_spark = find_table(engine.package_session, self._catalog_name, self._identifier)
        if table is not None and rewrite.changes and by_spark is not None:
            by_spark.merge(table, state, rewrite)
            return ()
        tasks = self._tasks()
        found: list[list[StagedFile] | None] = [None] * len(tasks)
        if table is not None and rewrite.changes:
            work = partial(_rewrite, rewrite, table.metadata, table.io)
            found = engine.run("merge", tasks, work, lambda task: task.file.file_size_in_bytes)
        gone = [task for task, files in zip(tasks, found, strict=True) if files is not None]
        files = [*rewrite.inserted(), *(file for files in found for file in files or ())]
        self._overwrite(state, files, gone)
        return files

    def _overwrite(
        self, state: TableState, files: Sequence[StagedFile], gone: "Sequence[FileScanTask]"
    ) -> None:
        """Take files out of the table and put others in, in one snapshot that has the state."""
        table = self._table or self._create()
        # Change it in memory only: pyiceberg would retry a commit, on a snapshot that was not read.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        with closing(table.catalog), table.transaction() as transaction:
            if table.metadata.name_mapping() is None:
                mapping = table.schema().name_mapping.model_dump_json()
                transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
            update = transaction.update_snapshot(snapshot_properties={PROPERTY: state.to_json()})
            with update.overwrite() as overwrite:
                for task in gone:
                    overwrite.delete_data_file(task.file)
                for file in files:
                    place = self.folder.place(file)
                    overwrite.append_data_file(
                        parquet_file_to_data_file(table.io, transaction.table_metadata, place)
                    )

    def _create(self) -> "Table":
        """Create the table.

        Raises:
            Conflict: Another writer has done so since it was looked for.
        """
        location = None
        if self._warehouse is not None:
            self._warehouse.mkdir(parents=True, exist_ok=True)
            location = f"file://{self.place}"
        with closing(self._catalog()) as catalog:
            catalog.create_namespace_if_not_exists(self._namespace)
            try:
                return catalog.create_table(
                    self._identifier, schema=self._new_columns, location=location
                )
            except TableAlreadyExistsError as error:
                raise conflict(self.place, error) from error
            finally:
                self.look()

    def _version(self) -> str:
        if self._table is None:
            return ""
        snapshot = self._table.current_snapshot()
        return "" if snapshot is None else str(snapshot.snapshot_id)

    def _moment(self) -> str:
        return "" if self._table is None else self._table.metadata_location

    def _columns(self) -> tuple[pa.Schema | None, Sequence[str]]:
        if self._table is None:
            return None, ()
        divisions = [field.name for field in self._table.spec().fields]
        return self._table.schema().as_arrow(), divisions

    def _commits(self) -> Iterator[tuple[str | None, bool]]:
        """Yield the snapshots that led to the current one.

        An expiry forgets them; then they are in the earlier files of the table's metadata.
        """
        if self._table is None or self._table.current_snapshot() is None:
            return
        at: int | None = None
        following = self._table.metadata.current_snapshot_id
        for metadata in self._metadata(self._table):
            known = {each.snapshot_id: each for each in metadata.snapshots}
            if at is not None:
                if at not in known:
                    return  # it begins with that one
                following = known[at].parent_snapshot_id
            while following in known:
                at, following = following, known[following].parent_snapshot_id
                summary = known[at].summary
                text = None if summary is None else summary.additional_properties.get(PROPERTY)
                yield text, summary is None or summary.operation is not Operation.REPLACE

    def _metadata(self, table: "Table") -> "Iterator[TableMetadata]":
        yield table.metadata
        for entry in reversed(table.metadata.metadata_log):
            with suppress(FileNotFoundError):
                yield FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))

    def _tasks(self) -> "list[FileScanTask]":
        if self._table is None or self._table.current_snapshot() is None:
            return []
        try:
            return list(self._table.scan().plan_files())
        except ValueError as error:  # no error of its own for what it does not read
            raise Refused(
                f"the rows of {self.place} cannot be told from its files ({error}); rewrite them "
                "first, as by rewrite_data_files of Spark, which applies the deletes"
            ) from error

    @cached_property
    def _table(self) -> "Table | None":
        """The snapshot that all methods use."""
        if self._warehouse is not None and not (self._warehouse / "catalog.db").exists():
            return None
        with closing(self._catalog()) as catalog:
            try:
                return catalog.load_table(self._identifier)
            except NoSuchTableError:
                return None
            except Exception as error:  # those of catalogues and stores have no class in common
                raise self.not_opened(error) from error

    def _catalog(self) -> "Catalog":
        """Return the catalogue, which must be closed: it may keep a database open.

        Raises:
            BadOption: pyiceberg is not configured for it.
            SinkFailed: It is not reached.
        """
        if self._warehouse is not None:
            uri = f"sqlite:///{self._warehouse / 'catalog.db'}"
            return load_catalog(
                "siltstone", type="sql", uri=uri, warehouse=f"file://{self._warehouse}"
            )
        try:
            return load_catalog(self._catalog_name)
        except ValueError as error:
            raise BadOption(
                f"pyiceberg has no catalogue {self._catalog_name} ({error}); describe it in "
                f".pyiceberg.yaml or by PYICEBERG_CATALOG__{self._catalog_name.upper()}__URI"
            ) from error
        except Exception as error:  # as above
            raise self.not_opened(error) from error


def _rewrite(
    rewrite: Rewrite, metadata: "TableMetadata", io: "FileIO", task: "FileScanTask"
) -> list[StagedFile] | None:
    """Return the files that take the place of a file; None if it holds no changed key."""

    def read(columns: Sequence[str]) -> pa.Table:
        projected = metadata.schema().select(*columns)
        return ArrowScan(metadata, io, projected, AlwaysTrue()).to_table([task])

    return rewrite.without_changed(read)
