"""Fetch (1). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message, Records

class ReplicaState(NamedTuple):
    replica_id: Annotated[int, "int32 15+"] = -1
    replica_epoch: Annotated[int, "int64 15+"] = -1

class FetchPartition(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    current_leader_epoch: Annotated[int, "int32 9+"] = -1
    fetch_offset: Annotated[int, "int64"] = 0
    last_fetched_epoch: Annotated[int, "int32 12+"] = -1
    log_start_offset: Annotated[int, "int64 5+"] = -1
    partition_max_bytes: Annotated[int, "int32"] = 0
    replica_directory_id: Annotated[bytes, "uuid 17+ tag 0"] = NO_ID
    high_watermark: Annotated[int, "int64 18+ tag 1"] = 9223372036854775807

class FetchTopic(NamedTuple):
    topic: Annotated[str, "string 4-12"] = ""
    topic_id: Annotated[bytes, "uuid 13+"] = NO_ID
    partitions: Annotated[Sequence[FetchPartition], "[]struct"] = ()

class ForgottenTopic(NamedTuple):
    topic: Annotated[str, "string 7-12"] = ""
    topic_id: Annotated[bytes, "uuid 13+"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32 7+"] = ()

class FetchRequest(NamedTuple):
    cluster_id: Annotated[str | None, "string 12+ null tag 0"] = None
    replica_id: Annotated[int, "int32 4-14"] = -1
    replica_state: Annotated[ReplicaState, "struct 15+ tag 1"] = ReplicaState()
    max_wait_ms: Annotated[int, "int32"] = 0
    min_bytes: Annotated[int, "int32"] = 0
    max_bytes: Annotated[int, "int32"] = 2147483647
    isolation_level: Annotated[int, "int8"] = 0
    session_id: Annotated[int, "int32 7+"] = 0
    session_epoch: Annotated[int, "int32 7+"] = -1
    topics: Annotated[Sequence[FetchTopic], "[]struct"] = ()
    forgotten_topics_data: Annotated[Sequence[ForgottenTopic], "[]struct 7+"] = ()
    rack_id: Annotated[str, "string 11+"] = ""
REQUEST = Message(1, 4, 18, 12, FetchRequest)

class EpochEndOffset(NamedTuple):
    epoch: Annotated[int, "int32 12+"] = -1
    end_offset: Annotated[int, "int64 12+"] = -1

class LeaderIdAndEpoch(NamedTuple):
    leader_id: Annotated[int, "int32 12+"] = -1
    leader_epoch: Annotated[int, "int32 12+"] = -1

class SnapshotId(NamedTuple):
    end_offset: Annotated[int, "int64"] = -1
    epoch: Annotated[int, "int32"] = -1

class AbortedTransaction(NamedTuple):
    producer_id: Annotated[int, "int64"] = 0
    first_offset: Annotated[int, "int64"] = 0

class PartitionData(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    high_watermark: Annotated[int, "int64"] = 0
    last_stable_offset: Annotated[int, "int64"] = -1
    log_start_offset: Annotated[int, "int64 5+"] = -1
    diverging_epoch: Annotated[EpochEndOffset, "struct 12+ tag 0"] = EpochEndOffset()
    current_leader: Annotated[LeaderIdAndEpoch, "struct 12+ tag 1"] = LeaderIdAndEpoch()
    snapshot_id: Annotated[SnapshotId, "struct 12+ tag 2"] = SnapshotId()
    aborted_transactions: Annotated[Sequence[AbortedTransaction] | None, "[]struct null"] = ()
    preferred_read_replica: Annotated[int, "int32 11+"] = -1
    records: Annotated[Records | None, "records null"] = b""

class FetchableTopicResponse(NamedTuple):
    topic: Annotated[str, "string 4-12"] = ""
    topic_id: Annotated[bytes, "uuid 13+"] = NO_ID
    partitions: Annotated[Sequence[PartitionData], "[]struct"] = ()

class NodeEndpoint(NamedTuple):
    node_id: Annotated[int, "int32 16+"] = 0
    host: Annotated[str, "string 16+"] = ""
    port: Annotated[int, "int32 16+"] = 0
    rack: Annotated[str | None, "string 16+ null"] = None

class FetchResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16 7+"] = 0
    session_id: Annotated[int, "int32 7+"] = 0
    responses: Annotated[Sequence[FetchableTopicResponse], "[]struct"] = ()
    node_endpoints: Annotated[Sequence[NodeEndpoint], "[]struct 16+ tag 0"] = ()
RESPONSE = Message(1, 4, 18, 12, FetchResponse)
