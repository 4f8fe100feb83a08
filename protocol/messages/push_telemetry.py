"""PushTelemetry (72). Written by ``tools/messages.py``."""

from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message, Octets

class PushTelemetryRequest(NamedTuple):
    client_instance_id: Annotated[bytes, "uuid"] = NO_ID
    subscription_id: Annotated[int, "int32"] = 0
    terminating: Annotated[bool, "bool"] = False
    compression_type: Annotated[int, "int8"] = 0
    metrics: Annotated[Octets, "octets"] = b""
REQUEST = Message(72, 0, 0, 0, PushTelemetryRequest)

class PushTelemetryResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
RESPONSE = Message(72, 0, 0, 0, PushTelemetryResponse)
