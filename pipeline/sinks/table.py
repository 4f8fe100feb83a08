"""The sinks that ``--to`` names: folders of Parquet, tables of Delta and Iceberg."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from siltstone.pipeline.errors import BadOption, Refused

if TYPE_CHECKING:
    from siltstone.pipeline.sinks.delta import DeltaSink
    from siltstone.pipeline.sinks.iceberg import IcebergSink
    from siltstone.pipeline.sinks.parquet import ParquetTable
    from siltstone.pipeline.sinks.stored import StoredFolder

TableSink: TypeAlias = "ParquetTable | DeltaSink | IcebergSink"
"""A table of files that is changed by one commit."""
NewSink: TypeAlias = "TableSink | StoredFolder"
"""The target of an export, which may be new."""


def open_table(target: str) -> TableSink:
    """Return the sink of a target.

    Raises:
        BadOption: The kind of table does not exist.
        Refused: The place cannot have such a table.
    """
    kind, place = _kind_of(target)
    if not place:
        raise BadOption(f"--to {target} names no place; write for example parquet:/data/users")
    if kind == "parquet":
        from siltstone.pipeline.sinks.parquet import ParquetTable  # noqa: PLC0415  # each needs its package

        if "://" in place:
            raise Refused(
                f"{target} cannot be changed by one step, as a folder of this machine can; take "
                "a table, such as delta:s3://bucket/users"
            )
        return ParquetTable(Path(place))
    if kind == "delta":
        from siltstone.pipeline.sinks.delta import DeltaSink  # noqa: PLC0415  # likewise

        return DeltaSink(place)
    if kind == "iceberg":
        return _iceberg(target, place)
    raise BadOption(f"--to {target}: {kind} is not parquet, delta or iceberg")


def open_new(target: str) -> NewSink:
    """Return the sink of an export, which may be a new folder of Parquet files in a store.

    Raises:
        BadOption: The kind of table does not exist.
        Refused: The place cannot have such a table.
    """
    kind, place = _kind_of(target)
    if kind == "parquet" and "://" in place:
        from siltstone.pipeline.sinks.stored import StoredFolder  # noqa: PLC0415  # as above

        return StoredFolder(place)
    return open_table(target)


def _kind_of(target: str) -> tuple[str, str]:
    kind, colon, place = target.partition(":")
    return ("parquet", target) if not colon or place.startswith("//") else (kind, place)


def _iceberg(target: str, place: str) -> "IcebergSink":
    from siltstone.pipeline.sinks.iceberg import IcebergSink  # noqa: PLC0415  # as above

    if "://" in place:
        raise Refused(
            f"{target} names no catalogue, which says what the newest snapshot is; configure one "
            "for pyiceberg and write iceberg:CATALOGUE.SPACE.TABLE"
        )
    warehouse, slash, name = place.rstrip("/").rpartition("/")
    catalog, _, table = place.partition(".")
    if slash and warehouse:
        return IcebergSink(name, warehouse=Path(warehouse))
    if not slash and catalog and "." in table.strip("."):
        return IcebergSink(table, catalog=catalog)
    raise BadOption(f"--to {target} wants iceberg:WAREHOUSE/TABLE or CATALOGUE.SPACE.TABLE")
