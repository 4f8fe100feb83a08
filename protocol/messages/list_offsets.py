"""ListOffsets (2). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ListOffsetsPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    current_leader_epoch: Annotated[int, "int32 4+"] = -1
    timestamp: Annotated[int, "int64"] = 0

class ListOffsetsTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[ListOffsetsPartition], "[]struct"] = ()

class ListOffsetsRequest(NamedTuple):
    replica_id: Annotated[int, "int32"] = 0
    isolation_level: Annotated[int, "int8 2+"] = 0
    topics: Annotated[Sequence[ListOffsetsTopic], "[]struct"] = ()
    timeout_ms: Annotated[int, "int32 10+"] = 0
REQUEST = Message(2, 1, 11, 6, ListOffsetsRequest)

class ListOffsetsPartitionResponse(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    timestamp: Annotated[int, "int64"] = -1
    offset: Annotated[int, "int64"] = -1
    leader_epoch: Annotated[int, "int32 4+"] = -1

class ListOffsetsTopicResponse(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[ListOffsetsPartitionResponse], "[]struct"] = ()

class ListOffsetsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 2+"] = 0
    topics: Annotated[Sequence[ListOffsetsTopicResponse], "[]struct"] = ()
RESPONSE = Message(2, 1, 11, 6, ListOffsetsResponse)
