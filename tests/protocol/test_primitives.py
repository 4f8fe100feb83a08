"""The two encodings of lengths, against kio's and against the end of the frame."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import (
    write_nullable_compact_string,
    write_nullable_legacy_string,
    write_unsigned_varint,
)

from protocol.errors import ProtocolError
from protocol.primitives import CLASSIC, COMPACT, Encoding, put_varint, read_varint, skip_tags

ENCODINGS = [CLASSIC, COMPACT]


def written(write: Callable[..., None], value: Any) -> bytes:
    """Return what one of kio's writers writes."""
    buffer = io.BytesIO()
    write(buffer, value)
    return buffer.getvalue()


@given(st.integers(0, (1 << 31) - 1))
def test_varints_as_kio_writes_them(value: int) -> None:
    """A varint goes through any neighbourhood and is refused when its end is cut."""
    encoded = put_varint(value)
    frame = b"\xff" + encoded + b"\xff"

    assert encoded == written(write_unsigned_varint, value)
    assert read_varint(frame, 1, len(frame)) == (value, 1 + len(encoded))
    assert read_varint(encoded, 0, len(encoded)) == (value, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(ProtocolError):
            read_varint(encoded, 0, end)


@pytest.mark.parametrize(
    "encoded", [b"\xff" * 4 + b"\x08", b"\xff" * 5 + b"\x01", b"\x80" * 20, b"\xff" * 20]
)
def test_a_varint_has_at_most_31_bits(encoded: bytes) -> None:
    """Longer ones are refused instead of read on and on."""
    with pytest.raises(ProtocolError, match="no varint"):
        read_varint(encoded, 0, len(encoded))


@given(st.none() | st.text(max_size=300))
def test_strings_as_kio_writes_them(text: str | None) -> None:
    """Both encodings write what kio writes and read it back."""
    classic, compact = CLASSIC.put_string(text), COMPACT.put_string(text)

    assert classic == written(write_nullable_legacy_string, text)
    assert compact == written(write_nullable_compact_string, text)
    assert CLASSIC.nullable_string(classic, 0, len(classic)) == (text, len(classic))
    assert COMPACT.nullable_string(compact, 0, len(compact)) == (text, len(compact))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_required_string_is_not_null(encoding: Encoding) -> None:
    """Null is refused where a string must be."""
    null = encoding.put_string(None)

    with pytest.raises(ProtocolError, match="null"):
        encoding.string(null, 0, len(null))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("text", [b"caf\xe9", b"\xc3", b"\xed\xa0\x80", b"a\xc0\x80"])
def test_what_is_no_utf8_is_replaced(encoding: Encoding, text: bytes) -> None:
    """Another encoding, cut characters, surrogates, over-long forms: read as Java reads them."""
    frame = encoding.put_string("x" * len(text))[: -len(text)] + text
    read, end = encoding.string(frame, 0, len(frame))

    assert end == len(frame)
    assert "\ufffd" in read
    assert read.encode().decode() == read  # it can be written again


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("count", [-1, 4, 1000, (1 << 31) - 2])
def test_an_array_needs_a_byte_for_each_entry(encoding: Encoding, count: int) -> None:
    """A count beyond the frame is refused before a list is made."""
    frame = encoding.put_count(count) + b"abc"

    with pytest.raises(ProtocolError, match=f"array of {count} entries"):
        encoding.count(frame, 0, len(frame))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_byte_range_ends_in_the_frame(encoding: Encoding) -> None:
    """Null is -1, what fits is given, what goes past the end is refused."""
    null, three = encoding.put_size(-1), encoding.put_size(3)

    assert encoding.size(null, 0, len(null)) == (-1, len(null))
    assert encoding.size(three + b"abc", 0, len(three) + 3) == (3, len(three))
    with pytest.raises(ProtocolError, match="field of 3 bytes"):
        encoding.size(three + b"abc", 0, len(three) + 2)


def test_a_negative_size_is_no_null() -> None:
    """Only -1 means null in the classic encoding."""
    with pytest.raises(ProtocolError, match="-2 bytes"):
        CLASSIC.size(b"\xff\xff\xff\xfe", 0, 4)


def test_tagged_fields_are_found_or_skipped() -> None:
    """The spans of tagged fields are given by tag; who knows none just gets behind them."""
    frame = b"\x02" + b"\x00\x03abc" + put_varint(300) + b"\x01z" + b"!"

    spans, behind = COMPACT.tags(frame, 0, len(frame))

    assert {tag: frame[start:stop] for tag, (start, stop) in spans.items()} == {
        0: b"abc",
        300: b"z",
    }
    assert frame[behind:] == b"!"
    assert skip_tags(frame, 0, len(frame)) == behind
    for end in range(len(frame) - 1):
        with pytest.raises(ProtocolError):
            skip_tags(frame, 0, end)


def test_the_classic_encoding_has_no_tagged_fields() -> None:
    """Nothing is read and nothing is written."""
    assert CLASSIC.tags(b"\x01", 0, 1) == ({}, 0)
    assert CLASSIC.no_tags == b""
