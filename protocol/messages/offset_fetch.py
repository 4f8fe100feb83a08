"""OffsetFetch (9). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class OffsetFetchRequestTopic(NamedTuple):
    name: Annotated[str, "string 1-7"] = ""
    partition_indexes: Annotated[Sequence[int], "[]int32 1-7"] = ()

class OffsetFetchRequestTopics(NamedTuple):
    name: Annotated[str, "string 8-9"] = ""
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    partition_indexes: Annotated[Sequence[int], "[]int32 8+"] = ()

class OffsetFetchRequestGroup(NamedTuple):
    group_id: Annotated[str, "string 8+"] = ""
    member_id: Annotated[str | None, "string 9+ null"] = None
    member_epoch: Annotated[int, "int32 9+"] = -1
    topics: Annotated[Sequence[OffsetFetchRequestTopics] | None, "[]struct 8+ null"] = ()

class OffsetFetchRequest(NamedTuple):
    group_id: Annotated[str, "string 1-7"] = ""
    topics: Annotated[Sequence[OffsetFetchRequestTopic] | None, "[]struct 1-7 null 2+"] = ()
    groups: Annotated[Sequence[OffsetFetchRequestGroup], "[]struct 8+"] = ()
    require_stable: Annotated[bool, "bool 7+"] = False
REQUEST = Message(9, 1, 10, 6, OffsetFetchRequest)

class OffsetFetchResponsePartition(NamedTuple):
    partition_index: Annotated[int, "int32 1-7"] = 0
    committed_offset: Annotated[int, "int64 1-7"] = 0
    committed_leader_epoch: Annotated[int, "int32 5-7"] = -1
    metadata: Annotated[str | None, "string 1-7 null"] = ""
    error_code: Annotated[int, "int16 1-7"] = 0

class OffsetFetchResponseTopic(NamedTuple):
    name: Annotated[str, "string 1-7"] = ""
    partitions: Annotated[Sequence[OffsetFetchResponsePartition], "[]struct 1-7"] = ()

class OffsetFetchResponsePartitions(NamedTuple):
    partition_index: Annotated[int, "int32 8+"] = 0
    committed_offset: Annotated[int, "int64 8+"] = 0
    committed_leader_epoch: Annotated[int, "int32 8+"] = -1
    metadata: Annotated[str | None, "string 8+ null"] = ""
    error_code: Annotated[int, "int16 8+"] = 0

class OffsetFetchResponseTopics(NamedTuple):
    name: Annotated[str, "string 8-9"] = ""
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    partitions: Annotated[Sequence[OffsetFetchResponsePartitions], "[]struct 8+"] = ()

class OffsetFetchResponseGroup(NamedTuple):
    group_id: Annotated[str, "string 8+"] = ""
    topics: Annotated[Sequence[OffsetFetchResponseTopics], "[]struct 8+"] = ()
    error_code: Annotated[int, "int16 8+"] = 0

class OffsetFetchResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 3+"] = 0
    topics: Annotated[Sequence[OffsetFetchResponseTopic], "[]struct 1-7"] = ()
    error_code: Annotated[int, "int16 2-7"] = 0
    groups: Annotated[Sequence[OffsetFetchResponseGroup], "[]struct 8+"] = ()
RESPONSE = Message(9, 1, 10, 6, OffsetFetchResponse)
