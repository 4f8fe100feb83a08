"""OffsetForLeaderEpoch (23). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class OffsetForLeaderPartition(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    current_leader_epoch: Annotated[int, "int32"] = -1
    leader_epoch: Annotated[int, "int32"] = 0

class OffsetForLeaderTopic(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[OffsetForLeaderPartition], "[]struct"] = ()

class OffsetForLeaderEpochRequest(NamedTuple):
    replica_id: Annotated[int, "int32 3+"] = -2
    topics: Annotated[Sequence[OffsetForLeaderTopic], "[]struct"] = ()
REQUEST = Message(23, 2, 4, 4, OffsetForLeaderEpochRequest)

class EpochEndOffset(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    partition: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = -1
    end_offset: Annotated[int, "int64"] = -1

class OffsetForLeaderTopicResult(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[EpochEndOffset], "[]struct"] = ()

class OffsetForLeaderEpochResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[OffsetForLeaderTopicResult], "[]struct"] = ()
RESPONSE = Message(23, 2, 4, 4, OffsetForLeaderEpochResponse)
