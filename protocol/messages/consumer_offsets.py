"""Records of ``__consumer_offsets``. Written by ``tools/messages.py``."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple
from siltstone.protocol.messages import NO_ID, Message

class OffsetCommitKey(NamedTuple):
    group: Annotated[str, "string"] = ""
    topic: Annotated[str, "string"] = ""
    partition: Annotated[int, "int32"] = 0
OFFSET_COMMIT_KEY = Message(1, 0, 0, -1, OffsetCommitKey)

class OffsetCommitValue(NamedTuple):
    offset: Annotated[int, "int64"] = 0
    leader_epoch: Annotated[int, "int32 3+"] = -1
    metadata: Annotated[str, "string"] = ""
    commit_timestamp: Annotated[int, "int64"] = 0
    expire_timestamp: Annotated[int, "int64 1-1"] = -1
    topic_id: Annotated[bytes, "uuid 4+ tag 0"] = NO_ID
OFFSET_COMMIT_VALUE = Message(1, 0, 4, 4, OffsetCommitValue)

class GroupMetadataKey(NamedTuple):
    group: Annotated[str, "string"] = ""
GROUP_METADATA_KEY = Message(2, 0, 0, -1, GroupMetadataKey)

class MemberMetadata(NamedTuple):
    member_id: Annotated[str, "string"] = ""
    group_instance_id: Annotated[str | None, "string 3+ null"] = None
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    rebalance_timeout: Annotated[int, "int32 1+"] = -1
    session_timeout: Annotated[int, "int32"] = 0
    subscription: Annotated[bytes, "bytes"] = b""
    assignment: Annotated[bytes, "bytes"] = b""

class GroupMetadataValue(NamedTuple):
    protocol_type: Annotated[str, "string"] = ""
    generation: Annotated[int, "int32"] = 0
    protocol: Annotated[str | None, "string null"] = ""
    leader: Annotated[str | None, "string null"] = ""
    current_state_timestamp: Annotated[int, "int64 2+"] = -1
    members: Annotated[Sequence[MemberMetadata], "[]struct"] = ()
GROUP_METADATA_VALUE = Message(2, 0, 4, 4, GroupMetadataValue)

class ConsumerGroupMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_METADATA_KEY = Message(3, 0, 0, -1, ConsumerGroupMetadataKey)

class ConsumerGroupMetadataValue(NamedTuple):
    epoch: Annotated[int, "int32"] = 0
    metadata_hash: Annotated[int, "int64 tag 0"] = 0
CONSUMER_GROUP_METADATA_VALUE = Message(3, 0, 0, 0, ConsumerGroupMetadataValue)

class ConsumerGroupPartitionMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_PARTITION_METADATA_KEY = Message(4, 0, 0, -1, ConsumerGroupPartitionMetadataKey)

class PartitionMetadata(NamedTuple):
    partition: Annotated[int, "int32"] = 0
    racks: Annotated[Sequence[str], "[]string"] = ()

class TopicMetadata(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    topic_name: Annotated[str, "string"] = ""
    num_partitions: Annotated[int, "int32"] = 0
    partition_metadata: Annotated[Sequence[PartitionMetadata], "[]struct"] = ()

class ConsumerGroupPartitionMetadataValue(NamedTuple):
    topics: Annotated[Sequence[TopicMetadata], "[]struct"] = ()
CONSUMER_GROUP_PARTITION_METADATA_VALUE = Message(4, 0, 0, 0, ConsumerGroupPartitionMetadataValue)

class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_MEMBER_METADATA_KEY = Message(5, 0, 0, -1, ConsumerGroupMemberMetadataKey)

class ClassicProtocol(NamedTuple):
    name: Annotated[str, "string"] = ""
    metadata: Annotated[bytes, "bytes"] = b""

class ClassicMemberMetadata(NamedTuple):
    session_timeout_ms: Annotated[int, "int32"] = 0
    supported_protocols: Annotated[Sequence[ClassicProtocol], "[]struct"] = ()

class ConsumerGroupMemberMetadataValue(NamedTuple):
    instance_id: Annotated[str | None, "string null"] = ""
    rack_id: Annotated[str | None, "string null"] = ""
    client_id: Annotated[str, "string"] = ""
    client_host: Annotated[str, "string"] = ""
    subscribed_topic_names: Annotated[Sequence[str], "[]string"] = ()
    subscribed_topic_regex: Annotated[str | None, "string null"] = ""
    rebalance_timeout_ms: Annotated[int, "int32"] = -1
    server_assignor: Annotated[str | None, "string null"] = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, "struct null tag 0"] = (
        ClassicMemberMetadata()
    )
CONSUMER_GROUP_MEMBER_METADATA_VALUE = Message(5, 0, 0, 0, ConsumerGroupMemberMetadataValue)

class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Message(
    6, 0, 0, -1, ConsumerGroupTargetAssignmentMetadataKey
)

class ConsumerGroupTargetAssignmentMetadataValue(NamedTuple):
    assignment_epoch: Annotated[int, "int32"] = 0
    assignment_timestamp: Annotated[int, "int64 tag 0"] = 0
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Message(
    6, 0, 0, 0, ConsumerGroupTargetAssignmentMetadataValue
)

class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Message(
    7, 0, 0, -1, ConsumerGroupTargetAssignmentMemberKey
)

class TopicPartition(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()

class ConsumerGroupTargetAssignmentMemberValue(NamedTuple):
    topic_partitions: Annotated[Sequence[TopicPartition], "[]struct"] = ()
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Message(
    7, 0, 0, 0, ConsumerGroupTargetAssignmentMemberValue
)

class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    member_id: Annotated[str, "string"] = ""
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Message(
    8, 0, 0, -1, ConsumerGroupCurrentMemberAssignmentKey
)

class TopicPartitions(NamedTuple):
    topic_id: Annotated[bytes, "uuid"] = NO_ID
    partitions: Annotated[Sequence[int], "[]int32"] = ()
    assignment_epochs: Annotated[Sequence[int] | None, "[]int32 null tag 0"] = ()

class ConsumerGroupCurrentMemberAssignmentValue(NamedTuple):
    member_epoch: Annotated[int, "int32"] = 0
    previous_member_epoch: Annotated[int, "int32"] = 0
    state: Annotated[int, "int8"] = 0
    assigned_partitions: Annotated[Sequence[TopicPartitions], "[]struct"] = ()
    partitions_pending_revocation: Annotated[Sequence[TopicPartitions], "[]struct"] = ()
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Message(
    8, 0, 0, 0, ConsumerGroupCurrentMemberAssignmentValue
)

class ConsumerGroupRegularExpressionKey(NamedTuple):
    group_id: Annotated[str, "string"] = ""
    regular_expression: Annotated[str, "string"] = ""
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = Message(16, 0, 0, -1, ConsumerGroupRegularExpressionKey)

class ConsumerGroupRegularExpressionValue(NamedTuple):
    topics: Annotated[Sequence[str], "[]string"] = ()
    version: Annotated[int, "int64"] = 0
    timestamp: Annotated[int, "int64"] = 0
CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = Message(16, 0, 0, 0, ConsumerGroupRegularExpressionValue)
