"""Heartbeat requests and responses by hand: the most frequent of all that groups exchange.

Versions 0 to 4; 1 throttle time; 3 instance id (KIP-345); 4 flexible. kio is the oracle in tests.
"""

from struct import Struct
from typing import Final

from protocol.group_kernels import encode_heartbeat, find_heartbeat
from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, behind

API_KEY: Final = 12
FIRST_FLEXIBLE: Final = 4
_FIRST_WITH_INSTANCE: Final = 3

_GENERATION = Struct(">i")
_ERROR = Struct(">h")
_ANSWER = Struct(">ih")  # throttle time, error


def parse(
    version: int, buffer: memoryview, position: int, end: int
) -> tuple[str, int, str, str | None]:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Returns:
        Group, generation, member id and instance id.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    if version >= FIRST_FLEXIBLE:
        found = find_heartbeat(buffer, position, end)
        if found is not None:
            return found
    return _parse_any(version, buffer, position, end)


def _parse_any(
    version: int, buffer: memoryview, position: int, end: int
) -> tuple[str, int, str, str | None]:
    """Read any request, and say what is wrong with it."""
    encoding = COMPACT if version >= FIRST_FLEXIBLE else CLASSIC
    group_id, position = encoding.string(buffer, position, end)
    start, position = position, behind(_GENERATION.size, position, end)
    generation: int = _GENERATION.unpack_from(buffer, start)[0]
    member_id, position = encoding.string(buffer, position, end)
    instance_id = None
    if version >= _FIRST_WITH_INSTANCE:
        instance_id, position = encoding.nullable_string(buffer, position, end)
    encoding.tags(buffer, position, end)
    return group_id, generation, member_id, instance_id


def encode(version: int, correlation_id: int, error_code: int) -> bytes:
    """Return the response frame with its size prefix."""
    if version >= FIRST_FLEXIBLE:
        return encode_heartbeat(correlation_id, error_code)
    body = _ANSWER.pack(0, error_code) if version >= 1 else _ERROR.pack(error_code)
    return response_head(API_KEY, version, correlation_id, len(body)) + body
