"""StreamsGroupDescribe (89). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class StreamsGroupDescribeRequest(NamedTuple):
    group_ids: Annotated[Sequence[str], "[]string"] = ()
    include_authorized_operations: Annotated[bool, "bool"] = False
    include_topology_description: Annotated[bool, "bool 1+"] = False
REQUEST = Message(89, 0, 1, 0, StreamsGroupDescribeRequest)

class KeyValue(NamedTuple):
    key: Annotated[str, "string"] = ""
    value: Annotated[str, "string"] = ""

class TopicInfo(NamedTuple):
    name: Annotated[str, "string"] = ""
    partitions: Annotated[int, "int32"] = 0
    replication_factor: Annotated[int, "int16"] = 0
    topic_configs: Annotated[Sequence[KeyValue], "[]struct"] = ()

class Subtopology(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    source_topics: Annotated[Sequence[str], "[]string"] = ()
    repartition_sink_topics: Annotated[Sequence[str], "[]string"] = ()
    state_changelog_topics: Annotated[Sequence[TopicInfo], "[]struct"] = ()
    repartition_source_topics: Annotated[Sequence[TopicInfo], "[]struct"] = ()

class Topology(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    subtopologies: Annotated[Sequence[Subtopology] | None, "[]struct null"] = None

class Endpoint(NamedTuple):
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "uint16"] = 0

class TaskOffset(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partition: Annotated[int, "int32"] = 0
    offset: Annotated[int, "int64"] = 0

class TaskIds(NamedTuple):
    subtopology_id: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class Assignment(NamedTuple):
    active_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()
    standby_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()
    warmup_tasks: Annotated[Sequence[TaskIds], "[]struct"] = ()

class Member(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    member_epoch: Annotated[int, "int32"] = 0
    instance_id: Annotated[str | None, "string null"] = None
    rack_id: Annotated[str | None, "string null"] = None
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    topology_epoch: Annotated[int, "int32"] = 0
    process_id: Annotated[str, "string"] = ""
    user_endpoint: Annotated[Endpoint | None, "struct null"] = None
    client_tags: Annotated[Sequence[KeyValue], "[]struct"] = ()
    task_offsets: Annotated[Sequence[TaskOffset], "[]struct"] = ()
    task_end_offsets: Annotated[Sequence[TaskOffset], "[]struct"] = ()
    assignment: Annotated[Assignment, "struct"] = Assignment()
    target_assignment: Annotated[Assignment, "struct"] = Assignment()
    is_classic: Annotated[bool, "bool"] = False

class TopologyDescriptionNode(NamedTuple):
    name: Annotated[str, "string 1+"] = ""
    node_type: Annotated[int, "int8 1+"] = 0
    source_topics: Annotated[Sequence[str], "[]string 1+"] = ()
    sink_topic: Annotated[str | None, "string 1+ null"] = None
    stores: Annotated[Sequence[str], "[]string 1+"] = ()
    successors: Annotated[Sequence[str], "[]string 1+"] = ()

class TopologyDescriptionSubtopology(NamedTuple):
    subtopology_id: Annotated[str, "string 1+"] = ""
    nodes: Annotated[Sequence[TopologyDescriptionNode], "[]struct 1+"] = ()

class TopologyDescriptionGlobalStore(NamedTuple):
    source: Annotated[TopologyDescriptionNode, "struct 1+"] = TopologyDescriptionNode()
    processor: Annotated[TopologyDescriptionNode, "struct 1+"] = TopologyDescriptionNode()

class TopologyDescription(NamedTuple):
    subtopologies: Annotated[Sequence[TopologyDescriptionSubtopology], "[]struct 1+"] = ()
    global_stores: Annotated[Sequence[TopologyDescriptionGlobalStore], "[]struct 1+"] = ()

class DescribedGroup(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    group_id: Annotated[str, "string"] = ""
    group_state: Annotated[str, "string"] = ""
    group_epoch: Annotated[int, "int32"] = 0
    assignment_epoch: Annotated[int, "int32"] = 0
    topology: Annotated[Topology | None, "struct null"] = None
    members: Annotated[Sequence[Member], "[]struct"] = ()
    authorized_operations: Annotated[int, "int32"] = -2147483648
    topology_description: Annotated[TopologyDescription | None, "struct 1+ null"] = None
    topology_description_status: Annotated[int, "int8 1+"] = 0
    assignor_name: Annotated[str | None, "string 1+ null"] = None

class StreamsGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    groups: Annotated[Sequence[DescribedGroup], "[]struct"] = ()
RESPONSE = Message(89, 0, 1, 0, StreamsGroupDescribeResponse)
