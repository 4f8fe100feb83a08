"""DeleteShareGroupOffsets (92). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class DeleteShareGroupOffsetsRequestTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""

class DeleteShareGroupOffsetsRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[DeleteShareGroupOffsetsRequestTopic], "[]struct"] = ()
REQUEST = Message(92, 0, 0, 0, DeleteShareGroupOffsetsRequest)

class DeleteShareGroupOffsetsResponseTopic(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class DeleteShareGroupOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    responses: Annotated[Sequence[DeleteShareGroupOffsetsResponseTopic], "[]struct"] = ()
RESPONSE = Message(92, 0, 0, 0, DeleteShareGroupOffsetsResponse)
