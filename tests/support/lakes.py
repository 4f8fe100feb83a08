"""Other writers of tables: delta-rs and pyiceberg themselves, which know nothing of our jobs."""

import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo, Or
from pyiceberg.table.snapshots import ancestors_of

from siltstone.pipeline.sinks.table import open_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


@contextmanager
def iceberg_table(target: str) -> "Iterator[Table]":
    """Yield a table as pyiceberg opens it, in a warehouse or in a catalogue of its settings."""
    with iceberg_catalog(target) as (catalog, name):
        yield catalog.load_table(name)


@contextmanager
def iceberg_catalog(target: str) -> "Iterator[tuple[Catalog, tuple[str, ...]]]":
    """Yield the catalogue of a table, and its name there."""
    place = target.removeprefix("iceberg:")
    warehouse, _, table = place.rpartition("/")
    if warehouse:
        uri = f"sqlite:///{warehouse}/catalog.db"
        catalog = load_catalog("siltstone", type="sql", uri=uri, warehouse=Path(warehouse).as_uri())
        name: tuple[str, ...] = ("default", table)
    else:
        first, *rest = place.split(".")
        catalog, name = load_catalog(first), tuple(rest)
    with closing(catalog):
        yield catalog, name


def read(target: str) -> pa.Table | None:
    """Return the rows of a table by its own library; None without a table."""
    files = open_table(target).files()
    if not files:
        return None
    kind, _, place = target.partition(":")
    if kind == "delta":
        return DeltaTable(place).to_pyarrow_table()
    if kind == "iceberg":
        with iceberg_table(target) as table:
            return table.scan().to_arrow()
    return ds.dataset(files).to_table()


class OtherWriter:
    """A writer of the same table."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.kind, _, self._place = target.partition(":")

    def compact(self) -> None:
        """Write the same rows into fewer files: OPTIMIZE, or an overwrite by all rows."""
        if self.kind == "delta":
            DeltaTable(self._place).optimize.compact()
            return
        self.rewrite()

    def rewrite(self) -> None:
        """Write all rows again in the place of all, on the version that they were read from."""
        if self.kind == "delta":
            delta = DeltaTable(self._place)
            write_deltalake(delta, delta.to_pyarrow_table(), mode="overwrite")
            return
        with iceberg_table(self.target) as table:
            table.overwrite(table.scan().to_arrow())

    def upsert(self, rows: pa.Table) -> None:
        """Put rows in the place of those with their key and partition."""
        if self.kind == "delta":
            DeltaTable(self._place).merge(
                rows, "t.key = s.key and t.partition = s.partition", "s", "t"
            ).when_matched_update_all().when_not_matched_insert_all().execute()
            return
        with iceberg_table(self.target) as table, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that no row was deleted
            table.overwrite(
                rows, _any_of((row["partition"], row["key"]) for row in rows.to_pylist())
            )

    def delete(self, keys: Iterable[tuple[int, bytes]]) -> None:
        """Delete rows by partition and key."""
        if self.kind == "delta":
            named = [
                f"(partition = {partition} and key = X'{key.hex()}')" for partition, key in keys
            ]
            DeltaTable(self._place).delete(" or ".join(named))
            return
        with iceberg_table(self.target) as table, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as above
            table.delete(_any_of(keys))

    def make_again(self) -> None:
        """Delete the table with its history."""
        if self.kind == "delta":
            shutil.rmtree(self._place)
            return
        with iceberg_table(self.target) as table:
            table.catalog.drop_table(table.name())
            if table.location().startswith("file://"):
                shutil.rmtree(table.location().removeprefix("file://"))

    def create(self, rows: pa.Table) -> None:
        """Make a table of rows."""
        if self.kind == "iceberg":
            with iceberg_catalog(self.target) as (catalog, name):
                catalog.create_table(name, rows.schema)
        self.append(rows)

    def version(self) -> str:
        """Return the version of the table."""
        if self.kind == "delta":
            return str(DeltaTable(self._place).version())
        with iceberg_table(self.target) as table:
            return str(table.metadata.current_snapshot_id)

    def versions(self) -> set[str]:
        """Return the versions to which `restore` can go."""
        if self.kind == "delta":
            return {str(commit["version"]) for commit in DeltaTable(self._place).history()}
        with iceberg_table(self.target) as table:
            found = ancestors_of(table.current_snapshot(), table.metadata)
            return {str(each.snapshot_id) for each in found}

    def restore(self, version: str) -> None:
        """Go back to a version."""
        if self.kind == "delta":
            DeltaTable(self._place).restore(int(version))
            return
        with iceberg_table(self.target) as table:
            table.manage_snapshots().rollback_to_snapshot(int(version)).commit()

    def append(self, rows: pa.Table) -> None:
        """Add rows."""
        if self.kind == "delta":
            write_deltalake(self._place, rows, mode="append")
            return
        with iceberg_table(self.target) as table:
            table.append(rows)

    def vacuum(self) -> None:
        """Delete the files that no version of the last week needs, and change a property."""
        if self.kind == "delta":
            delta = DeltaTable(self._place)
            delta.vacuum(dry_run=False)
            delta.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
            return
        with iceberg_table(self.target) as table, table.transaction() as transaction:
            transaction.set_properties({"write.metadata.compression-codec": "none"})

    def expire(self) -> None:
        """Forget all older snapshots; Delta has the vacuum for that, and keeps its log."""
        if self.kind == "delta":
            DeltaTable(self._place).create_checkpoint()
            return
        with iceberg_table(self.target) as table:
            current = table.current_snapshot()
            ids = [each.snapshot_id for each in table.snapshots() if each != current]
            if ids:
                table.maintenance.expire_snapshots().by_ids(ids).commit()


def _any_of(keys: Iterable[tuple[int, bytes]]) -> BooleanExpression:
    named = [
        And(EqualTo("partition", partition), EqualTo("key", key))  # type: ignore[call-arg, arg-type]
        for partition, key in keys
    ]
    return named[0] if len(named) == 1 else Or(*named)
