"""WriteShareGroupState (85). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class StateBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    delivery_state: Annotated[int, "int8"] = 0
    delivery_count: Annotated[int, "int16"] = 0

class PartitionData(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    state_epoch: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    start_offset: Annotated[int, "int64"] = 0
    delivery_complete_count: Annotated[int, "int32 1+"] = -1
    state_batches: Annotated[Sequence[StateBatch], "[]struct"] = ()

class WriteStateData(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class WriteShareGroupStateRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    topics: Annotated[Sequence[WriteStateData], "[]struct"] = ()
REQUEST = Message(85, 0, 1, 0, WriteShareGroupStateRequest)

class PartitionResult(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None

class WriteStateResult(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class WriteShareGroupStateResponse(NamedTuple):
    results: Annotated[Sequence[WriteStateResult], "[]struct"] = ()
RESPONSE = Message(85, 0, 1, 0, WriteShareGroupStateResponse)
