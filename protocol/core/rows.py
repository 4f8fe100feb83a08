"""The rows and numbers that go into and out of `protocol.core.columns`."""

from typing import NamedTuple


class BatchRow(NamedTuple):
    """One batch of data."""

    position: int
    """In the buffer."""
    size: int
    origin: int
    """The position in the file, for the column `position`."""
    base_offset: int
    last_offset: int
    count: int  # type: ignore[assignment]  # as in BatchHeader
    attributes: int
    max_timestamp: int
    producer_id: int


class Selection(NamedTuple):
    """The wanted records: offsets from ``start`` to below ``end``, and an inclusive range of times.

    Times are in ms; the column gets times multiplied by ``time_scale``. Records are read only if a
    column or a limit needs more than offsets and counts.
    """

    start: int
    end: int
    time_from: int
    time_last: int
    time_scale: int
    is_walked: bool


class Filled(NamedTuple):
    """Counts of written rows, nulls, bytes, headers; the row that does not parse, or -1."""

    rows: int = 0
    key_nulls: int = 0
    key_bytes: int = 0
    value_nulls: int = 0
    value_bytes: int = 0
    headers: int = 0
    name_bytes: int = 0
    header_nulls: int = 0
    header_bytes: int = 0
    bad_row: int = -1
