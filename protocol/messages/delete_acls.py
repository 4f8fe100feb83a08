"""DeleteAcls (31). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DeleteAclsFilter(NamedTuple):
    resource_type_filter: Annotated[int, "int8"] = 0
    resource_name_filter: Annotated[str | None, "string null"] = ""
    pattern_type_filter: Annotated[int, "int8"] = 3
    principal_filter: Annotated[str | None, "string null"] = ""
    host_filter: Annotated[str | None, "string null"] = ""
    operation: Annotated[int, "int8"] = 0
    permission_type: Annotated[int, "int8"] = 0

class DeleteAclsRequest(NamedTuple):
    filters: Annotated[Sequence[DeleteAclsFilter], "[]struct"] = ()
REQUEST = Message(31, 1, 3, 2, DeleteAclsRequest)

class DeleteAclsMatchingAcl(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    resource_type: Annotated[int, "int8"] = 0
    resource_name: Annotated[str, "string"] = ""
    pattern_type: Annotated[int, "int8"] = 3
    principal: Annotated[str, "string"] = ""
    host: Annotated[str, "string"] = ""
    operation: Annotated[int, "int8"] = 0
    permission_type: Annotated[int, "int8"] = 0

class DeleteAclsFilterResult(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    matching_acls: Annotated[Sequence[DeleteAclsMatchingAcl], "[]struct"] = ()

class DeleteAclsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    filter_results: Annotated[Sequence[DeleteAclsFilterResult], "[]struct"] = ()
RESPONSE = Message(31, 1, 3, 2, DeleteAclsResponse)
