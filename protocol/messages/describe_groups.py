"""DescribeGroups (15). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DescribeGroupsRequest(NamedTuple):
    groups: Annotated[Sequence[str], "[]string"] = ()
    include_authorized_operations: Annotated[bool, "bool 3+"] = False
REQUEST = Message(15, 0, 6, 5, DescribeGroupsRequest)

class DescribedGroupMember(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 4+ null"] = None
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    member_metadata: Annotated[bytes, "bytes"] = b""
    member_assignment: Annotated[bytes, "bytes"] = b""

class DescribedGroup(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string 6+ null"] = None
    group_id: Annotated[str, "string"] = ""
    group_state: Annotated[str, "string"] = ""
    protocol_type: Annotated[str, "string"] = ""
    protocol_data: Annotated[str, "string"] = ""
    members: Annotated[Sequence[DescribedGroupMember], "[]struct"] = ()
    authorized_operations: Annotated[int, "int32 3+"] = -2147483648

class DescribeGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    groups: Annotated[Sequence[DescribedGroup], "[]struct"] = ()
RESPONSE = Message(15, 0, 6, 5, DescribeGroupsResponse)
