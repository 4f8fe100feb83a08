"""The description of a structure's field, for the core."""

from typing import Any, Final, NamedTuple

KINDS: Final = (
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "uuid", "string",
    "bytes", "records", "octets", "struct",
)  # fmt: skip
"""The types, in the order by which the core numbers them. Octets are bytes of a request."""


class Field(NamedTuple):
    """One field of one version, in the form for `protocol.core.Table`.

    ``kind`` is an index in `KINDS`; ``tag`` is -1 for a field that is not tagged; ``child`` is the
    table of a structure, or the structure's description until its table is made.
    """

    kind: int
    is_array: bool
    is_nullable: bool
    is_present: bool
    is_error: bool
    tag: int
    default: Any
    child: Any
