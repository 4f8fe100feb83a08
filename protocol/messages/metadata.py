"""Metadata (3). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class MetadataRequestTopic(NamedTuple):
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    name: Annotated[str | None, "string null 10+"] = ""

class MetadataRequest(NamedTuple):
    topics: Annotated[Sequence[MetadataRequestTopic] | None, "[]struct null 1+"] = ()
    allow_auto_topic_creation: Annotated[bool, "bool 4+"] = True
    include_cluster_authorized_operations: Annotated[bool, "bool 8-10"] = False
    include_topic_authorized_operations: Annotated[bool, "bool 8+"] = False
REQUEST = Message(3, 0, 13, 9, MetadataRequest)

class MetadataResponseBroker(NamedTuple):
    node_id: Annotated[int, "int32"] = 0
    host: Annotated[str, "string"] = ""
    port: Annotated[int, "int32"] = 0
    rack: Annotated[str | None, "string 1+ null"] = None

class MetadataResponsePartition(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    partition_index: Annotated[int, "int32"] = 0
    leader_id: Annotated[int, "int32"] = 0
    leader_epoch: Annotated[int, "int32 7+"] = -1
    replica_nodes: Annotated[Sequence[int], "[]int32"] = ()
    isr_nodes: Annotated[Sequence[int], "[]int32"] = ()
    offline_replicas: Annotated[Sequence[int], "[]int32 5+"] = ()

class MetadataResponseTopic(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    name: Annotated[str | None, "string null 12+"] = ""
    topic_id: Annotated[bytes, "uuid 10+"] = NO_ID
    is_internal: Annotated[bool, "bool 1+"] = False
    partitions: Annotated[Sequence[MetadataResponsePartition], "[]struct"] = ()
    topic_authorized_operations: Annotated[int, "int32 8+"] = -2147483648

class MetadataResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32 3+"] = 0
    brokers: Annotated[Sequence[MetadataResponseBroker], "[]struct"] = ()
    cluster_id: Annotated[str | None, "string 2+ null"] = None
    controller_id: Annotated[int, "int32 1+"] = -1
    topics: Annotated[Sequence[MetadataResponseTopic], "[]struct"] = ()
    cluster_authorized_operations: Annotated[int, "int32 8-10"] = -2147483648
    error_code: Annotated[int, "int16 13+"] = 0
RESPONSE = Message(3, 0, 13, 9, MetadataResponse)
