"""The head of a request, read without touching its body, and the head of a response.

Request header v2 is v1 with tagged fields behind it, and keeps the int16 length of the client id.
The response to ApiVersions has header v0 in every version: its reader cannot know better yet.
"""

from struct import Struct
from typing import Final, NamedTuple

from protocol.errors import ProtocolError
from protocol.primitives import Buffer, read_text, skip_tags

API_VERSIONS: Final = 18
_NEVER: Final = 1 << 15

_FIXED = Struct(">hhih")
_RESPONSE_V0 = Struct(">ii")
_RESPONSE_V1 = Struct(">iix")

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
FIRST_FLEXIBLE: Final = dict.fromkeys(range(45, 93), 0) | {
    key: version for version, keys in _FLEXIBLE_SINCE.items() for key in keys
}
"""API key to the first version with compact lengths and tagged fields."""


class RequestHeader(NamedTuple):
    """Who asks for what; the body starts at ``body_position``."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def is_flexible(api_key: int, api_version: int) -> bool:
    """Tell whether this version of the API has compact lengths and tagged fields."""
    return api_version >= FIRST_FLEXIBLE.get(api_key, 0)


def parse_header(buffer: Buffer, position: int, end: int, *, flexible: bool) -> RequestHeader:
    """Read the header of a request from ``position``, which is behind the size prefix.

    Raises:
        ProtocolError: the frame is too short, or the client id runs out of it.
    """
    body = position + _FIXED.size
    if body > end:
        raise ProtocolError(f"a frame of {end - position} bytes cannot hold a request header")
    api_key, api_version, correlation_id, length = _FIXED.unpack_from(buffer, position)
    client_id = None
    if length >= 0:
        client_id = read_text(buffer, body, body + length, end)
        body += length
    elif length != -1:
        raise ProtocolError(f"a client id cannot have a length of {length} bytes")
    if flexible:
        body = skip_tags(buffer, body, end)
    return RequestHeader(api_key, api_version, correlation_id, client_id, body)


def response_head(api_key: int, api_version: int, correlation_id: int, body_size: int) -> bytes:
    """Return the size prefix and the response header before a body of ``body_size`` bytes."""
    if is_flexible(api_key, api_version) and api_key != API_VERSIONS:
        return _RESPONSE_V1.pack(body_size + 5, correlation_id)
    return _RESPONSE_V0.pack(body_size + 4, correlation_id)
