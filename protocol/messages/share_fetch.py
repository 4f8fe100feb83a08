"""ShareFetch (78). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message, Records

class AcknowledgementBatch(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    acknowledge_types: Annotated[Sequence[int], "[]int8"] = ()

class FetchPartition(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    acknowledgement_batches: Annotated[Sequence[AcknowledgementBatch], "[]struct"] = ()

class FetchTopic(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[FetchPartition], "[]struct"] = ()

class ForgottenTopic(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ShareFetchRequest(NamedTuple):
    group_id: Annotated[str | None, "string null"] = None
    member_id: Annotated[str | None, "string null"] = ""
    share_session_epoch: Annotated[int, "int32"] = 0
    max_wait_ms: Annotated[int, "int32"] = 0
    min_bytes: Annotated[int, "int32"] = 0
    max_bytes: Annotated[int, "int32"] = 2147483647
    max_records: Annotated[int, "int32"] = 0
    batch_size: Annotated[int, "int32"] = 0
    share_acquire_mode: Annotated[int, "int8 2+"] = 0
    is_renew_ack: Annotated[bool, "bool 2+"] = False
    topics: Annotated[Sequence[FetchTopic], "[]struct"] = ()
    forgotten_topics_data: Annotated[Sequence[ForgottenTopic], "[]struct"] = ()
REQUEST = Message(78, 1, 2, 0, ShareFetchRequest)

class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32"] = 0

class AcquiredRecords(NamedTuple):
    first_offset: Annotated[int, "int64"] = 0
    last_offset: Annotated[int, "int64"] = 0
    delivery_count: Annotated[int, "int16"] = 0

class PartitionData(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    acknowledge_error_code: Annotated[int, "int16"] = 0
    acknowledge_error_message: Annotated[str | None, "string null"] = None
    current_leader: Annotated[LeaderIdAndEpoch, "struct"] = LeaderIdAndEpoch()
    records: Annotated[Records, "records"] = b""
    acquired_records: Annotated[Sequence[AcquiredRecords], "[]struct"] = ()

class ShareFetchableTopicResponse(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class NodeEndpoint(NamedTuple):
    node_id: Annotated[int, "int32"] = 0
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "int32"] = 0
    rack: Annotated[str | None, "string null"] = None

class ShareFetchResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    acquisition_lock_timeout_ms: Annotated[int, "int32"] = 0
    responses: Annotated[Sequence[ShareFetchableTopicResponse], "[]struct"] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], "[]struct"] = ()
RESPONSE = Message(78, 1, 2, 0, ShareFetchResponse)
