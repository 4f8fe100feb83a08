"""UnregisterBroker (64). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class UnregisterBrokerRequest(NamedTuple):
    broker_id: Annotated[int, "int32"] = 0
REQUEST = Message(64, 0, 0, 0, UnregisterBrokerRequest)

class UnregisterBrokerResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
RESPONSE = Message(64, 0, 0, 0, UnregisterBrokerResponse)
