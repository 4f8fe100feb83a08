"""ShareGroupHeartbeat (76). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class ShareGroupHeartbeatRequest(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
    member_epoch: Annotated[int, "int32"] = 0
    rack_id: Annotated[str | None, "string null"] = None
    subscribed_topic_names: Annotated[Sequence[str] | None, "[]string null"] = None
REQUEST = Message(76, 1, 1, 0, ShareGroupHeartbeatRequest)

class TopicPartitions(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class Assignment(NamedTuple):
    topic_partitions: Annotated[Sequence[TopicPartitions], "[]struct"] = ()

class ShareGroupHeartbeatResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    member_id: Annotated[str | None, "string null"] = None
    member_epoch: Annotated[int, "int32"] = 0
    heartbeat_interval_ms: Annotated[int, "int32"] = 0
    assignment: Annotated[Assignment | None, "struct null"] = None
RESPONSE = Message(76, 1, 1, 0, ShareGroupHeartbeatResponse)
