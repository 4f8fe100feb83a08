"""Heartbeat (12). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class HeartbeatRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    generation_id: Annotated[int, "int32"] = 0
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = None
REQUEST = Message(12, 0, 4, 4, HeartbeatRequest)

class HeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16"] = 0
RESPONSE = Message(12, 0, 4, 4, HeartbeatResponse)
