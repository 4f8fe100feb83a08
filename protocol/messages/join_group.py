"""JoinGroup (11). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message, Octets

class JoinGroupRequestProtocol(NamedTuple):
    name: Annotated[str, "string"] = ""
    metadata: Annotated[Octets, "octets"] = b""

class JoinGroupRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    session_timeout_ms: Annotated[int, "int32"] = 0
    rebalance_timeout_ms: Annotated[int, "int32 1+"] = -1
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 5+ null"] = None
    protocol_type: Annotated[str, "string"] = ""
    protocols: Annotated[Sequence[JoinGroupRequestProtocol], "[]struct"] = ()
    reason: Annotated[str | None, "string 8+ null"] = None
REQUEST = Message(11, 0, 9, 6, JoinGroupRequest)

class JoinGroupResponseMember(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 5+ null"] = None
    metadata: Annotated[bytes, "bytes"] = b""

class JoinGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 2+"] = 0
    error_code: Annotated[int, "int16"] = 0
    generation_id: Annotated[int, "int32"] = -1
    protocol_type: Annotated[str | None, "string 7+ null"] = None
    protocol_name: Annotated[str | None, "string null 7+"] = ""
    leader: Annotated[str, "string"] = ""
    skip_assignment: Annotated[bool, "bool 9+"] = False
    member_id: Annotated[str, "string"] = ""
    members: Annotated[Sequence[JoinGroupResponseMember], "[]struct"] = ()
RESPONSE = Message(11, 0, 9, 6, JoinGroupResponse)
