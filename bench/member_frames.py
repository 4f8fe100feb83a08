"""JoinGroup 5, SyncGroup 3 and Heartbeat 3 by hand, as fifty members of one group need them.

Members share the machine with the broker, one after the other in one thread: what they spend on
a message is in the time that is measured. An answer begins with the correlation id, the throttle
time and the error, whichever of the three it is.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from bench.group_requests import PROTOCOL, SESSION, subscription

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = 7
_ERROR: Final = struct.Struct(">8xh")
_JOINED: Final = struct.Struct(">10xi")
_PROTOCOL_AT: Final = 14
_SESSION_MS: Final = round(SESSION.total_seconds() * 1000)
_NO_INSTANCE: Final = b"\xff\xff"
_ASSIGNMENT: Final = struct.pack(">i20x", 20)


def join_frame(group: str, topic: str, member_id: str) -> bytes:
    """Return the frame of a JoinGroup; the member's metadata is that of a consumer."""
    metadata = subscription(topic)
    return _frame(
        (11, 5),
        _text(group) + struct.pack(">ii", _SESSION_MS, _SESSION_MS) + _text(member_id),
        _NO_INSTANCE + _text("consumer") + struct.pack(">i", 1) + _text(PROTOCOL),
        struct.pack(">i", len(metadata)) + metadata,
    )


def sync_frame(group: str, member_id: str, generation: int, members: Sequence[str]) -> bytes:
    """Return the frame of a SyncGroup; the leader gives every member some bytes."""
    assignments = [_text(each) + _ASSIGNMENT for each in members]
    return _frame(
        (14, 3),
        _member(group, member_id, generation),
        struct.pack(">i", len(members)),
        *assignments,
    )


def heartbeat_frame(group: str, member_id: str, generation: int) -> bytes:
    """Return the frame of a Heartbeat."""
    return _frame((12, 3), _member(group, member_id, generation))


def read_error(body: bytes) -> int:
    """Return the error code of an answer, without the size before it."""
    code: int = _ERROR.unpack_from(body)[0]
    return code


def read_joined(body: bytes) -> tuple[int, str, list[str]]:
    """Return generation, member id and, for the leader, all members' ids from a good answer."""
    generation: int = _JOINED.unpack_from(body)[0]
    _, position = _read_text(body, _PROTOCOL_AT)
    _, position = _read_text(body, position)  # the leader
    member_id, position = _read_text(body, position)
    members = []
    count = int.from_bytes(body[position : position + 4], "big")
    position += 4
    for _ in range(count):
        each, position = _read_text(body, position)
        members.append(each)
        position += len(_NO_INSTANCE)
        position += 4 + int.from_bytes(body[position : position + 4], "big")
    return generation, member_id, members


def _frame(api: tuple[int, int], *parts: bytes) -> bytes:
    whole = _HEAD.pack(*api, _CORRELATION_ID, -1) + b"".join(parts)
    return len(whole).to_bytes(4, "big") + whole


def _member(group: str, member_id: str, generation: int) -> bytes:
    return _text(group) + struct.pack(">i", generation) + _text(member_id) + _NO_INSTANCE


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _read_text(body: bytes, position: int) -> tuple[str, int]:
    start = position + 2
    end = start + int.from_bytes(body[position:start], "big")
    return body[start:end].decode(), end
