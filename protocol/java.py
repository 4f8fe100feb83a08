"""Text as Java reads, hashes and prints it, to the last bit."""

import codecs
from functools import lru_cache
from ipaddress import ip_address
from struct import unpack
from typing import Final

AS_JAVA: Final = "siltstone.java"
"""An error handler of ``bytes.decode``: bytes that are not UTF-8, as ``new String`` reads them.

It never fails: each malformed sequence is one U+FFFD. Python's "replace" counts them alike but for
half of a surrogate pair, which is one sequence there and three here.
"""

_INT32_MIN = 1 << 31
_MAX_KEPT_CHARACTERS = 255
"""Longer names are not kept: rights are asked later, so any client may have made them up."""


def _replace(error: UnicodeError) -> tuple[str, int]:
    """Return the replacement of a malformed sequence, and the end of the sequence."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    end = error.end
    sequence = error.object[error.start : error.start + 3]
    if sequence[0] == 0xED and len(sequence) > 1 and 0xA0 <= sequence[1] <= 0xBF:
        end = error.start + 2
        if len(sequence) > 2 and 0x80 <= sequence[2] <= 0xBF:
            end += 1
    return "\ufffd", end


codecs.register_error(AS_JAVA, _replace)


def java_hash(text: str) -> int:
    """Return Java's hash of a string, an int32: 31 * h + unit over its UTF-16 units."""
    octets = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(octets) // 2}H", octets):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (value >> 31 << 32)


# The same ids come again and again, and the hash is a loop in Python.
_kept_hash = lru_cache(maxsize=1 << 14)(java_hash)


def partition_for(name: str, count: int) -> int:
    """Return the partition of an internal topic of ``count`` that holds the state of ``name``.

    External tools find a group's records by the same formula.
    """
    value = abs((_kept_hash if len(name) <= _MAX_KEPT_CHARACTERS else java_hash)(name))
    return 0 if value == _INT32_MIN else value % count


def client_host(peer: str) -> str:
    """Return the host of a peer as ``InetAddress`` prints it; ``peer`` has the port, too.

    The result is a text such as ``/10.0.0.7`` or ``/0:0:0:0:0:0:0:1``.
    """
    return _spell(peer.rpartition(":")[0])


@lru_cache(maxsize=1024)  # asked with every heartbeat
def _spell(host: str) -> str:
    address = ip_address(host.strip("[]").partition("%")[0])
    if address.version == 4:
        return f"/{address}"
    return "/" + ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
