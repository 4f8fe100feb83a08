"""The memory for the core's columns, and the Arrow arrays over it.

All buffers of one record batch are parts of one allocation, as large as its records could need.
Pages that are not needed are never touched. Nothing is copied on the way to Arrow.
"""

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from siltstone.pipeline.columns import HEADER, TYPES
from siltstone.protocol.core.rows import Filled

_ALIGNMENT: Final = 64


class Arena:
    """Room for the wanted columns of some records, filled once."""

    def __init__(self, names: tuple[str, ...], records: int, payload: int) -> None:
        """Make room for so many records of ``payload`` bytes in all."""
        self._names = names
        self._size = 0
        self.layout: dict[str, int] = {}
        """Where each buffer begins, for the core."""
        for name in names:
            for buffer, size in _sizes(name, records, payload):
                if buffer not in self.layout:
                    self.layout[buffer] = self._size
                    self._size += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.buffer = pa.allocate_buffer(self._size)

    def arrays(self, filled: Filled) -> dict[str, pa.Array]:
        """Return the filled columns."""
        return {name: self._array(name, filled) for name in self._names if _buffers_of(name)}

    def _array(self, name: str, filled: Filled) -> pa.Array:
        rows = filled.rows
        if name == "key":
            return self._bytes("key", rows, filled.key_nulls, filled.key_bytes)
        if name == "value":
            return self._bytes("value", rows, filled.value_nulls, filled.value_bytes)
        if name == "headers":
            return self._headers(filled)
        if name == "isTombstone":
            bits = self._part("tombstone", (rows + 7) // 8)
            return pa.Array.from_buffers(pa.bool_(), rows, [None, bits], null_count=0)
        (buffer,) = _buffers_of(name)
        kind = TYPES[name]
        numbers = self._part(buffer, rows * kind.bit_width // 8)
        stored = pa.Array.from_buffers(kind, rows, [None, numbers], null_count=0)
        if name == "timestampMs" and "timestamp" in self._names:
            return pc.divide(stored, 1000)  # the core stored microseconds
        return stored

    def _part(self, buffer: str, size: int) -> pa.Buffer:
        return self.buffer.slice(self.layout[buffer], size)

    def _bytes(self, name: str, rows: int, nulls: int, size: int) -> pa.Array:
        validity = self._part(f"{name}_valid", (rows + 7) // 8) if nulls else None
        buffers = [validity, self._part(f"{name}_ends", 4 * (rows + 1)), self._part(name, size)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=nulls)

    def _headers(self, filled: Filled) -> pa.Array:
        rows, count = filled.rows, filled.headers
        ends = self._part("name_ends", 4 * (count + 1))
        data = self._part("name", filled.name_bytes)
        values = self._bytes("header_value", count, filled.header_nulls, filled.header_bytes)
        fields = [_text(pa.Array.from_buffers(pa.string(), count, [None, ends, data])), values]
        pairs = pa.StructArray.from_arrays(fields, fields=list(HEADER))
        lists = self._part("header_ends", 4 * (rows + 1))
        kind = TYPES["headers"]
        filled = pa.Array.from_buffers(kind, rows, [None, lists], children=[pairs])
        has_headers = pc.not_equal(pc.list_value_length(filled), 0)  # null, as in Spark's own
        buffers = [has_headers.buffers()[1], lists]
        return pa.Array.from_buffers(kind, rows, buffers, children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Return the names of headers as text; other bytes than UTF-8 are read as Java does."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        binary = pa.Array.from_buffers(pa.binary(), len(names), names.buffers())
        return pa.array([name.decode(errors="replace") for name in binary.to_pylist()], pa.string())
    return names


def _buffers_of(name: str) -> tuple[str, ...]:
    return tuple(buffer for buffer, _ in _sizes(name, 0, 0))


def _sizes(name: str, records: int, payload: int) -> list[tuple[str, int]]:
    """Return each buffer of a column and the bytes that it could take."""
    bits, numbers, ends = records // 8 + 1, 8 * records, 4 * (records + 1)
    headers = payload // 2 + 1
    return {
        "offset": [("offset", numbers)],
        "timestamp": [("timestamp", numbers)],
        "timestampMs": [("timestamp", numbers)],
        "timestampType": [("timestamp_type", numbers)],
        "key": [("key_valid", bits), ("key_ends", ends), ("key", payload)],
        "value": [("value_valid", bits), ("value_ends", ends), ("value", payload)],
        "headers": [
            ("header_ends", ends),
            ("name_ends", 4 * (headers + 1)),
            ("name", payload),
            ("header_value_valid", headers // 8 + 1),
            ("header_value_ends", 4 * (headers + 1)),
            ("header_value", payload),
        ],
        "position": [("batch_position", numbers)],
        "batchOffset": [("batch_offset", numbers)],
        "producerId": [("producer_id", numbers)],
        "isTombstone": [("tombstone", bits)],
    }.get(name, [])
