"""DescribeQuorum (55). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class PartitionData(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0

class TopicData(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class DescribeQuorumRequest(NamedTuple):
    topics: Annotated[Sequence[TopicData], "[]struct"] = ()
REQUEST = Message(55, 0, 2, 0, DescribeQuorumRequest)

class ReplicaState(NamedTuple):
    replica_id: Annotated[int, "int32"] = 0
    replica_directory_id: Annotated[bytes, "uuid 2+"] = NO_ID
    log_end_offset: Annotated[int, "int64"] = 0
    last_fetch_timestamp: Annotated[int, "int64 1+"] = -1
    last_caught_up_timestamp: Annotated[int, "int64 1+"] = -1

class ResponsePartitionData(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string 2+ null"] = ""
    leader_id: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0
    high_watermark: Annotated[int, "int64"] = 0
    current_voters: Annotated[Sequence[ReplicaState], "[]struct"] = ()
    observers: Annotated[Sequence[ReplicaState], "[]struct"] = ()

class ResponseTopicData(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[ResponsePartitionData], "[]struct"] = ()

class Listener(NamedTuple):
    name: Annotated[str, "string 2+"] = ""
    host: Annotated[str, "string 2+"] = ""
    port: Annotated[int, "uint16 2+"] = 0

class Node(NamedTuple):
    node_id: Annotated[int, "int32 2+"] = 0
    listeners: Annotated[Sequence[Listener], "[]struct 2+"] = ()

class DescribeQuorumResponse(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string 2+ null"] = ""
    topics: Annotated[Sequence[ResponseTopicData], "[]struct"] = ()
    nodes: Annotated[Sequence[Node], "[]struct 2+"] = ()
RESPONSE = Message(55, 0, 2, 0, DescribeQuorumResponse)
