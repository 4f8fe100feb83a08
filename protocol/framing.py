"""Where a frame ends: its 4-byte size prefix, judged in a buffer that somebody else fills.

A frame is never copied: the caller reads header and body in place. Kafka's counterpart is
NetworkReceive; like there, a size is judged before a byte of the body is waited for.
"""

from struct import Struct
from typing import Final

from protocol.errors import ProtocolError

SIZE_PREFIX: Final = 4
_read_size = Struct(">i").unpack_from

_OTHER_PROTOCOLS: Final = {
    b"GET ": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"POST": "an HTTP request",
    b"PUT ": "an HTTP request",
    b"DELE": "an HTTP request",
    b"OPTI": "an HTTP request",
    b"CONN": "an HTTP proxy request",
    b"PRI ": "an HTTP/2 connection",
    b"SSH-": "an SSH client",
}


def next_frame(buffer: bytearray | memoryview, position: int, filled: int, limit: int) -> int:
    """Return where the frame at ``position`` ends; it is complete if that is not past ``filled``.

    Its header starts at ``position + SIZE_PREFIX``. While fewer than four bytes are there
    the answer is the end of the prefix. Either way the answer minus ``position`` is how much room
    the buffer needs, so nothing is reserved before the size has been judged.

    Raises:
        ProtocolError: the size is negative, zero or above ``limit``.
    """
    if filled - position < SIZE_PREFIX:
        return position + SIZE_PREFIX
    size: int = _read_size(buffer, position)[0]
    if 0 < size <= limit:
        return position + SIZE_PREFIX + size
    raise ProtocolError(_bad_size(size, bytes(buffer[position : position + SIZE_PREFIX]), limit))


def _bad_size(size: int, prefix: bytes, limit: int) -> str:
    """Say what is wrong with a size, and who usually sends these four bytes instead of one."""
    other = _OTHER_PROTOCOLS.get(prefix)
    if prefix.startswith(b"\x16\x03"):
        other = "a TLS handshake on a listener without TLS"
    if other is not None:
        return f"the first bytes are {other}, not a Kafka request"
    if size <= 0:
        return f"a frame cannot have a size of {size} bytes"
    return f"a frame of {size} bytes is larger than the limit of {limit} bytes"
