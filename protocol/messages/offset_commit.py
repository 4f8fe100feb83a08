"""OffsetCommit (8). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class OffsetCommitRequestPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    committed_offset: Annotated[int, "int64"] = 0
    committed_leader_epoch: Annotated[int, "int32 6+"] = -1
    committed_metadata: Annotated[str | None, "string null"] = ""

class OffsetCommitRequestTopic(NamedTuple):
    name: Annotated[str, "string 2-9"] = ""
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    partitions: Annotated[Sequence[OffsetCommitRequestPartition], "[]struct"] = ()

class OffsetCommitRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    generation_id_or_member_epoch: Annotated[int, "int32"] = -1
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 7+ null"] = None
    retention_time_ms: Annotated[int, "int64 2-4"] = -1
    topics: Annotated[Sequence[OffsetCommitRequestTopic], "[]struct"] = ()
REQUEST = Message(8, 2, 10, 8, OffsetCommitRequest)

class OffsetCommitResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0

class OffsetCommitResponseTopic(NamedTuple):
    name: Annotated[str, "string 2-9"] = ""
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    partitions: Annotated[Sequence[OffsetCommitResponsePartition], "[]struct"] = ()

class OffsetCommitResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 3+"] = 0
    topics: Annotated[Sequence[OffsetCommitResponseTopic], "[]struct"] = ()
RESPONSE = Message(8, 2, 10, 8, OffsetCommitResponse)
