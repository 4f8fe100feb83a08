"""The bytes of consumers in JoinGroup and SyncGroup. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import Message

class TopicPartition(NamedTuple):
    topic: Annotated[str, "string 1+"] = ""
    partitions: Annotated[Sequence[int], "[]int32 1+"] = ()

class ConsumerProtocolSubscription(NamedTuple):
    topics: Annotated[Sequence[str], "[]string"] = ()
    user_data: Annotated[bytes | None, "bytes null"] = None
    owned_partitions: Annotated[Sequence[TopicPartition], "[]struct 1+"] = ()
    generation_id: Annotated[int, "int32 2+"] = -1
    rack_id: Annotated[str | None, "string 3+ null"] = None
CONSUMER_PROTOCOL_SUBSCRIPTION = Message(-1, 0, 3, -1, ConsumerProtocolSubscription)

class ConsumerProtocolAssignmentTopicPartition(NamedTuple):
    topic: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ConsumerProtocolAssignment(NamedTuple):
    assigned_partitions: Annotated[
        Sequence[ConsumerProtocolAssignmentTopicPartition], "[]struct"
    ] = ()
    user_data: Annotated[bytes | None, "bytes null"] = None
CONSUMER_PROTOCOL_ASSIGNMENT = Message(-1, 0, 3, -1, ConsumerProtocolAssignment)
