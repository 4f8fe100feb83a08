"""ListPartitionReassignments (46). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class ListPartitionReassignmentsTopics(NamedTuple):
    name: Annotated[str, "string"] = ""
    partition_indexes: Annotated[Sequence[int], "[]int32"] = ()

class ListPartitionReassignmentsRequest(NamedTuple):
    timeout_ms: Annotated[int, "int32"] = 60000
    topics: Annotated[Sequence[ListPartitionReassignmentsTopics] | None, "[]struct null"] = None
REQUEST = Message(46, 0, 0, 0, ListPartitionReassignmentsRequest)

class OngoingPartitionReassignment(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    replicas: Annotated[Sequence[int], "[]int32"] = ()
    adding_replicas: Annotated[Sequence[int], "[]int32"] = ()
    removing_replicas: Annotated[Sequence[int], "[]int32"] = ()

class OngoingTopicReassignment(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[OngoingPartitionReassignment], "[]struct"] = ()

class ListPartitionReassignmentsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    topics: Annotated[Sequence[OngoingTopicReassignment], "[]struct"] = ()
RESPONSE = Message(46, 0, 0, 0, ListPartitionReassignmentsResponse)
