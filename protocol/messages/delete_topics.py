"""DeleteTopics (20). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class DeleteTopicState(NamedTuple):
    name: Annotated[str | None, "string 6+ null"] = None
    topic_id: Annotated[bytes, "uuid 6+"] = NO_ID

class DeleteTopicsRequest(NamedTuple):
    topics: Annotated[Sequence[DeleteTopicState], "[]struct 6+"] = ()
    topic_names: Annotated[Sequence[str], "[]string 1-5"] = ()
    timeout_ms: Annotated[int, "int32"] = 0
REQUEST = Message(20, 1, 6, 4, DeleteTopicsRequest)

class DeletableTopicResult(NamedTuple):
    name: Annotated[str | None, "string null 6+"] = ""
    topic_id: Annotated[bytes, "uuid 6+"] = NO_ID
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string 5+ null"] = None

class DeleteTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    responses: Annotated[Sequence[DeletableTopicResult], "[]struct"] = ()
RESPONSE = Message(20, 1, 6, 4, DeleteTopicsResponse)
