"""ElectLeaders (43). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class TopicPartitions(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ElectLeadersRequest(NamedTuple):
    election_type: Annotated[int, "int8 1+"] = 0
    topic_partitions: Annotated[Sequence[TopicPartitions] | None, "[]struct null"] = ()
    timeout_ms: Annotated[int, "int32"] = 60000
REQUEST = Message(43, 0, 2, 2, ElectLeadersRequest)

class PartitionResult(NamedTuple):
    partition_id: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""

class ReplicaElectionResult(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partition_result: Annotated[Sequence[PartitionResult], "[]struct"] = ()

class ElectLeadersResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16 1+"] = 0
    replica_election_results: Annotated[Sequence[ReplicaElectionResult], "[]struct"] = ()
RESPONSE = Message(43, 0, 2, 2, ElectLeadersResponse)
