"""The fault of a frame whose size cannot be; `protocol.core.next_frame` finds a frame's end."""

from typing import Final

SIZE_PREFIX: Final = 4

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


class TooLarge(str):
    """The fault of a frame that is above the limit; it may be a request otherwise."""

    __slots__ = ()


def describe_bad_size(size: int, prefix: bytes, limit: int) -> str:
    """Return the fault of a size, and the protocol that usually begins with these four bytes."""
    other = _OTHER_PROTOCOLS.get(prefix)
    if prefix.startswith(b"\x16\x03"):
        return (
            "the first bytes are a TLS handshake, and this listener has no TLS; set "
            "security.protocol=PLAINTEXT in the client, SASL_PLAINTEXT if it logs in"
        )
    if other is not None:
        return f"the first bytes are {other}, not a Kafka request"
    if size <= 0:
        return f"a frame cannot have a size of {size} bytes"
    return TooLarge(f"a frame of {size} bytes is larger than the limit of {limit} bytes")
