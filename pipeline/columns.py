"""The columns of a topic as a table: names and types as in Spark's own Kafka source.

On request there are more, which only the files have: ``segment``, ``position``, ``batchOffset``,
``producerId``, ``isTombstone``, and ``timestampMs``, the time as it is stored.
"""

from typing import Final

import pyarrow as pa

from siltstone.pipeline.errors import BadOption

HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER)),
    "segment": pa.int64(),
    "position": pa.int64(),
    "batchOffset": pa.int64(),
    "producerId": pa.int64(),
    "isTombstone": pa.bool_(),
    "timestampMs": pa.int64(),
}
STANDARD: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
WALKED: Final = {"key", "value", "timestamp", "timestampMs", "headers", "isTombstone"}
"""Columns for which records must be read; for the others batch headers may do."""


def check_names(names: tuple[str, ...]) -> None:
    """Refuse columns that do not exist.

    Raises:
        BadOption: One does not exist, or is named twice.
    """
    unknown = [name for name in names if name not in TYPES]
    if unknown:
        raise BadOption(f"a topic has no column {', '.join(unknown)}; it has {', '.join(TYPES)}")
    if len(set(names)) < len(names):
        raise BadOption(f"a column is named twice in {', '.join(names)}")


def choose(names: tuple[str, ...], *, has_headers: bool) -> tuple[str, ...]:
    """Return the columns that options name, by default those of Spark's own Kafka source.

    Raises:
        BadOption: One does not exist, or is named twice.
    """
    check_names(names)
    return names or (*STANDARD, *(("headers",) if has_headers else ()))


def arrow_schema(names: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of columns in this order."""
    return pa.schema([pa.field(name, TYPES[name]) for name in names])
