"""CreateTopics (19). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class CreatableReplicaAssignment(NamedTuple):
    partition_index: Annotated[int, "int32"] = 0
    broker_ids: Annotated[Sequence[int], "[]int32"] = ()

class CreatableTopicConfig(NamedTuple):
    name: Annotated[str, "string"] = ""
    value: Annotated[str | None, "string null"] = ""

class CreatableTopic(NamedTuple):
    name: Annotated[str, "string"] = ""
    num_partitions: Annotated[int, "int32"] = 0
    replication_factor: Annotated[int, "int16"] = 0
    assignments: Annotated[Sequence[CreatableReplicaAssignment], "[]struct"] = ()
    configs: Annotated[Sequence[CreatableTopicConfig], "[]struct"] = ()

class CreateTopicsRequest(NamedTuple):
    topics: Annotated[Sequence[CreatableTopic], "[]struct"] = ()
    timeout_ms: Annotated[int, "int32"] = 60000
    validate_only: Annotated[bool, "bool"] = False
REQUEST = Message(19, 2, 7, 5, CreateTopicsRequest)

class CreatableTopicConfigs(NamedTuple):
    name: Annotated[str, "string 5+"] = ""
    value: Annotated[str | None, "string 5+ null"] = ""
    read_only: Annotated[bool, "bool 5+"] = False
    config_source: Annotated[int, "int8 5+"] = -1
    is_sensitive: Annotated[bool, "bool 5+"] = False

class CreatableTopicResult(NamedTuple):
    name: Annotated[str, "string"] = ""
    topic_id: Annotated[bytes, "uuid 7+"] = NO_ID
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = ""
    topic_config_error_code: Annotated[int, "int16 5+ tag 0"] = 0
    num_partitions: Annotated[int, "int32 5+"] = -1
    replication_factor: Annotated[int, "int16 5+"] = -1
    configs: Annotated[Sequence[CreatableTopicConfigs] | None, "[]struct 5+ null"] = ()

class CreateTopicsResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    topics: Annotated[Sequence[CreatableTopicResult], "[]struct"] = ()
RESPONSE = Message(19, 2, 7, 5, CreateTopicsResponse)
