"""DescribeTopicPartitions (75). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class TopicRequest(NamedTuple):
    name: Annotated[str, "string"] = ""

class Cursor(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partition_index: Annotated[int, "int32"] = 0

class DescribeTopicPartitionsRequest(NamedTuple):
    topics: Annotated[Sequence[TopicRequest], "[]struct"] = ()
    response_partition_limit: Annotated[int, "int32"] = 2000
    cursor: Annotated[Cursor | None, "struct null"] = None
REQUEST = Message(75, 0, 0, 0, DescribeTopicPartitionsRequest)

class DescribeTopicPartitionsResponsePartition(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    partition_index: Annotated[int, "int32"] = 0
    leader_id: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = -1
    replica_nodes: Annotated[Sequence[int], "[]int32"] = ()
    isr_nodes: Annotated[Sequence[int], "[]int32"] = ()
    eligible_leader_replicas: Annotated[Sequence[int] | None, "[]int32 null"] = None
    last_known_elr: Annotated[Sequence[int] | None, "[]int32 null"] = None
    offline_replicas: Annotated[Sequence[int], "[]int32"] = ()

class DescribeTopicPartitionsResponseTopic(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    name: Annotated[str | None, "string null"] = ""
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    is_internal: Annotated[bool, "bool"] = False
    partitions: Annotated[Sequence[DescribeTopicPartitionsResponsePartition], "[]struct"] = ()
    topic_authorized_operations: Annotated[int, "int32"] = -2147483648

class ResponseCursor(NamedTuple):
    topic_name: Annotated[str, "string"] = ""
    partition_index: Annotated[int, "int32"] = 0

class DescribeTopicPartitionsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[DescribeTopicPartitionsResponseTopic], "[]struct"] = ()
    next_cursor: Annotated[ResponseCursor | None, "struct null"] = None
RESPONSE = Message(75, 0, 0, 0, DescribeTopicPartitionsResponse)
