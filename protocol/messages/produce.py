"""Produce (0). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message, Records

class PartitionProduceData(NamedTuple):
    index: Annotated[int, "int32"] = 0  # type: ignore[assignment]
    records: Annotated[Records | None, "records null"] = b""

class TopicProduceData(NamedTuple):
    name: Annotated[str, "string 3-12"] = ""
    topic_id: Annotated[bytes, "uuid 13+"] = NO_ID
    partition_data: Annotated[Sequence[PartitionProduceData], "[]struct"] = ()

class ProduceRequest(NamedTuple):
    transactional_id: Annotated[str | None, "string null"] = None
    acks: Annotated[int, "int16"] = 0
    timeout_ms: Annotated[int, "int32"] = 0
    topic_data: Annotated[Sequence[TopicProduceData], "[]struct"] = ()
REQUEST = Message(0, 3, 13, 9, ProduceRequest)

class BatchIndexAndErrorMessage(NamedTuple):
    batch_index: Annotated[int, "int32 8+"] = 0
    batch_index_error_message: Annotated[str | None, "string 8+ null"] = None

class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[int, "int32 10+"] = -1
    leader_epoch: Annotated[int, "int32 10+"] = -1

class PartitionProduceResponse(NamedTuple):
    index: Annotated[int, "int32"] = 0  # type: ignore[assignment]
    error_code: Annotated[int, "int16"] = 0
    base_offset: Annotated[int, "int64"] = 0
    log_append_time_ms: Annotated[int, "int64"] = -1
    log_start_offset: Annotated[int, "int64 5+"] = -1
    record_errors: Annotated[Sequence[BatchIndexAndErrorMessage], "[]struct 8+"] = ()
    error_message: Annotated[str | None, "string 8+ null"] = None
    current_leader: Annotated[LeaderIdAndEpoch, "struct 10+ tag 0"] = LeaderIdAndEpoch()

class TopicProduceResponse(NamedTuple):
    name: Annotated[str, "string 3-12"] = ""
    topic_id: Annotated[bytes, "uuid 13+"] = NO_ID
    partition_responses: Annotated[Sequence[PartitionProduceResponse], "[]struct"] = ()

class NodeEndpoint(NamedTuple):
    node_id: Annotated[int, "int32 10+"] = 0
    host: Annotated[str, "string 10+"] = ""
    port: Annotated[int, "int32 10+"] = 0
    rack: Annotated[str | None, "string 10+ null"] = None

class ProduceResponse(NamedTuple):
    responses: Annotated[Sequence[TopicProduceResponse], "[]struct"] = ()
    throttle_time_ms: Annotated[int, "int32"] = 0
    node_endpoints: Annotated[Sequence[NodeEndpoint], "[]struct 10+ tag 0"] = ()
RESPONSE = Message(0, 3, 13, 9, ProduceResponse)
