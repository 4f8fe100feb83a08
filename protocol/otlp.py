"""OpenTelemetry's MetricsData v1, as clients push it (KIP-714): numbers and their labels.

MetricsData is a message of protocol buffers. Only numbers and their labels are read; histograms,
units and descriptions are skipped. Any client may send it, so every length is compared with the
end.
"""

from collections.abc import Iterator
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from siltstone.protocol.errors import InvalidRecord

Labels = tuple[tuple[str, str], ...]

MAX_LABELS: Final = 20
MAX_TEXT: Final = 256
"""The most labels of a point, and the most characters of a text; the rest is cut off. All points of
a resource have its labels, so that few bytes could make very many."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE: Final = Struct("<d")
_INT64: Final = Struct("<q")
_LONGEST_VARINT: Final = 10

# The numbers of fields, by message.
_RESOURCE_METRICS = 1  # of MetricsData
_RESOURCE, _SCOPE_METRICS = 1, 2  # of ResourceMetrics
_RESOURCE_ATTRIBUTES = 1  # of Resource
_METRICS = 2  # of ScopeMetrics
_NAME, _GAUGE, _SUM = 1, 5, 7  # of Metric
_DATA_POINTS = 1  # of Gauge and Sum
_AS_DOUBLE, _AS_INT, _ATTRIBUTES = 4, 6, 7  # of NumberDataPoint
_KEY, _VALUE = 1, 2  # of KeyValue
_STRING_VALUE, _BOOL_VALUE, _INT_VALUE, _DOUBLE_VALUE = 1, 2, 3, 4  # of AnyValue


class Point(NamedTuple):
    """One number; ``labels`` has the labels of its resource and its own labels."""

    name: str
    labels: Labels
    value: float


def read_points(data: bytes) -> Iterator[Point]:
    """Yield every number. A megabyte takes a tenth of a second: do not call this on the loop.

    Raises:
        InvalidRecord: The bytes are no such message.
    """
    for _, resource in _messages(data, {_RESOURCE_METRICS}):
        shared: Labels = ()
        for number, part in _messages(resource, {_RESOURCE, _SCOPE_METRICS}):
            if number == _RESOURCE:
                shared = tuple(islice(_attributes(part, _RESOURCE_ATTRIBUTES), MAX_LABELS))
                continue
            for _, metric in _messages(part, {_METRICS}):
                yield from _points(metric, shared)


def _points(metric: bytes, shared: Labels) -> Iterator[Point]:
    name = ""
    for number, part in _messages(metric, {_NAME, _GAUGE, _SUM}):
        if number == _NAME:
            name = _text(part)
            continue
        for _, point in _messages(part, {_DATA_POINTS}):
            value: float | None = None
            for field, found in _fields(point):
                if field == _AS_DOUBLE and isinstance(found, bytes):
                    (value,) = _DOUBLE.unpack(_eight(found))
                elif field == _AS_INT and isinstance(found, bytes):
                    (value,) = _INT64.unpack(_eight(found))
            if name and value is not None:
                own = islice(_attributes(point, _ATTRIBUTES), MAX_LABELS - len(shared))
                yield Point(name, (*shared, *own), value)


def _attributes(message: bytes, number: int) -> Iterator[tuple[str, str]]:
    for _, pair in _messages(message, {number}):
        key, value = "", ""
        for field, part in _messages(pair, {_KEY, _VALUE}):
            if field == _KEY:
                key = _text(part)
            else:
                value = _any_value(part)
        if key:
            yield key, value


def _any_value(message: bytes) -> str:
    for field, value in _fields(message):
        if field == _STRING_VALUE and isinstance(value, bytes):
            return _text(value)
        if field == _BOOL_VALUE:
            return "true" if value else "false"
        if field == _INT_VALUE and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if field == _DOUBLE_VALUE and isinstance(value, bytes):
            return str(_DOUBLE.unpack(_eight(value))[0])
    return ""


def _messages(message: bytes, numbers: set[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message that are themselves messages or texts."""
    for number, value in _fields(message):
        if number in numbers:
            if not isinstance(value, bytes):
                raise InvalidRecord(f"field {number} of the metrics is no message")
            yield number, value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the number and content of each field; a fixed-width number comes as its bytes."""
    position = 0
    end = len(message)
    while position < end:
        tag, position = _varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(message, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, position = _varint(message, position)
        elif kind in {_FIXED64, _FIXED32}:
            size = 8 if kind == _FIXED64 else 4
        else:
            raise InvalidRecord(f"the metrics have a field of type {kind}, which does not exist")
        if size > end - position:
            raise InvalidRecord("the metrics end within a field")
        yield tag >> 3, message[position : position + size]
        position += size


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for octet in message[position : position + _LONGEST_VARINT]:
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, position
        shift += 7
    raise InvalidRecord("the metrics end within a number")


def _eight(value: bytes) -> bytes:
    if len(value) != _INT64.size:
        raise InvalidRecord("a number in the metrics is not as wide as it says")
    return value


def _text(value: bytes) -> str:
    return value[: 4 * MAX_TEXT].decode("utf-8", "replace")[:MAX_TEXT]
