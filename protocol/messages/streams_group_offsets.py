"""Records of streams groups in ``__consumer_offsets``. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class StreamsGroupMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
STREAMS_GROUP_METADATA_KEY = Message(17, 0, 0, -1, StreamsGroupMetadataKey)

class LastAssignmentConfig(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[str, "string"] = ""

class StreamsGroupMetadataValue(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    metadata_hash: Annotated[int, "int64"] = 0
    validated_topology_epoch: Annotated[int, "int32 tag 0"] = -1
    last_assignment_configs: Annotated[
        Sequence[LastAssignmentConfig] | None, "[]struct null tag 1"
    ] = ()
    stored_description_topology_epoch: Annotated[int, "int32 tag 2"] = -1
    failed_description_topology_epoch: Annotated[int, "int32 tag 3"] = -1
STREAMS_GROUP_METADATA_VALUE = Message(17, 0, 0, 0, StreamsGroupMetadataValue)

class StreamsGroupMemberMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
STREAMS_GROUP_MEMBER_METADATA_KEY = Message(19, 0, 0, -1, StreamsGroupMemberMetadataKey)

class Endpoint(NamedTuple):
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "uint16"] = 0

class KeyValue(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[str, "string"] = ""

class StreamsGroupMemberMetadataValue(NamedTuple):
    instance_id: Annotated[str | None, "string null"] = ""
    rack_id: Annotated[str | None, "string null"] = ""
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    rebalance_timeout_ms: Annotated[int, "int32"] = -1
    topology_epoch: Annotated[int, "int32"] = 0
    process_id: Annotated[str, "string"] = ""
    user_endpoint: Annotated[Endpoint | None, "struct null"] = None
    client_tags: Annotated[Sequence[KeyValue], "[]struct"] = ()
STREAMS_GROUP_MEMBER_METADATA_VALUE = Message(19, 0, 0, 0, StreamsGroupMemberMetadataValue)

class StreamsGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    20, 0, 0, -1, StreamsGroupTargetAssignmentMetadataKey
)

class StreamsGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: Annotated[int, "int32"] = 0
    assignment_timestamp: Annotated[int, "int64 tag 0"] = 0
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    20, 0, 0, 0, StreamsGroupTargetAssignmentMetadataValue
)

class StreamsGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    21, 0, 0, -1, StreamsGroupTargetAssignmentMemberKey
)

class TaskIds(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class StreamsGroupTargetAssignmentMemberValue(NamedTuple):
    active_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()
    standby_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()
    warmup_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    21, 0, 0, 0, StreamsGroupTargetAssignmentMemberValue
)

class StreamsGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    22, 0, 0, -1, StreamsGroupCurrentMemberAssignmentKey
)

class StreamsGroupCurrentMemberAssignmentTaskIds(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()
    assignment_epochs: Annotated[Sequence[int] | None, "[]int32 null tag 0"] = ()

class StreamsGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: Annotated[int, "int32"] = 0
    previous_member_epoch: Annotated[int, "int32"] = 0
    state: Annotated[int, "int8"] = 0
    active_tasks: Annotated[Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"] = ()
    standby_tasks: Annotated[Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"] = ()
    warmup_tasks: Annotated[Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"] = ()
    active_tasks_pending_revocation: Annotated[
        Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"
    ] = ()
    standby_tasks_pending_revocation: Annotated[
        Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"
    ] = ()
    warmup_tasks_pending_revocation: Annotated[
        Sequence[StreamsGroupCurrentMemberAssignmentTaskIds], "[]struct"
    ] = ()
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    22, 0, 0, 0, StreamsGroupCurrentMemberAssignmentValue
)

class StreamsGroupTopologyKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
STREAMS_GROUP_TOPOLOGY_KEY = Message(23, 0, 0, -1, StreamsGroupTopologyKey)

class TopicConfig(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[str, "string"] = ""

class TopicInfo(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[int, "int32"] = 0
    replication_factor: Annotated[int, "int16"] = 0
    topic_configs: Annotated[Sequence[TopicConfig], "[]struct"] = ()

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

class StreamsGroupTopologyValue(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    subtopologies: Annotated[Sequence[Subtopology], "[]struct"] = ()
STREAMS_GROUP_TOPOLOGY_VALUE = Message(23, 0, 0, 0, StreamsGroupTopologyValue)
