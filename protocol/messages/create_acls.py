"""CreateAcls (30). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class AclCreation(NamedTuple):
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    resource_pattern_type: Annotated[int, "int8"] = 3
    principal: Annotated[str, "string"] = ""
    host: Annotated[str, "string"] = ""
    operation: Annotated[int, "int8"] = 0
    permission_type: Annotated[int, "int8"] = 0

class CreateAclsRequest(NamedTuple):
    creations: Annotated[Sequence[AclCreation], "[]struct"] = ()
REQUEST = Message(30, 1, 3, 2, CreateAclsRequest)

class AclCreationResult(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""

class CreateAclsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[AclCreationResult], "[]struct"] = ()
RESPONSE = Message(30, 1, 3, 2, CreateAclsResponse)
