"""Errors that only groups answer: a class is a Kafka error code, as in `protocol.errors`."""
# ruff: noqa: N818  # Kafka's names, without "Exception", are what operators search for

from siltstone.protocol.errors import ErrorCode, KafkaError


# fmt: off
class OffsetMetadataTooLarge(KafkaError, code=ErrorCode.offset_metadata_too_large):
    """The metadata of a committed offset is longer than offset.metadata.max.bytes."""
class InvalidCommitOffsetSize(KafkaError, code=ErrorCode.invalid_commit_offset_size):
    """The committed offsets of all groups would take too many bytes."""
class IllegalGeneration(KafkaError, code=ErrorCode.illegal_generation):
    """The generation is not that of the group."""
class InconsistentGroupProtocol(KafkaError, code=ErrorCode.inconsistent_group_protocol):
    """The member has no protocol type, or no protocol, in common with the group."""
class InvalidGroupId(KafkaError, code=ErrorCode.invalid_group_id):
    """The group id must not be empty."""
class UnknownMemberId(KafkaError, code=ErrorCode.unknown_member_id):
    """The group has no such member."""
class InvalidSessionTimeout(KafkaError, code=ErrorCode.invalid_session_timeout):
    """The session timeout is outside of what the broker allows."""
class RebalanceInProgress(KafkaError, code=ErrorCode.rebalance_in_progress):
    """The group is rebalancing; join again."""
class NonEmptyGroup(KafkaError, code=ErrorCode.non_empty_group):
    """The group has members."""
class GroupIdNotFound(KafkaError, code=ErrorCode.group_id_not_found):
    """The group does not exist."""
class GroupMaxSizeReached(KafkaError, code=ErrorCode.group_max_size_reached):
    """The group has as many members as it may have."""
class FencedInstanceId(KafkaError, code=ErrorCode.fenced_instance_id):
    """Another member has joined with this instance id since."""
class GroupSubscribedToTopic(KafkaError, code=ErrorCode.group_subscribed_to_topic):
    """A member of the group subscribes to the topic."""
class UnstableOffsetCommit(KafkaError, code=ErrorCode.unstable_offset_commit):
    """A transaction that is still open has an offset of this partition."""
class FencedMemberEpoch(KafkaError, code=ErrorCode.fenced_member_epoch):
    """The epoch of the member is not the one it has in the group; it has to join again."""
class UnreleasedInstanceId(KafkaError, code=ErrorCode.unreleased_instance_id):
    """The instance id is held by a member that is still in the group."""
class UnsupportedAssignor(KafkaError, code=ErrorCode.unsupported_assignor):
    """The broker has no such assignor."""
class StreamsInvalidTopology(KafkaError, code=ErrorCode.streams_invalid_topology):
    """The topology contradicts itself."""
class StaleMemberEpoch(KafkaError, code=ErrorCode.stale_member_epoch):
    """The epoch of the member is not current; ask again after the next heartbeat."""
# fmt: on
