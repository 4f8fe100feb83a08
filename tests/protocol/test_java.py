"""Text read, hashed and printed as OpenJDK 17 does."""

from sys import getrefcount

import pytest

from siltstone.protocol.java import AS_JAVA, client_host, java_hash, partition_for

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
    """As by ``new String(bytes, UTF_8)``: one U+FFFD each; half of a surrogate pair is one."""
    assert data.decode("utf-8", AS_JAVA) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("grün", 3185949),
        ("\U0001f600", 1772899),
    ],
)
def test_hashes_are_javas(text: str, expected: int) -> None:
    """Over UTF-16 units, in 32 bits."""
    assert java_hash(text) == expected


def test_the_partition_is_never_negative() -> None:
    """Not for the one hash that has no positive counterpart either."""
    assert partition_for("polygenelubricants", 50) == 0
    assert {partition_for(f"group-{number}", 50) for number in range(2000)} == set(range(50))


def test_long_names_are_not_kept() -> None:
    """They come from requests that are refused, too: 16,000 of them had half a gigabyte."""
    name = "x" * 30_000
    before = getrefcount(name)
    partition = partition_for(name, 50)

    assert getrefcount(name) == before
    assert partition == abs(java_hash(name)) % 50


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("10.0.0.7:9092", "/10.0.0.7"),
        ("[::1]:9092", "/0:0:0:0:0:0:0:1"),
        ("[fe80::1%eth0]:9092", "/fe80:0:0:0:0:0:0:1"),
    ],
)
def test_a_host_is_spelled_as_java_does(peer: str, host: str) -> None:
    """Addresses of version 6 are whole."""
    assert client_host(peer) == host


def test_a_host_is_kept_once_whatever_its_ports() -> None:
    """Each connection of a client has a port of its own."""
    assert client_host("10.0.0.8:1") is client_host("10.0.0.8:2")
