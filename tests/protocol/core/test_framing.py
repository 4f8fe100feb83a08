"""Frames: whole, byte by byte, several at once, and sizes that nobody means."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.core import next_frame
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import SIZE_PREFIX

LIMIT = 1000


def frames_of(buffer: bytearray, filled: int) -> list[bytes]:
    """Return the complete frames, as a connection's loop takes them."""
    frames = []
    position = 0
    while (end := next_frame(buffer, position, filled, LIMIT)) <= filled:
        frames.append(bytes(buffer[position + SIZE_PREFIX : end]))
        position = end
    return frames


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6))
def test_frames_come_out_as_they_went_in(bodies: list[bytes]) -> None:
    """Several frames behind each other are found one by one."""
    buffer = bytearray(b"".join(pack(">i", len(body)) + body for body in bodies))

    assert frames_of(buffer, len(buffer)) == bodies


def test_byte_by_byte() -> None:
    """A frame is complete with its last byte and not before."""
    buffer = bytearray(pack(">i", 3) + b"abc" + pack(">i", 1) + b"d")

    found = [len(frames_of(buffer, filled)) for filled in range(len(buffer) + 1)]

    assert found == [0] * 7 + [1] * 5 + [2]


def test_the_room_that_is_needed() -> None:
    """The answer says how long the buffer must become, prefix first, then the frame."""
    buffer = bytearray(pack(">i", 700))

    assert next_frame(buffer, 0, 2, LIMIT) == 4
    assert next_frame(buffer, 0, 4, LIMIT) == 704
    assert next_frame(memoryview(buffer), 0, 4, LIMIT) == 704


def test_the_limit_is_inclusive() -> None:
    """A frame of exactly the limit is allowed, one byte more is not."""
    assert next_frame(bytearray(pack(">i", LIMIT)), 0, 4, LIMIT) == LIMIT + 4
    with pytest.raises(ProtocolError, match="1001 bytes is larger than the limit of 1000"):
        next_frame(bytearray(pack(">i", LIMIT + 1)), 0, 4, LIMIT)


@pytest.mark.parametrize("size", [0, -1, -(1 << 31)])
def test_a_size_without_a_frame(size: int) -> None:
    """Negative sizes and empty frames are refused before anything is waited for."""
    with pytest.raises(ProtocolError, match=f"size of {size} bytes"):
        next_frame(bytearray(pack(">i", size)), 0, 4, LIMIT)


@pytest.mark.parametrize(
    ("first", "what"),
    [
        (b"GET / HTTP/1.1", "an HTTP request"),
        (b"POST /v1/", "an HTTP request"),
        (b"PRI * HTTP/2.0", "HTTP/2"),
        (b"\x16\x03\x01\x02\x00", "a TLS handshake"),
        (b"SSH-2.0-OpenSSH", "an SSH client"),
    ],
)
def test_other_protocols_are_named(first: bytes, what: str) -> None:
    """A browser or a TLS client that is pointed at the port is named so in the log."""
    with pytest.raises(ProtocolError, match=what):
        next_frame(bytearray(first), 0, len(first), 100 << 20)
