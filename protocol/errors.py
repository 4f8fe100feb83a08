"""Errors of the protocol: a class is a Kafka error code (names are those of Kafka's exceptions).

The first line of a class is what a client reads as ``error_message`` when the code that raised the
error gave no more exact message. So the classes are a table: a line has the code, the next one what
a client reads. `ProtocolError` is no Kafka code: it ends the connection.
"""
# ruff: noqa: N818  # Kafka's names, without "Exception", are what operators search for

from enum import IntEnum
from typing import ClassVar


class ErrorCode(IntEnum):
    """Kafka's error codes, as they stand on the wire (class ``Errors``)."""

    unknown_server_error = -1
    none = 0
    offset_out_of_range = 1
    corrupt_message = 2
    unknown_topic_or_partition = 3
    invalid_fetch_size = 4
    leader_not_available = 5
    not_leader_or_follower = 6
    request_timed_out = 7
    broker_not_available = 8
    replica_not_available = 9
    message_too_large = 10
    stale_controller_epoch = 11
    offset_metadata_too_large = 12
    network_exception = 13
    coordinator_load_in_progress = 14
    coordinator_not_available = 15
    not_coordinator = 16
    invalid_topic_exception = 17
    record_list_too_large = 18
    not_enough_replicas = 19
    not_enough_replicas_after_append = 20
    invalid_required_acks = 21
    illegal_generation = 22
    inconsistent_group_protocol = 23
    invalid_group_id = 24
    unknown_member_id = 25
    invalid_session_timeout = 26
    rebalance_in_progress = 27
    invalid_commit_offset_size = 28
    topic_authorization_failed = 29
    group_authorization_failed = 30
    cluster_authorization_failed = 31
    invalid_timestamp = 32
    unsupported_sasl_mechanism = 33
    illegal_sasl_state = 34
    unsupported_version = 35
    topic_already_exists = 36
    invalid_partitions = 37
    invalid_replication_factor = 38
    invalid_replica_assignment = 39
    invalid_config = 40
    not_controller = 41
    invalid_request = 42
    unsupported_for_message_format = 43
    policy_violation = 44
    out_of_order_sequence_number = 45
    duplicate_sequence_number = 46
    invalid_producer_epoch = 47
    invalid_txn_state = 48
    invalid_producer_id_mapping = 49
    invalid_transaction_timeout = 50
    concurrent_transactions = 51
    transaction_coordinator_fenced = 52
    transactional_id_authorization_failed = 53
    security_disabled = 54
    operation_not_attempted = 55
    kafka_storage_error = 56
    log_dir_not_found = 57
    sasl_authentication_failed = 58
    unknown_producer_id = 59
    reassignment_in_progress = 60
    delegation_token_auth_disabled = 61
    delegation_token_not_found = 62
    delegation_token_owner_mismatch = 63
    delegation_token_request_not_allowed = 64
    delegation_token_authorization_failed = 65
    delegation_token_expired = 66
    invalid_principal_type = 67
    non_empty_group = 68
    group_id_not_found = 69
    fetch_session_id_not_found = 70
    invalid_fetch_session_epoch = 71
    listener_not_found = 72
    topic_deletion_disabled = 73
    fenced_leader_epoch = 74
    unknown_leader_epoch = 75
    unsupported_compression_type = 76
    stale_broker_epoch = 77
    offset_not_available = 78
    member_id_required = 79
    preferred_leader_not_available = 80
    group_max_size_reached = 81
    fenced_instance_id = 82
    eligible_leaders_not_available = 83
    election_not_needed = 84
    no_reassignment_in_progress = 85
    group_subscribed_to_topic = 86
    invalid_record = 87
    unstable_offset_commit = 88
    throttling_quota_exceeded = 89
    producer_fenced = 90
    resource_not_found = 91
    duplicate_resource = 92
    unacceptable_credential = 93
    inconsistent_voter_set = 94
    invalid_update_version = 95
    feature_update_failed = 96
    principal_deserialization_failure = 97
    snapshot_not_found = 98
    position_out_of_range = 99
    unknown_topic_id = 100
    duplicate_broker_registration = 101
    broker_id_not_registered = 102
    inconsistent_topic_id = 103
    inconsistent_cluster_id = 104
    transactional_id_not_found = 105
    fetch_session_topic_id_error = 106
    ineligible_replica = 107
    new_leader_elected = 108
    offset_moved_to_tiered_storage = 109
    fenced_member_epoch = 110
    unreleased_instance_id = 111
    unsupported_assignor = 112
    stale_member_epoch = 113
    mismatched_endpoint_type = 114
    unsupported_endpoint_type = 115
    unknown_controller_id = 116
    unknown_subscription_id = 117
    telemetry_too_large = 118
    invalid_registration = 119
    transaction_abortable = 120
    invalid_record_state = 121
    share_session_not_found = 122
    invalid_share_session_epoch = 123
    fenced_state_epoch = 124
    invalid_voter_key = 125
    duplicate_voter = 126
    voter_not_found = 127
    invalid_regular_expression = 128
    rebootstrap_required = 129
    streams_invalid_topology = 130
    streams_invalid_topology_epoch = 131
    streams_topology_fenced = 132
    share_session_limit_reached = 133
    group_deletion_failed = 134
    streams_topology_description_update_failed = 135
    controller_id_not_registered = 136


MAX_MESSAGE_CHARACTERS = 4_000


def shorten(text: str) -> str:
    """Shorten a text that may quote a client to the room in answers and log lines."""
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    return f"{text[:MAX_MESSAGE_CHARACTERS]}... ({len(text)} characters)"


def visible(text: str) -> str:
    r"""Return a text that may quote a client, with line breaks and terminal controls escaped.

    Unprintable characters, including line separators and marks of direction, become text such as
    ``\x1b``.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, such as NOT_COORDINATOR; of others, ``error 999``."""
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"error {code}"


class ProtocolError(Exception):
    """The bytes of a frame are not what the protocol allows; the connection is closed."""


class KafkaError(Exception):
    """A refusal that a client sees: ``code`` on the wire, ``message`` for its log.

    ``own_message`` is None if the code's meaning is enough; then no text is sent, as in Kafka, even
    if an answer has a field for it. Long messages are shortened: they quote what clients sent, and
    must fit a string on the wire. ``record_errors`` names the records of a refused batch: (index in
    the batch, what is wrong); ``counted_as`` names the meter of Kafka's that counts the error, if
    there is one.
    """

    code: ClassVar[ErrorCode]

    def __init_subclass__(cls, *, code: ErrorCode | None = None) -> None:
        if code is not None:
            cls.code = code

    def __init__(
        self,
        message: str | None = None,
        *,
        record_errors: tuple[tuple[int, str], ...] = (),
        counted_as: str = "",
    ) -> None:
        self.own_message = None if message is None else shorten(message)
        self.message = self.own_message or self.__doc__ or self.code.name
        self.record_errors = record_errors
        self.counted_as = counted_as
        super().__init__(self.message)


# fmt: off
class UnknownServerError(KafkaError, code=ErrorCode.unknown_server_error):
    """The broker met a fault of its own; its log has the details."""
class OffsetOutOfRange(KafkaError, code=ErrorCode.offset_out_of_range):
    """The offset is below the log start offset or above the log end offset."""
class CorruptMessage(KafkaError, code=ErrorCode.corrupt_message):
    """The batch is damaged: its checksum or its length does not match its bytes."""
class UnknownTopicOrPartition(KafkaError, code=ErrorCode.unknown_topic_or_partition):
    """The topic or partition does not exist here."""
class NotLeaderOrFollower(KafkaError, code=ErrorCode.not_leader_or_follower):
    """The partition cannot be served by this broker now."""
class ReplicaNotAvailable(KafkaError, code=ErrorCode.replica_not_available):
    """The partition has no replica on this broker."""
class RecordTooLarge(KafkaError, code=ErrorCode.message_too_large):
    """The batch is larger than max.message.bytes of the topic."""
class CoordinatorLoadInProgress(KafkaError, code=ErrorCode.coordinator_load_in_progress):
    """The coordinator is still reading its topic; ask again in a moment."""
class CoordinatorNotAvailable(KafkaError, code=ErrorCode.coordinator_not_available):
    """The coordinator cannot write its topic now; ask again."""
class NotCoordinator(KafkaError, code=ErrorCode.not_coordinator):
    """This broker does not coordinate that group or transaction."""
class InvalidTopic(KafkaError, code=ErrorCode.invalid_topic_exception):
    """The topic name is illegal, collides with another one, or is reserved."""
class RecordListTooLarge(KafkaError, code=ErrorCode.record_list_too_large):
    """The batch is larger than segment.bytes of the topic."""
class NotEnoughReplicas(KafkaError, code=ErrorCode.not_enough_replicas):
    """The transaction could not be verified now; send the batch again."""
class InvalidRequiredAcks(KafkaError, code=ErrorCode.invalid_required_acks):
    """The value of acks must be -1, 0 or 1."""
class TopicAuthorizationFailed(KafkaError, code=ErrorCode.topic_authorization_failed):
    """Topic authorization failed."""
class GroupAuthorizationFailed(KafkaError, code=ErrorCode.group_authorization_failed):
    """Group authorization failed."""
class ClusterAuthorizationFailed(KafkaError, code=ErrorCode.cluster_authorization_failed):
    """Cluster authorization failed."""
class InvalidTimestamp(KafkaError, code=ErrorCode.invalid_timestamp):
    """The timestamp of a record is outside what the topic allows."""
class IllegalSaslState(KafkaError, code=ErrorCode.illegal_sasl_state):
    """This listener has no logins; set security.protocol=PLAINTEXT in the client."""
class UnsupportedVersion(KafkaError, code=ErrorCode.unsupported_version):
    """The broker does not serve this version of the request."""
class TopicAlreadyExists(KafkaError, code=ErrorCode.topic_already_exists):
    """A topic with this name exists already."""
class InvalidPartitions(KafkaError, code=ErrorCode.invalid_partitions):
    """The number of partitions is not possible."""
class InvalidReplicationFactor(KafkaError, code=ErrorCode.invalid_replication_factor):
    """The replication factor is not possible: this cluster is one broker."""
class InvalidReplicaAssignment(KafkaError, code=ErrorCode.invalid_replica_assignment):
    """The replica assignment is not possible: this cluster is one broker."""
class InvalidConfig(KafkaError, code=ErrorCode.invalid_config):
    """A setting is unknown or its value is not allowed."""
class InvalidRequest(KafkaError, code=ErrorCode.invalid_request):
    """The request contradicts itself or asks for something that does not exist."""
class PolicyViolation(KafkaError, code=ErrorCode.policy_violation):
    """A rule of this broker forbids this, or a limit of it is reached."""
class OutOfOrderSequence(KafkaError, code=ErrorCode.out_of_order_sequence_number):
    """The first sequence of the batch does not follow the last one of its producer."""
class InvalidProducerEpoch(KafkaError, code=ErrorCode.invalid_producer_epoch):
    """A newer epoch of this producer has written to the partition."""
class InvalidTxnState(KafkaError, code=ErrorCode.invalid_txn_state):
    """The transaction is in a state that does not allow this."""
class InvalidProducerIdMapping(KafkaError, code=ErrorCode.invalid_producer_id_mapping):
    """The producer id does not belong to this transactional id."""
class InvalidTransactionTimeout(KafkaError, code=ErrorCode.invalid_transaction_timeout):
    """The time-out must be positive and at most transaction.max.timeout.ms."""
class ConcurrentTransactions(KafkaError, code=ErrorCode.concurrent_transactions):
    """The transaction before is still being completed; ask again."""
class TransactionCoordinatorFenced(KafkaError, code=ErrorCode.transaction_coordinator_fenced):
    """The transaction marker comes from a coordinator that has been replaced."""
class TransactionalIdAuthorizationFailed(KafkaError,
                                         code=ErrorCode.transactional_id_authorization_failed):
    """Transactional Id authorization failed."""
class OperationNotAttempted(KafkaError, code=ErrorCode.operation_not_attempted):
    """Nothing was done, since another part of the request failed."""
class KafkaStorageError(KafkaError, code=ErrorCode.kafka_storage_error):
    """A log directory failed; the partitions in it are offline."""
class LogDirNotFound(KafkaError, code=ErrorCode.log_dir_not_found):
    """The log directory does not exist."""
class FetchSessionIdNotFound(KafkaError, code=ErrorCode.fetch_session_id_not_found):
    """The fetch session does not exist; it was evicted or the broker was restarted."""
class InvalidFetchSessionEpoch(KafkaError, code=ErrorCode.invalid_fetch_session_epoch):
    """The epoch is not the next one of this fetch session."""
class TopicDeletionDisabled(KafkaError, code=ErrorCode.topic_deletion_disabled):
    """Topics cannot be deleted: delete.topic.enable is false."""
class FencedLeaderEpoch(KafkaError, code=ErrorCode.fenced_leader_epoch):
    """The leader epoch of the client is older than that of the partition."""
class UnknownLeaderEpoch(KafkaError, code=ErrorCode.unknown_leader_epoch):
    """The leader epoch of the client is newer than that of the partition."""
class OffsetNotAvailable(KafkaError, code=ErrorCode.offset_not_available):
    """No record is as young as that; ask again when newer ones have come."""
class UnsupportedCompressionType(KafkaError, code=ErrorCode.unsupported_compression_type):
    """The version of the request is too old for this compression type."""
class ElectionNotNeeded(KafkaError, code=ErrorCode.election_not_needed):
    """The partition has the leader that was asked for."""
class NoReassignmentInProgress(KafkaError, code=ErrorCode.no_reassignment_in_progress):
    """The partition is not being reassigned."""
class InvalidRecord(KafkaError, code=ErrorCode.invalid_record):
    """A record or the header of its batch is not valid."""
class ProducerFenced(KafkaError, code=ErrorCode.producer_fenced):
    """A newer producer uses the same transactional id."""
class InvalidUpdateVersion(KafkaError, code=ErrorCode.invalid_update_version):
    """The feature does not exist or cannot have that level."""
class FeatureUpdateFailed(KafkaError, code=ErrorCode.feature_update_failed):
    """The level of the feature could not be changed."""
class UnknownTopicId(KafkaError, code=ErrorCode.unknown_topic_id):
    """No topic has this id here."""
class TransactionalIdNotFound(KafkaError, code=ErrorCode.transactional_id_not_found):
    """The transactional id does not exist here."""
class FetchSessionTopicIdError(KafkaError, code=ErrorCode.fetch_session_topic_id_error):
    """The fetch session was opened with topic names and continued with ids, or the other way."""
class MismatchedEndpointType(KafkaError, code=ErrorCode.mismatched_endpoint_type):
    """The request is for another kind of endpoint than this broker listener."""
class UnsupportedEndpointType(KafkaError, code=ErrorCode.unsupported_endpoint_type):
    """The kind of endpoint does not exist."""
class ThrottlingQuotaExceeded(KafkaError, code=ErrorCode.throttling_quota_exceeded):
    """The client asks more often than it may."""
class UnknownSubscriptionId(KafkaError, code=ErrorCode.unknown_subscription_id):
    """The client pushed for a subscription that has changed."""
class TelemetryTooLarge(KafkaError, code=ErrorCode.telemetry_too_large):
    """The client pushed more metrics at once than it may."""
class TransactionAbortable(KafkaError, code=ErrorCode.transaction_abortable):
    """The transaction cannot go on; abort it and try again."""
class InvalidRecordState(KafkaError, code=ErrorCode.invalid_record_state):
    """A record is in a state that does not allow this; perhaps its lock has run out."""
class ShareSessionNotFound(KafkaError, code=ErrorCode.share_session_not_found):
    """The share session does not exist."""
class InvalidShareSessionEpoch(KafkaError, code=ErrorCode.invalid_share_session_epoch):
    """The epoch is not the next one of this share session."""
class FencedStateEpoch(KafkaError, code=ErrorCode.fenced_state_epoch):
    """The state epoch of the client is older than that of the share partition."""
class ShareSessionLimitReached(KafkaError, code=ErrorCode.share_session_limit_reached):
    """There are as many share sessions as group.share.max.share.sessions allows."""
class InvalidRegularExpression(KafkaError, code=ErrorCode.invalid_regular_expression):
    """The regular expression is not valid."""
# fmt: on
