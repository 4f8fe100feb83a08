"""ListConfigResources (74). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ListConfigResourcesRequest(NamedTuple):
    resource_types: Annotated[Sequence[int], "[]int8 1+"] = ()
REQUEST = Message(74, 0, 1, 0, ListConfigResourcesRequest)

class ConfigResource(NamedTuple):
    resource_name: Annotated[str, "string"] = ""
    resource_type: Annotated[int, "int8 1+"] = 16

class ListConfigResourcesResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    config_resources: Annotated[Sequence[ConfigResource], "[]struct"] = ()
RESPONSE = Message(74, 0, 1, 0, ListConfigResourcesResponse)
