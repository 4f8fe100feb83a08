"""Whether a table can take files with some columns; checked before any work is done."""

import pyarrow as pa

from siltstone.pipeline.errors import BadOption


def check_columns(place: object, there: pa.Schema, wanted: pa.Schema) -> None:
    """Make sure that files of a schema fit those of a table, in any order of columns.

    Raises:
        BadOption: A column is missing on one side, or of another type.
    """
    old, new = _described(there), _described(wanted)
    if old != new:
        raise BadOption(
            f"the table {place} has other columns ({_differing(old, new)}) than this job writes "
            f"({_differing(new, old)}); name another table, or the same columns"
        )


def _described(schema: pa.Schema) -> dict[str, str]:
    """Return the type of each column; formats name the element of a list differently."""
    return {
        field.name: str(field.type).replace("large_", "").replace("<item:", "<element:")
        for field in schema
    }


def _differing(one: dict[str, str], other: dict[str, str]) -> str:
    fields = [f"{name} {kind}" for name, kind in one.items() if other.get(name) != kind]
    return ", ".join(fields) or "no more than those"
