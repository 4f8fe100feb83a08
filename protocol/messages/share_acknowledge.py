"""ShareAcknowledge (79). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class AcknowledgementBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    acknowledge_types: Annotated[Sequence[int], "[]int8"] = ()

class AcknowledgePartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    acknowledgement_batches: Annotated[Sequence[AcknowledgementBatch], "[]struct"] = ()

class AcknowledgeTopic(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[AcknowledgePartition], "[]struct"] = ()

class ShareAcknowledgeRequest(NamedTuple):
    group_id: Annotated[str | None, "string null"] = None
    member_id: Annotated[str | None, "string null"] = ""
    share_session_epoch: Annotated[int, "int32"] = 0
    is_renew_ack: Annotated[bool, "bool 2+"] = False
    topics: Annotated[Sequence[AcknowledgeTopic], "[]struct"] = ()
REQUEST = Message(79, 1, 2, 0, ShareAcknowledgeRequest)

class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0

class PartitionData(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    current_leader: Annotated[LeaderIdAndEpoch, "struct"] = LeaderIdAndEpoch()

class ShareAcknowledgeTopicResponse(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class NodeEndpoint(NamedTuple):
    node_id: Annotated[int, "int32"] = 0
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "int32"] = 0
    rack: Annotated[str | None, "string null"] = None

class ShareAcknowledgeResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    acquisition_lock_timeout_ms: Annotated[int, "int32 2+"] = 0
    responses: Annotated[Sequence[ShareAcknowledgeTopicResponse], "[]struct"] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], "[]struct"] = ()
RESPONSE = Message(79, 1, 2, 0, ShareAcknowledgeResponse)
