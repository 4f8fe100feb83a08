"""Errors that only groups answer: a class is a Kafka error code, as in `protocol.errors`."""
# ruff: noqa: N818  # Kafka's names, without "Exception", are what operators search for

from siltstone.protocol.errors import ErrorCode, KafkaError


class OffsetMetadataTooLarge(KafkaError):
    """The metadata of a committed offset is longer than offset.metadata.max.bytes."""

    code = ErrorCode.offset_metadata_too_large


class IllegalGeneration(KafkaError):
    """The generation is not that of the group."""

    code = ErrorCode.illegal_generation


class InconsistentGroupProtocol(KafkaError):
    """The member has no protocol type, or no protocol, in common with the group."""

    code = ErrorCode.inconsistent_group_protocol


class InvalidGroupId(KafkaError):
    """The group id must not be empty."""

    code = ErrorCode.invalid_group_id


class UnknownMemberId(KafkaError):
    """The group has no such member."""

    code = ErrorCode.unknown_member_id


class InvalidSessionTimeout(KafkaError):
    """The session timeout is outside of what the broker allows."""

    code = ErrorCode.invalid_session_timeout


class RebalanceInProgress(KafkaError):
    """The group is rebalancing; join again."""

    code = ErrorCode.rebalance_in_progress


class NonEmptyGroup(KafkaError):
    """The group has members."""

    code = ErrorCode.non_empty_group


class GroupIdNotFound(KafkaError):
    """There is no such group."""

    code = ErrorCode.group_id_not_found


class MemberIdRequired(KafkaError):
    """The member has to join again with the id that it was given."""

    code = ErrorCode.member_id_required


class GroupMaxSizeReached(KafkaError):
    """The group has as many members as it may have."""

    code = ErrorCode.group_max_size_reached


class FencedInstanceId(KafkaError):
    """Another member has joined with this instance id since."""

    code = ErrorCode.fenced_instance_id


class GroupSubscribedToTopic(KafkaError):
    """A member of the group subscribes to the topic."""

    code = ErrorCode.group_subscribed_to_topic


class UnstableOffsetCommit(KafkaError):
    """A transaction that is still open has an offset of this partition."""

    code = ErrorCode.unstable_offset_commit


class FencedMemberEpoch(KafkaError):
    """The epoch of the member is not the one it has in the group; it has to join again."""

    code = ErrorCode.fenced_member_epoch


class UnreleasedInstanceId(KafkaError):
    """The instance id is held by a member that is still there."""

    code = ErrorCode.unreleased_instance_id


class UnsupportedAssignor(KafkaError):
    """The broker has no such assignor."""

    code = ErrorCode.unsupported_assignor


class StaleMemberEpoch(KafkaError):
    """The epoch of the member is not current; ask again after the next heartbeat."""

    code = ErrorCode.stale_member_epoch
