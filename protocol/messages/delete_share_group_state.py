"""DeleteShareGroupState (86). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class PartitionData(NamedTuple):
    partition: Annotated[int, "int32"] = 0

class DeleteStateData(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class DeleteShareGroupStateRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[DeleteStateData], "[]struct"] = ()
REQUEST = Message(86, 0, 0, 0, DeleteShareGroupStateRequest)

class PartitionResult(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class DeleteStateResult(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class DeleteShareGroupStateResponse(NamedTuple):
    results: Annotated[Sequence[DeleteStateResult], "[]struct"] = ()
RESPONSE = Message(86, 0, 0, 0, DeleteShareGroupStateResponse)
