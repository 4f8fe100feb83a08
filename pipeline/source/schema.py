"""Maps the columns of a topic to a DataFrame's schema.

A user's schema chooses columns (Spark does not prune them) and may have ``key`` and ``value`` as
text. Any other type is refused before a byte is read.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from siltstone.pipeline.columns import TYPES, check_names, choose
from siltstone.pipeline.errors import BadOption, CorruptLog
from siltstone.pipeline.options import ReadOptions

SPARK_TYPES: Final = {name: from_arrow_type(kind).simpleString() for name, kind in TYPES.items()}
_TEXTS: Final = {"key", "value"}


def default_schema(options: Mapping[str, str]) -> str:
    """Return the schema of a read that gives none, as DDL.

    Raises:
        BadOption: options are wrong, or name columns that do not exist.
    """
    parsed = ReadOptions.parse(options)
    names = choose(parsed.columns, has_headers=parsed.include_headers)
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in names)


def check_schema(schema: StructType) -> tuple[str, ...]:
    """Return the columns that a schema names.

    Raises:
        BadOption: a column does not exist, or has another type.
    """
    names = tuple(schema.fieldNames())
    check_names(names)
    for field in schema.fields:
        kind = field.dataType.simpleString()
        allowed = {SPARK_TYPES[field.name], *(("string",) if field.name in _TEXTS else ())}
        if kind not in allowed:
            raise BadOption(
                f"column {field.name} is {' or '.join(sorted(allowed))}, not {kind}; read it as it "
                "is and cast it"
            )
    return names


def converted(batches: Iterator[pa.RecordBatch], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield record batches in exactly the form that Spark expects for a schema.

    Raises:
        CorruptLog: text is wanted, and the bytes are not UTF-8.
    """
    texts = {field.name for field in schema.fields if field.dataType.simpleString() == "string"}
    target = pa.schema(
        [(name, pa.string() if name in texts else TYPES[name]) for name in schema.fieldNames()]
    )
    for batch in batches:
        columns = [
            _text(column, field.name) if column.type != field.type else column
            for column, field in zip(batch.columns, target, strict=True)
        ]
        if columns:
            yield pa.RecordBatch.from_arrays(columns, schema=target)
        else:
            yield batch


def _text(column: pa.Array, name: str) -> pa.Array:
    if column.type != pa.binary():
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid as error:
        raise CorruptLog(
            f"column {name} is asked for as string and has bytes that are not UTF-8; read it as "
            "binary, and decode it with decode(..., 'UTF-8') or leave the rows out"
        ) from error
