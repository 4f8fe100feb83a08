"""IncrementalAlterConfigs (44). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class AlterableConfig(NamedTuple):
    name: Annotated[str, "string"] = ""
    config_operation: Annotated[int, "int8"] = 0
    value: Annotated[str | None, "string null"] = ""

class AlterConfigsResource(NamedTuple):
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    configs: Annotated[Sequence[AlterableConfig], "[]struct"] = ()

class IncrementalAlterConfigsRequest(NamedTuple):
    resources: Annotated[Sequence[AlterConfigsResource], "[]struct"] = ()
    validate_only: Annotated[bool, "bool"] = False
REQUEST = Message(44, 0, 1, 1, IncrementalAlterConfigsRequest)

class AlterConfigsResourceResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""

class IncrementalAlterConfigsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    responses: Annotated[Sequence[AlterConfigsResourceResponse], "[]struct"] = ()
RESPONSE = Message(44, 0, 1, 1, IncrementalAlterConfigsResponse)
