"""The sinks that ``--to`` names: folders of Parquet, tables of Delta and Iceberg."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from siltstone.pipeline.errors import BadOption, Refused

if TYPE_CHECKING:
    from siltstone.pipeline.sinks.delta import DeltaSink
    from siltstone.pipeline.sinks.iceberg import IcebergSink
    from siltstone.pipeline.sinks.parquet import ParquetFolder

TableSink: TypeAlias = "DeltaSink | IcebergSink"
"""A table that is changed by the commits of its library."""
NewSink: TypeAlias = "TableSink | ParquetFolder"
"""The target of a job that writes all rows, which may be a new folder."""


def open_table(target: str) -> TableSink:
    """Return the sink of a target that a job goes on with.

    Raises:
        BadOption: The kind of table does not exist.
        Refused: The place cannot have such a table.
    """
    kind, place = _kind_of(target)
    if kind == "delta":
        from siltstone.pipeline.sinks.delta import DeltaSink  # noqa: PLC0415  # each needs its package

        return DeltaSink(place)
    if kind == "iceberg":
        return _iceberg(target, place)
    raise Refused(
        f"{target} is a folder of files, which a job makes and none changes; take a table, such as "
        "delta:/data/users or delta:s3://bucket/users"
    )


def open_new(target: str) -> NewSink:
    """Return the sink of a target whose rows a job writes all, which may be a new folder.

    Raises:
        BadOption: The kind of table does not exist.
        Refused: The place cannot have such a table.
    """
    kind, place = _kind_of(target)
    if kind == "parquet":
        from siltstone.pipeline.sinks.parquet import ParquetFolder  # noqa: PLC0415  # as above

        return ParquetFolder(place)
    return open_table(target)


def _kind_of(target: str) -> tuple[str, str]:
    kind, colon, place = target.partition(":")
    if not colon or place.startswith("//"):
        return "parquet", target
    if kind not in {"parquet", "delta", "iceberg"}:
        raise BadOption(f"--to {target}: {kind} is not parquet, delta or iceberg")
    if not place:
        raise BadOption(f"--to {target} names no place; write for example delta:/data/users")
    return kind, place


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
