"""DescribeProducers (61). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class TopicRequest(NamedTuple):
    name: Annotated[str, "string"] = ""
    partition_indexes: Annotated[Sequence[int], "[]int32"] = ()

class DescribeProducersRequest(NamedTuple):
    topics: Annotated[Sequence[TopicRequest], "[]struct"] = ()
REQUEST = Message(61, 0, 0, 0, DescribeProducersRequest)

class ProducerState(NamedTuple):
    producer_id: Annotated[int, "int64"] = 0
    producer_epoch: Annotated[int, "int32"] = 0
    last_sequence: Annotated[int, "int32"] = -1
    last_timestamp: Annotated[int, "int64"] = -1
    coordinator_epoch: Annotated[int, "int32"] = 0
    current_txn_start_offset: Annotated[int, "int64"] = -1

class PartitionResponse(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    active_producers: Annotated[Sequence[ProducerState], "[]struct"] = ()

class TopicResponse(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[PartitionResponse], "[]struct"] = ()

class DescribeProducersResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[TopicResponse], "[]struct"] = ()
RESPONSE = Message(61, 0, 0, 0, DescribeProducersResponse)
