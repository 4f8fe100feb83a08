"""ReadShareGroupState (84). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class PartitionData(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0

class ReadStateData(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class ReadShareGroupStateRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[ReadStateData], "[]struct"] = ()
REQUEST = Message(84, 0, 0, 0, ReadShareGroupStateRequest)

class StateBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    delivery_state: Annotated[int, "int8"] = 0
    delivery_count: Annotated[int, "int16"] = 0

class PartitionResult(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    state_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    state_batches: Annotated[Sequence[StateBatch], "[]struct"] = ()

class ReadStateResult(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class ReadShareGroupStateResponse(NamedTuple):
    results: Annotated[Sequence[ReadStateResult], "[]struct"] = ()
RESPONSE = Message(84, 0, 0, 0, ReadShareGroupStateResponse)
