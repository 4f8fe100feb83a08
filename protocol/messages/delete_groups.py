"""DeleteGroups (42). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class DeleteGroupsRequest(NamedTuple):
    groups_names: Annotated[Sequence[str], "[]string"] = ()
REQUEST = Message(42, 0, 3, 2, DeleteGroupsRequest)

class DeletableGroupResult(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string 3+ null"] = None

class DeleteGroupsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    results: Annotated[Sequence[DeletableGroupResult], "[]struct"] = ()
RESPONSE = Message(42, 0, 3, 2, DeleteGroupsResponse)
