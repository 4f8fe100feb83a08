"""The sinks that ``--to`` names: ``parquet:DIR``, ``delta:DIR``, ``iceberg:WAREHOUSE/TABLE``."""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from siltstone.pipeline.errors import BadOption, Refused

if TYPE_CHECKING:
    from siltstone.pipeline.sinks.delta import DeltaSink
    from siltstone.pipeline.sinks.iceberg import IcebergSink
    from siltstone.pipeline.sinks.parquet import ParquetTable

TableSink: TypeAlias = "ParquetTable | DeltaSink | IcebergSink"
"""A table of files that is changed by one commit."""


def open_table(target: str) -> TableSink:
    """Return the sink of a target.

    Raises:
        BadOption: The kind of table does not exist.
        Refused: The place is a URI.
    """
    if "://" in target:
        raise Refused(
            f"{target} is no place that can be written: tables are folders of a file system that "
            "this machine sees; name one by its path, such as delta:/data/users"
        )
    kind, colon, place = target.partition(":")
    if not colon:
        kind, place = "parquet", target
    if not place:
        raise BadOption(f"--to {target} names no place; write for example parquet:/data/users")
    if kind == "parquet":
        from siltstone.pipeline.sinks.parquet import ParquetTable  # noqa: PLC0415  # each needs its package

        return ParquetTable(Path(place))
    if kind == "delta":
        from siltstone.pipeline.sinks.delta import DeltaSink  # noqa: PLC0415  # likewise

        return DeltaSink(Path(place))
    if kind == "iceberg":
        from siltstone.pipeline.sinks.iceberg import IcebergSink  # noqa: PLC0415  # likewise

        warehouse, slash, name = place.rstrip("/").rpartition("/")
        if not slash or not warehouse:
            raise BadOption(f"--to {target} wants iceberg:WAREHOUSE/TABLE")
        return IcebergSink(Path(warehouse), name)
    raise BadOption(f"--to {target}: {kind} is not parquet, delta or iceberg")
