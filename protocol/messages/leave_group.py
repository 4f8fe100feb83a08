"""LeaveGroup (13). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class MemberIdentity(NamedTuple):
    member_id: Annotated[str, "string 3+"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = None
    reason: Annotated[str | None, "string 5+ null"] = None

class LeaveGroupRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string 0-2"] = ""
    members: Annotated[Sequence[MemberIdentity], "[]struct 3+"] = ()
REQUEST = Message(13, 0, 5, 4, LeaveGroupRequest)

class MemberResponse(NamedTuple):
    member_id: Annotated[str, "string 3+"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = ""
    error_code: Annotated[int, "int16 3+"] = 0

class LeaveGroupResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16"] = 0
    members: Annotated[Sequence[MemberResponse], "[]struct 3+"] = ()
RESPONSE = Message(13, 0, 5, 4, LeaveGroupResponse)
