"""DescribeAcls (29). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribeAclsRequest(NamedTuple):
    resource_type_filter: Annotated[int, "int8"] = 0
    resource_name_filter: Annotated[str | None, "string null"] = ""
    pattern_type_filter: Annotated[int, "int8"] = 3
    principal_filter: Annotated[str | None, "string null"] = ""
    host_filter: Annotated[str | None, "string null"] = ""
    operation: Annotated[int, "int8"] = 0
    permission_type: Annotated[int, "int8"] = 0
REQUEST = Message(29, 1, 3, 2, DescribeAclsRequest)

class AclDescription(NamedTuple):
    principal: Annotated[str, "string"] = ""
    host: Annotated[str, "string"] = ""
    operation: Annotated[int, "int8"] = 0
    permission_type: Annotated[int, "int8"] = 0

class DescribeAclsResource(NamedTuple):
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    pattern_type: Annotated[int, "int8"] = 3
    acls: Annotated[Sequence[AclDescription], "[]struct"] = ()

class DescribeAclsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    resources: Annotated[Sequence[DescribeAclsResource], "[]struct"] = ()
RESPONSE = Message(29, 1, 3, 2, DescribeAclsResponse)
