"""AlterPartitionReassignments (45). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ReassignablePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    replicas: Annotated[Sequence[int] | None, "[]int32 null"] = None

class ReassignableTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[ReassignablePartition], "[]struct"] = ()

class AlterPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Annotated[int, "int32"] = 60000
    allow_replication_factor_change: Annotated[bool, "bool 1+"] = True
    topics: Annotated[Sequence[ReassignableTopic], "[]struct"] = ()
REQUEST = Message(45, 0, 1, 0, AlterPartitionReassignmentsRequest)

class ReassignablePartitionResponse(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""

class ReassignableTopicResponse(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[ReassignablePartitionResponse], "[]struct"] = ()

class AlterPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    allow_replication_factor_change: Annotated[bool, "bool 1+"] = True
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    responses: Annotated[Sequence[ReassignableTopicResponse], "[]struct"] = ()
RESPONSE = Message(45, 0, 1, 0, AlterPartitionReassignmentsResponse)
