"""FindCoordinator (10). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class FindCoordinatorRequest(NamedTuple):
    key: Annotated[str, "string 0-3"] = ""
    key_type: Annotated[int, "int8 1+"] = 0
    coordinator_keys: Annotated[Sequence[str], "[]string 4+"] = ()
REQUEST = Message(10, 0, 6, 3, FindCoordinatorRequest)

class Coordinator(NamedTuple):
    key: Annotated[str, "string 4+"] = ""
    node_id: Annotated[int, "int32 4+"] = 0
    host: Annotated[str, "string 4+"] = ""
    port: Annotated[int, "int32 4+"] = 0
    error_code: Annotated[int, "int16 4+"] = 0
    error_message: Annotated[str | None, "string 4+ null"] = ""

class FindCoordinatorResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16 0-3"] = 0
    error_message: Annotated[str | None, "string 1-3 null"] = ""
    node_id: Annotated[int, "int32 0-3"] = 0
    host: Annotated[str, "string 0-3"] = ""
    port: Annotated[int, "int32 0-3"] = 0
    coordinators: Annotated[Sequence[Coordinator], "[]struct 4+"] = ()
RESPONSE = Message(10, 0, 6, 3, FindCoordinatorResponse)
