"""Bytes that are no UTF-8, read as ``new String(bytes, UTF_8)`` of OpenJDK 17 reads them."""

import pytest

from siltstone.protocol.java_text import AS_JAVA

R = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"gr\xc3\xbcn", "grün"),
        (b"a\xffb", f"a{R}b"),
        (b"\xc0\x80", R * 2),
        (b"\xe2\x82", R),
        (b"\xe2\x82A", f"{R}A"),
        (b"\xf0\x9f\x98", R),
        (b"\xf4\x90\x80\x80", R * 4),
        (b"\xed\xa0\x80", R),
        (b"\xed\xa0\x80\xed\xb0\x80", R * 2),
        (b"\xed\xa0", R),
        (b"\xed\xbfA", f"{R}A"),
        (b"\xed\xa0\xe1", R * 2),
    ],
)
def test_malformed_sequences_are_replaced_as_in_java(data: bytes, text: str) -> None:
    """One U+FFFD each; half of a surrogate pair is one sequence."""
    assert data.decode("utf-8", AS_JAVA) == text
