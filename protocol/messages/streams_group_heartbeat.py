"""StreamsGroupHeartbeat (88). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class KeyValue(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[str, "string"] = ""

class TopicInfo(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[int, "int32"] = 0
    replication_factor: Annotated[int, "int16"] = 0
    topic_configs: Annotated[Sequence[KeyValue], "[]struct"] = ()

class CopartitionGroup(NamedTuple):
    source_topics: Annotated[Sequence[int], "[]int16"] = ()
    source_topic_regex: Annotated[Sequence[int], "[]int16"] = ()
    repartition_source_topics: Annotated[Sequence[int], "[]int16"] = ()

class Subtopology(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    source_topics: Annotated[Sequence[str], "[]string"] = ()
    source_topic_regex: Annotated[Sequence[str], "[]string"] = ()
    state_changelog_topics: Annotated[Sequence[TopicInfo], "[]struct"] = ()
    repartition_sink_topics: Annotated[Sequence[str], "[]string"] = ()
    repartition_source_topics: Annotated[Sequence[TopicInfo], "[]struct"] = ()
    copartition_groups: Annotated[Sequence[CopartitionGroup], "[]struct"] = ()

class Topology(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    subtopologies: Annotated[Sequence[Subtopology], "[]struct"] = ()

class TaskIds(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class Endpoint(NamedTuple):
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "uint16"] = 0

class TaskOffset(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partition: Annotated[int, "int32"] = 0
    offset: Annotated[int, "int64"] = 0

class StreamsGroupHeartbeatRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
    member_epoch: Annotated[int, "int32"] = 0
    endpoint_information_epoch: Annotated[int, "int32"] = 0
    instance_id: Annotated[str | None, "string null"] = None
    rack_id: Annotated[str | None, "string null"] = None
    rebalance_timeout_ms: Annotated[int, "int32"] = -1
    topology: Annotated[Topology | None, "struct null"] = None
    active_tasks: Annotated[Sequence[TaskIds] | None, "[]struct null"] = None
    standby_tasks: Annotated[Sequence[TaskIds] | None, "[]struct null"] = None
    warmup_tasks: Annotated[Sequence[TaskIds] | None, "[]struct null"] = None
    process_id: Annotated[str | None, "string null"] = None
    user_endpoint: Annotated[Endpoint | None, "struct null"] = None
    client_tags: Annotated[Sequence[KeyValue] | None, "[]struct null"] = None
    task_offsets: Annotated[Sequence[TaskOffset] | None, "[]struct null"] = None
    task_end_offsets: Annotated[Sequence[TaskOffset] | None, "[]struct null"] = None
    shutdown_application: Annotated[bool, "bool"] = False
REQUEST = Message(88, 0, 1, 0, StreamsGroupHeartbeatRequest)

class Status(NamedTuple):
    status_code: Annotated[int, "int8"] = 0
    status_detail: Annotated[str, "string"] = ""

class ResponseTaskIds(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ResponseEndpoint(NamedTuple):
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "uint16"] = 0

class TopicPartition(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class EndpointToPartitions(NamedTuple):
    user_endpoint: Annotated[ResponseEndpoint, "struct"] = ResponseEndpoint()
    active_partitions: Annotated[Sequence[TopicPartition], "[]struct"] = ()
    standby_partitions: Annotated[Sequence[TopicPartition], "[]struct"] = ()

class StreamsGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    member_id: Annotated[str, "string"] = ""
    member_epoch: Annotated[int, "int32"] = 0
    heartbeat_interval_ms: Annotated[int, "int32"] = 0
    acceptable_recovery_lag_legacy: Annotated[int, "int32 0-0"] = 0
    task_offset_interval_ms: Annotated[int, "int32"] = 0
    acceptable_recovery_lag: Annotated[int, "int64 1+"] = -1
    status: Annotated[Sequence[Status] | None, "[]struct null"] = ()
    active_tasks: Annotated[Sequence[ResponseTaskIds] | None, "[]struct null"] = None
    standby_tasks: Annotated[Sequence[ResponseTaskIds] | None, "[]struct null"] = None
    warmup_tasks: Annotated[Sequence[ResponseTaskIds] | None, "[]struct null"] = None
    topology_description_required: Annotated[bool, "bool 1+"] = False
    endpoint_information_epoch: Annotated[int, "int32"] = 0
    partitions_by_user_endpoint: Annotated[
        Sequence[EndpointToPartitions] | None, "[]struct null"
    ] = None
RESPONSE = Message(88, 0, 1, 0, StreamsGroupHeartbeatResponse)
