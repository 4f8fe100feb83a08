"""ShareGroupDescribe (77). Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class ShareGroupDescribeRequest(NamedTuple):
    group_ids: Annotated[Sequence[str], "[]string"] = ()
    include_authorized_operations: Annotated[bool, "bool"] = False
REQUEST = Message(77, 1, 1, 0, ShareGroupDescribeRequest)

class TopicPartitions(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class Assignment(NamedTuple):
    topic_partitions: Annotated[Sequence[TopicPartitions], "[]struct"] = ()

class Member(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    rack_id: Annotated[str | None, "string null"] = None
    member_epoch: Annotated[int, "int32"] = 0
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    subscribed_topic_names: Annotated[Sequence[str], "[]string"] = ()
    assignment: Annotated[Assignment, "struct"] = Assignment()

class DescribedGroup(NamedTuple):
    error_code: Annotated[int, "int16"] = 0
    error_message: Annotated[str | None, "string null"] = None
    group_id: Annotated[str, "string"] = ""
    group_state: Annotated[str, "string"] = ""
    group_epoch: Annotated[int, "int32"] = 0
    assignment_epoch: Annotated[int, "int32"] = 0
    assignor_name: Annotated[str, "string"] = ""
    members: Annotated[Sequence[Member], "[]struct"] = ()
    authorized_operations: Annotated[int, "int32"] = -2147483648

class ShareGroupDescribeResponse(NamedTuple):
    throttle_time_ms: Annotated[int, "int32"] = 0
    groups: Annotated[Sequence[DescribedGroup], "[]struct"] = ()
RESPONSE = Message(77, 1, 1, 0, ShareGroupDescribeResponse)
