"""The kernels of groups' requests, compiled where they could be: import them from here."""

from typing import TYPE_CHECKING

from protocol.records.choosing import choose

if TYPE_CHECKING:
    from protocol._group_kernels import (
        COMPILED,
        encode_commit,
        encode_heartbeat,
        find_commit,
        find_heartbeat,
        offset_key,
        offset_value,
    )
else:
    _groups = choose("protocol._group_kernels")
    COMPILED = _groups.COMPILED
    encode_commit = _groups.encode_commit
    encode_heartbeat = _groups.encode_heartbeat
    find_commit = _groups.find_commit
    find_heartbeat = _groups.find_heartbeat
    offset_key = _groups.offset_key
    offset_value = _groups.offset_value

__all__ = [
    "COMPILED",
    "encode_commit",
    "encode_heartbeat",
    "find_commit",
    "find_heartbeat",
    "offset_key",
    "offset_value",
]
