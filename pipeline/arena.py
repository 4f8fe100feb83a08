"""Where a kernel's columns lie in memory, and the Arrow arrays over them.

All buffers of one record batch are parts of one allocation, as long as its records could need: the
pages that they do not are never touched. Nothing is copied on the way to Arrow.
"""

from array import array
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.columns import HEADER, TYPES
from protocol.records import column_slots as slots

_ALIGNMENT: Final = 64


class Arena:
    """Room for the wanted columns of some records, filled once."""

    def __init__(self, names: tuple[str, ...], records: int, payload: int) -> None:
        """Make room for so many records, whose bytes are ``payload`` with all that is in them."""
        self._names = names
        self._size = 0
        self._starts: dict[int, int] = {}
        for name in names:
            for slot, size in _sizes(name, records, payload):
                if slot not in self._starts:
                    self._starts[slot] = self._size
                    self._size += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.buffer = pa.allocate_buffer(self._size)

    @property
    def layout(self) -> "array[int]":
        """Where each buffer begins, as the kernel wants to know it."""
        return array("q", [self._starts.get(slot, -1) for slot in range(slots.BUFFERS)])

    def arrays(self, state: "array[int]") -> dict[str, pa.Array]:
        """Return the filled columns; `state` is what the kernel left."""
        rows = state[slots.ROWS]
        return {name: self._array(name, rows, state) for name in self._names if _slots_of(name)}

    def _array(self, name: str, rows: int, state: "array[int]") -> pa.Array:
        if name == "key":
            fields = (slots.KEY_VALID, slots.KEY_ENDS, slots.KEY)
            return self._bytes(fields, rows, state[slots.KEY_NULLS], state[slots.KEY_BYTES])
        if name == "value":
            fields = (slots.VALUE_VALID, slots.VALUE_ENDS, slots.VALUE)
            return self._bytes(fields, rows, state[slots.VALUE_NULLS], state[slots.VALUE_BYTES])
        if name == "headers":
            return self._headers(rows, state)
        if name == "isTombstone":
            bits = self._part(slots.TOMBSTONE, (rows + 7) // 8)
            return pa.Array.from_buffers(pa.bool_(), rows, [None, bits], null_count=0)
        (slot,) = _slots_of(name)
        kind = TYPES[name]
        numbers = self._part(slot, rows * kind.bit_width // 8)
        stored = pa.Array.from_buffers(kind, rows, [None, numbers], null_count=0)
        if name == "timestampMs" and "timestamp" in self._names:
            return pc.divide(stored, 1000)  # the kernel stored microseconds
        return stored

    def _part(self, slot: int, size: int) -> pa.Buffer:
        return self.buffer.slice(self._starts[slot], size)

    def _bytes(self, fields: tuple[int, int, int], rows: int, nulls: int, size: int) -> pa.Array:
        valid, ends, data = fields
        validity = self._part(valid, (rows + 7) // 8) if nulls else None
        buffers = [validity, self._part(ends, 4 * (rows + 1)), self._part(data, size)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, null_count=nulls)

    def _headers(self, rows: int, state: "array[int]") -> pa.Array:
        count = state[slots.HEADERS]
        ends = self._part(slots.NAME_ENDS, 4 * (count + 1))
        data = self._part(slots.NAME, state[slots.NAME_BYTES])
        values = self._bytes(
            (slots.HEADER_VALID, slots.HEADER_VALUE_ENDS, slots.HEADER_VALUE),
            count,
            state[slots.HEADER_NULLS],
            state[slots.HEADER_BYTES],
        )
        fields = [_text(pa.Array.from_buffers(pa.string(), count, [None, ends, data])), values]
        pairs = pa.StructArray.from_arrays(fields, fields=list(HEADER))
        lists = self._part(slots.HEADER_ENDS, 4 * (rows + 1))
        kind = TYPES["headers"]
        filled = pa.Array.from_buffers(kind, rows, [None, lists], children=[pairs])
        has_headers = pc.not_equal(pc.list_value_length(filled), 0)  # none: null, as Spark's own
        buffers = [has_headers.buffers()[1], lists]
        return pa.Array.from_buffers(kind, rows, buffers, children=[pairs])


def _text(names: pa.Array) -> pa.Array:
    """Return the names of headers as they are if they are UTF-8, else as Java reads them."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        binary = pa.Array.from_buffers(pa.binary(), len(names), names.buffers())
        return pa.array([name.decode(errors="replace") for name in binary.to_pylist()], pa.string())
    return names


def _slots_of(name: str) -> tuple[int, ...]:
    return tuple(slot for slot, _ in _sizes(name, 0, 0))


def _sizes(name: str, records: int, payload: int) -> list[tuple[int, int]]:
    """Return each buffer of a column and the bytes that it could take."""
    bits, numbers, ends = records // 8 + 1, 8 * records, 4 * (records + 1)
    headers = payload // 2 + 1
    return {
        "offset": [(slots.OFFSET, numbers)],
        "timestamp": [(slots.TIMESTAMP, numbers)],
        "timestampMs": [(slots.TIMESTAMP, numbers)],
        "timestampType": [(slots.TIMESTAMP_TYPE, numbers)],
        "key": [(slots.KEY_VALID, bits), (slots.KEY_ENDS, ends), (slots.KEY, payload)],
        "value": [(slots.VALUE_VALID, bits), (slots.VALUE_ENDS, ends), (slots.VALUE, payload)],
        "headers": [
            (slots.HEADER_ENDS, ends),
            (slots.NAME_ENDS, 4 * (headers + 1)),
            (slots.NAME, payload),
            (slots.HEADER_VALID, headers // 8 + 1),
            (slots.HEADER_VALUE_ENDS, 4 * (headers + 1)),
            (slots.HEADER_VALUE, payload),
        ],
        "position": [(slots.BATCH_POSITION, numbers)],
        "batchOffset": [(slots.BATCH_OFFSET, numbers)],
        "producerId": [(slots.PRODUCER_ID, numbers)],
        "isTombstone": [(slots.TOMBSTONE, bits)],
    }.get(name, [])
