"""Faults of a frame's size, and the versions of APIs with flexible heads.

`protocol.core.next_frame` finds a frame's end.
"""

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

API_VERSIONS: Final = 18
_NEVER: Final = 1 << 15

_FLEXIBLE_SINCE: Final = {
    1: (27, 44, 48, 49, 53, 54),
    2: (21, 22, 29, 30, 31, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43),
    3: (10, 16, 18, 24, 25, 26, 28),
    4: (12, 13, 14, 20, 23, 32),
    5: (15, 19),
    6: (2, 9, 11),
    8: (8,),
    9: (0, 3),
    12: (1,),
    _NEVER: (17, 47),
}
FIRST_FLEXIBLE: Final = dict.fromkeys(range(45, 95), 0) | {
    key: version for version, keys in _FLEXIBLE_SINCE.items() for key in keys
}
"""API key to the first version with compact lengths and tagged fields (KIP-482).

`protocol.messages` says the same of the APIs that it has; here it stands without their tables, for
the head of a request, which is read before anything else.
"""


class TooLarge(str):
    """The fault of a frame above the limit, which may otherwise be a request."""

    __slots__ = ()


def describe_bad_size(size: int, prefix: bytes, limit: int) -> str:
    """Return the fault of a size, with the protocol that usually begins with these four bytes."""
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
