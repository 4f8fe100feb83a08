"""SyncGroup (14). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message, Octets

class SyncGroupRequestAssignment(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    assignment: Annotated[Octets, "octets"] = b""

class SyncGroupRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    generation_id: Annotated[int, "int32"] = 0
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = None
    protocol_type: Annotated[str | None, "string 5+ null"] = None
    protocol_name: Annotated[str | None, "string 5+ null"] = None
    assignments: Annotated[Sequence[SyncGroupRequestAssignment], "[]struct"] = ()
REQUEST = Message(14, 0, 5, 4, SyncGroupRequest)

class SyncGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16"] = 0
    protocol_type: Annotated[str | None, "string 5+ null"] = None
    protocol_name: Annotated[str | None, "string 5+ null"] = None
    assignment: Annotated[bytes, "bytes"] = b""
RESPONSE = Message(14, 0, 5, 4, SyncGroupResponse)
