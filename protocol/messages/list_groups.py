"""ListGroups (16). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ListGroupsRequest(NamedTuple):
    states_filter: Annotated[Sequence[str], "[]string 4+"] = ()
    types_filter: Annotated[Sequence[str], "[]string 5+"] = ()
REQUEST = Message(16, 0, 5, 3, ListGroupsRequest)

class ListedGroup(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    protocol_type: Annotated[str, "string"] = ""
    group_state: Annotated[str, "string 4+"] = ""
    group_type: Annotated[str, "string 5+"] = ""

class ListGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 1+"] = 0
    error_code: Annotated[int, "int16"] = 0
    groups: Annotated[Sequence[ListedGroup], "[]struct"] = ()
RESPONSE = Message(16, 0, 5, 3, ListGroupsResponse)
