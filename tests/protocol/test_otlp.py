"""Metrics of clients: numbers and labels are found, and nothing else comes of other bytes."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.errors import InvalidRecord
from siltstone.protocol.otlp import MAX_LABELS, MAX_TEXT, Point, read_points


def varint(value: int) -> bytes:
    """Return a number as protocol buffers write it."""
    written = b""
    while value > 0x7F:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def part(number: int, content: bytes | str) -> bytes:
    """Return a field that is a message or a text."""
    raw = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(raw)) + raw


def label(name: str, value: bytes) -> bytes:
    """Return a KeyValue whose AnyValue has this content."""
    return part(1, name) + part(2, value)


def number(value: float, *labels: bytes) -> bytes:
    """Return a NumberDataPoint."""
    if isinstance(value, int):
        written = varint(6 << 3 | 1) + struct.pack("<q", value)
    else:
        written = varint(4 << 3 | 1) + struct.pack("<d", value)
    return written + b"".join(part(7, each) for each in labels)


def metrics(*found: bytes, resource: bytes = b"") -> bytes:
    """Return MetricsData with these metrics."""
    scope = part(1, part(1, "scope")) + b"".join(part(2, each) for each in found)
    return part(1, part(1, resource) + part(2, scope))


def gauge(name: str, *points: bytes) -> bytes:
    """Return a Metric that is a gauge."""
    return part(1, name) + part(3, "ms") + part(5, b"".join(part(1, each) for each in points))


def total(name: str, *points: bytes) -> bytes:
    """Return a Metric that is a sum, with a temporality of its own."""
    content = b"".join(part(1, each) for each in points) + varint(2 << 3) + varint(2)
    return part(1, name) + part(7, content)


def test_numbers_have_the_labels_of_their_resource_and_their_own() -> None:
    """A gauge of two doubles and a sum of an integer."""
    data = metrics(
        gauge("lag.max", number(1.5, label("topic", part(1, "orders"))), number(-math.inf)),
        total("sent.total", number(-7)),
        resource=part(1, label("group_id", part(1, "billing"))),
    )

    assert list(read_points(data)) == [
        Point("lag.max", (("group_id", "billing"), ("topic", "orders")), 1.5),
        Point("lag.max", (("group_id", "billing"),), -math.inf),
        Point("sent.total", (("group_id", "billing"),), -7),
    ]


def test_labels_and_texts_are_bounded() -> None:
    """Labels of a resource are those of all its points: few bytes would become very many."""
    long = "x" * (MAX_TEXT + 9)
    labels = b"".join(part(1, label(f"k{each}", part(1, long))) for each in range(MAX_LABELS - 1))
    own = label("own", part(1, "y")), label("more", part(1, "z"))
    data = metrics(gauge(long, number(1.0, *own)), resource=labels)
    many = metrics(gauge("g", number(1.0, *own)), resource=labels * 2)

    [point], [other] = read_points(data), read_points(many)
    assert point.name == long[:MAX_TEXT]
    assert point.labels[0] == ("k0", long[:MAX_TEXT])
    assert point.labels[-1] == ("own", "y")
    assert len(point.labels) == len(other.labels) == MAX_LABELS


def test_labels_of_every_kind_become_texts() -> None:
    """Texts, truths, whole numbers below nothing, numbers; what is more is empty."""
    kinds = {
        "text": part(1, "é"),
        "truth": varint(2 << 3) + b"\x01",
        "whole": varint(3 << 3) + varint((1 << 64) - 5),
        "number": varint(4 << 3 | 1) + struct.pack("<d", 0.25),
        "list": part(5, b""),
    }
    data = metrics(gauge("g", number(1.0, *(label(*each) for each in kinds.items()))))

    [point] = list(read_points(data))
    assert dict(point.labels) == {
        "text": "é", "truth": "true", "whole": "-5", "number": "0.25", "list": ""
    }  # fmt: skip


def test_histograms_and_unknown_fields_are_passed_over() -> None:
    """Newer clients may say more."""
    histogram = part(1, "h") + part(9, part(1, b""))
    odd = gauge("g", number(2.0)) + varint(99 << 3 | 5) + b"four"

    assert list(read_points(metrics(histogram, odd))) == [Point("g", (), 2.0)]


@pytest.mark.parametrize(
    "data",
    [
        part(1, b"x")[:-1],
        b"\x0a\xff",
        b"\xff" * 11,
        b"\x08\x01",
        b"\x0b",
        metrics(gauge("g", b"\x25four")),
    ],
)
def test_what_is_no_metrics_is_refused(data: bytes) -> None:
    """Cut short, a number without an end, another type than the field's, a group."""
    with pytest.raises(InvalidRecord):
        list(read_points(data))


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Nothing else is ever raised, alone or within a message that is one."""
    for each in (data, metrics(data), metrics(gauge("g", data))):
        try:
            list(read_points(each))
        except InvalidRecord:
            continue
