"""The sinks that ``--to`` names: ``parquet:DIR``, ``delta:DIR``, ``iceberg:WAREHOUSE/TABLE``."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from siltstone.pipeline.errors import BadOption

if TYPE_CHECKING:
    import pyarrow as pa

    from siltstone.pipeline.sinks.staging import StagedFile
    from siltstone.pipeline.sinks.state import TableState


class TableSink(Protocol):
    """A table of files that is changed by one commit."""

    kind: str
    path: Path
    staging: Path

    def sweep(self) -> None:
        """Delete what killed jobs have left."""

    def state(self) -> "TableState | None":
        """Return the state of the table; None if no job has written it."""

    def check(self, schema: "pa.Schema", *, keeps: bool, takes_over: bool = False) -> None:
        """Make sure, before any work, that a commit will do no harm.

        ``keeps`` says that files stay beside those of the schema, ``takes_over`` that files which
        no job has written may go.

        Raises:
            BadOption: The table has other columns, or files that no job has written.
        """

    def files(self) -> list[Path]:
        """Return the files of the table as it is now."""

    def commit(
        self,
        state: "TableState",
        schema: "pa.Schema",
        added: "Iterable[StagedFile]",
        removed: Sequence[Path] | None,
    ) -> str:
        """Remove files from the table (None: all) and add others, in one commit."""


def open_table(target: str) -> TableSink:
    """Return the sink of a target.

    Raises:
        BadOption: There is no such kind of table.
    """
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
    raise BadOption(f"--to {target}: {kind} is none of parquet, delta, iceberg")
