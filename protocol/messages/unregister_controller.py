"""UnregisterController (94). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class UnregisterControllerRequest(NamedTuple):
    controller_id: Annotated[int, "int32"] = 0
REQUEST = Message(94, 0, 0, 0, UnregisterControllerRequest)

class UnregisterControllerResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
RESPONSE = Message(94, 0, 0, 0, UnregisterControllerResponse)
