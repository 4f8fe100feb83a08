"""SyncGroup requests and responses by hand: every member sends one in every generation.

Versions 0 to 5; 1 throttle time; 3 instance id (KIP-345); 4 flexible; 5 protocol type and name
(KIP-559). kio is the oracle in tests.
"""

from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, behind, read_bytes, skip_tags

API_KEY: Final = 14
_FIRST_WITH_THROTTLE: Final = 1
_FIRST_WITH_INSTANCE: Final = 3
_FIRST_FLEXIBLE: Final = 4
_FIRST_WITH_PROTOCOL: Final = 5

_GENERATION = Struct(">i")
_ERROR = Struct(">h")
_HEAD = Struct(">ih")  # throttle time, error


class SyncGroupRequest(NamedTuple):
    """Who asks for its part in which generation; a leader brings the assignments of all."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


def parse(version: int, buffer: memoryview, position: int, end: int) -> SyncGroupRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Of a member that is listed twice the last assignment counts.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    group_id, start = encoding.string(buffer, position, end)
    position = behind(_GENERATION.size, start, end)
    generation: int = _GENERATION.unpack_from(buffer, start)[0]
    member_id, position = encoding.string(buffer, position, end)
    instance_id = protocol_type = protocol_name = None
    if version >= _FIRST_WITH_INSTANCE:
        instance_id, position = encoding.nullable_string(buffer, position, end)
    if version >= _FIRST_WITH_PROTOCOL:
        protocol_type, position = encoding.nullable_string(buffer, position, end)
        protocol_name, position = encoding.nullable_string(buffer, position, end)
    count, position = encoding.count(buffer, position, end)
    assignments = {}
    for _ in range(count):
        each, position = encoding.string(buffer, position, end)
        assignments[each], position = read_bytes(encoding, buffer, position, end)
        if version >= _FIRST_FLEXIBLE:
            position = skip_tags(buffer, position, end)
    if version >= _FIRST_FLEXIBLE:
        skip_tags(buffer, position, end)
    return SyncGroupRequest(
        group_id, generation, member_id, instance_id, protocol_type, protocol_name, assignments
    )


def encode(
    version: int,
    correlation_id: int,
    error_code: int,
    protocol_type: str | None,
    protocol_name: str | None,
    assignment: bytes,
) -> bytes:
    """Return the response frame with its size prefix."""
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    head = _HEAD.pack(0, error_code) if version >= _FIRST_WITH_THROTTLE else _ERROR.pack(error_code)
    names = b""
    if version >= _FIRST_WITH_PROTOCOL:
        names = encoding.put_string(protocol_type) + encoding.put_string(protocol_name)
    size = encoding.put_size(len(assignment))
    body = b"".join((head, names, size, assignment, encoding.no_tags))
    return response_head(API_KEY, version, correlation_id, len(body)) + body
