"""JoinGroup requests and responses by hand: when a group gathers, all of its members send one.

Versions 0 to 9; 1 rebalance timeout; 2 throttle time; 5 instance id (KIP-345); 6 flexible; 7
protocol type, and a protocol that may be null; 8 reason (KIP-800), which nobody asks for; 9 skip
assignment (KIP-814). kio is the oracle in tests.
"""

from struct import Struct
from typing import Final, NamedTuple

from protocol.headers import response_head
from protocol.primitives import CLASSIC, COMPACT, behind, read_bytes, skip_tags

API_KEY: Final = 11
NO_TIMEOUT: Final = -1
_FIRST_WITH_REBALANCE_TIMEOUT: Final = 1
_FIRST_WITH_THROTTLE: Final = 2
_FIRST_WITH_INSTANCE: Final = 5
_FIRST_FLEXIBLE: Final = 6
_FIRST_WITH_TYPE: Final = 7
_FIRST_WITH_REASON: Final = 8
_FIRST_WITH_SKIP: Final = 9

_TIMEOUT = Struct(">i")
_TIMEOUTS = Struct(">ii")  # session, rebalance
_HEAD = Struct(">hi")  # error, generation
_NO_THROTTLE: Final = bytes(4)
_BOOL: Final = (b"\0", b"\1")


class JoinGroupRequest(NamedTuple):
    """Who wants to join what; the rebalance timeout is -1 where there is none."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]


class JoinGroupResponse(NamedTuple):
    """The answer to a join; a member is its id, its instance id and its metadata."""

    error_code: int
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


def parse(version: int, buffer: memoryview, position: int, end: int) -> JoinGroupRequest:
    """Read the body of a request from ``position`` to ``end``; bytes behind it are ignored.

    Raises:
        ProtocolError: a length does not fit, or null where there cannot be.
    """
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    group_id, start = encoding.string(buffer, position, end)
    rebalance_timeout_ms = NO_TIMEOUT
    if version >= _FIRST_WITH_REBALANCE_TIMEOUT:
        position = behind(_TIMEOUTS.size, start, end)
        session_timeout_ms, rebalance_timeout_ms = _TIMEOUTS.unpack_from(buffer, start)
    else:
        position = behind(_TIMEOUT.size, start, end)
        (session_timeout_ms,) = _TIMEOUT.unpack_from(buffer, start)
    member_id, position = encoding.string(buffer, position, end)
    instance_id = None
    if version >= _FIRST_WITH_INSTANCE:
        instance_id, position = encoding.nullable_string(buffer, position, end)
    protocol_type, position = encoding.string(buffer, position, end)
    count, position = encoding.count(buffer, position, end)
    protocols = []
    for _ in range(count):
        name, position = encoding.string(buffer, position, end)
        metadata, position = read_bytes(encoding, buffer, position, end)
        protocols.append((name, metadata))
        if version >= _FIRST_FLEXIBLE:
            position = skip_tags(buffer, position, end)
    if version >= _FIRST_WITH_REASON:
        _, position = encoding.nullable_string(buffer, position, end)
    if version >= _FIRST_FLEXIBLE:
        skip_tags(buffer, position, end)
    return JoinGroupRequest(
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        member_id,
        instance_id,
        protocol_type,
        tuple(protocols),
    )


def encode(version: int, correlation_id: int, response: JoinGroupResponse) -> bytes:
    """Return the response frame with its size prefix.

    Before version 7 a protocol that is null is written as an empty one, as Kafka does.
    """
    encoding = COMPACT if version >= _FIRST_FLEXIBLE else CLASSIC
    put_string = encoding.put_string
    pieces = [_NO_THROTTLE] if version >= _FIRST_WITH_THROTTLE else []
    pieces.append(_HEAD.pack(response.error_code, response.generation))
    if version >= _FIRST_WITH_TYPE:
        pieces += put_string(response.protocol_type), put_string(response.protocol_name)
    else:
        pieces.append(put_string(response.protocol_name or ""))
    pieces.append(put_string(response.leader))
    if version >= _FIRST_WITH_SKIP:
        pieces.append(_BOOL[response.skip_assignment])
    pieces += put_string(response.member_id), encoding.put_count(len(response.members))
    for member_id, instance_id, metadata in response.members:
        pieces.append(put_string(member_id))
        if version >= _FIRST_WITH_INSTANCE:
            pieces.append(put_string(instance_id))
        pieces += encoding.put_size(len(metadata)), metadata, encoding.no_tags
    pieces.append(encoding.no_tags)
    body = b"".join(pieces)
    return response_head(API_KEY, version, correlation_id, len(body)) + body
