"""Records of share groups in ``__consumer_offsets``. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class ShareGroupMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
SHARE_GROUP_METADATA_KEY = Message(11, 0, 0, -1, ShareGroupMetadataKey)

class ShareGroupMetadataValue(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    metadata_hash: Annotated[int, "int64"] = 0
SHARE_GROUP_METADATA_VALUE = Message(11, 0, 0, 0, ShareGroupMetadataValue)

class ShareGroupMemberMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
SHARE_GROUP_MEMBER_METADATA_KEY = Message(10, 0, 0, -1, ShareGroupMemberMetadataKey)

class ShareGroupMemberMetadataValue(NamedTuple):
    rack_id: Annotated[str | None, "string null"] = ""
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    subscribed_topic_names: Annotated[Sequence[str], "[]string"] = ()
SHARE_GROUP_MEMBER_METADATA_VALUE = Message(10, 0, 0, 0, ShareGroupMemberMetadataValue)

class ShareGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    12, 0, 0, -1, ShareGroupTargetAssignmentMetadataKey
)

class ShareGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: Annotated[int, "int32"] = 0
    assignment_timestamp: Annotated[int, "int64 tag 0"] = 0
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    12, 0, 0, 0, ShareGroupTargetAssignmentMetadataValue
)

class ShareGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    13, 0, 0, -1, ShareGroupTargetAssignmentMemberKey
)

class TopicPartition(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ShareGroupTargetAssignmentMemberValue(NamedTuple):
    topic_partitions: Annotated[Sequence[TopicPartition], "[]struct"] = ()
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    13, 0, 0, 0, ShareGroupTargetAssignmentMemberValue
)

class ShareGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    14, 0, 0, -1, ShareGroupCurrentMemberAssignmentKey
)

class TopicPartitions(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ShareGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: Annotated[int, "int32"] = 0
    previous_member_epoch: Annotated[int, "int32"] = 0
    state: Annotated[int, "int8"] = 0
    assigned_partitions: Annotated[Sequence[TopicPartitions], "[]struct"] = ()
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    14, 0, 0, 0, ShareGroupCurrentMemberAssignmentValue
)

class ShareGroupStatePartitionMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
SHARE_GROUP_STATE_PARTITION_METADATA_KEY = Message(
    15, 0, 0, -1, ShareGroupStatePartitionMetadataKey
)

class TopicPartitionsInfo(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    topic_name: Annotated[str, "string"] = ""
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class TopicInfo(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    topic_name: Annotated[str, "string"] = ""

class ShareGroupStatePartitionMetadataValue(NamedTuple):
    initializing_topics: Annotated[Sequence[TopicPartitionsInfo], "[]struct"] = ()
    initialized_topics: Annotated[Sequence[TopicPartitionsInfo], "[]struct"] = ()
    deleting_topics: Annotated[Sequence[TopicInfo], "[]struct"] = ()
SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Message(
    15, 0, 0, 0, ShareGroupStatePartitionMetadataValue
)
