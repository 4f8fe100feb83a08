"""GetTelemetrySubscriptions (71). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class GetTelemetrySubscriptionsRequest(NamedTuple):
    client_instance_id: Annotated[bytes, "uuid"] = NO_ID
REQUEST = Message(71, 0, 0, 0, GetTelemetrySubscriptionsRequest)

class GetTelemetrySubscriptionsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    client_instance_id: Annotated[bytes, "uuid"] = NO_ID
    subscription_id: Annotated[int, "int32"] = 0
    accepted_compression_types: Annotated[Sequence[int], "[]int8"] = ()
    push_interval_ms: Annotated[int, "int32"] = 0
    telemetry_max_bytes: Annotated[int, "int32"] = 0
    delta_temporality: Annotated[bool, "bool"] = False
    requested_metrics: Annotated[Sequence[str], "[]string"] = ()
RESPONSE = Message(71, 0, 0, 0, GetTelemetrySubscriptionsResponse)
