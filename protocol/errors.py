"""Errors of the protocol: a class is a Kafka error code (names are those of Kafka's exceptions).

The first line of a class is what a client reads as ``error_message`` when the place that raised it
had nothing more exact to say. `ProtocolError` is no Kafka code: it ends the connection. The file
is long because it is the table of codes.
"""
# ruff: noqa: N818  # Kafka's names, without "Exception", are what operators search for

from typing import ClassVar

from kio.schema.errors import ErrorCode


class ProtocolError(Exception):
    """The bytes of a frame are not what the protocol allows; the connection is closed."""


class KafkaError(Exception):
    """A refusal that a client sees: ``code`` on the wire, ``message`` for its log.

    ``own_message`` is None where there is no more to say than what the code means; Kafka sends no
    text then where an answer has room for one.
    ``record_errors`` names the records of a refused batch: (index in the batch, what is wrong);
    ``counted_as`` says which of Kafka's meters counts it, if one does.
    """

    code: ClassVar[ErrorCode]

    def __init__(
        self,
        message: str | None = None,
        *,
        record_errors: tuple[tuple[int, str], ...] = (),
        counted_as: str = "",
    ) -> None:
        self.own_message = message
        self.message = message or self.__doc__ or self.code.name
        self.record_errors = record_errors
        self.counted_as = counted_as
        super().__init__(self.message)


class UnknownServerError(KafkaError):
    """The broker met a fault of its own; its log has the details."""

    code = ErrorCode.unknown_server_error


class OffsetOutOfRange(KafkaError):
    """The offset is below the log start offset or above the log end offset."""

    code = ErrorCode.offset_out_of_range


class CorruptMessage(KafkaError):
    """The batch is damaged: its checksum or its length does not match its bytes."""

    code = ErrorCode.corrupt_message


class UnknownTopicOrPartition(KafkaError):
    """There is no such topic or partition here."""

    code = ErrorCode.unknown_topic_or_partition


class LeaderNotAvailable(KafkaError):
    """The topic is being created; ask again in a moment."""

    code = ErrorCode.leader_not_available


class NotLeaderOrFollower(KafkaError):
    """The partition cannot be served by this broker now."""

    code = ErrorCode.not_leader_or_follower


class ReplicaNotAvailable(KafkaError):
    """The partition has no replica on this broker."""

    code = ErrorCode.replica_not_available


class RecordTooLarge(KafkaError):
    """The batch is larger than max.message.bytes of the topic."""

    code = ErrorCode.message_too_large


class CoordinatorLoadInProgress(KafkaError):
    """The coordinator is still reading its topic; ask again in a moment."""

    code = ErrorCode.coordinator_load_in_progress


class CoordinatorNotAvailable(KafkaError):
    """The coordinator cannot write its topic now; ask again."""

    code = ErrorCode.coordinator_not_available


class NotCoordinator(KafkaError):
    """This broker does not coordinate that group or transaction."""

    code = ErrorCode.not_coordinator


class InvalidTopic(KafkaError):
    """The topic name is illegal, collides with another one, or is reserved."""

    code = ErrorCode.invalid_topic_exception


class RecordListTooLarge(KafkaError):
    """The batch is larger than segment.bytes of the topic."""

    code = ErrorCode.record_list_too_large


class NotEnoughReplicas(KafkaError):
    """The transaction could not be verified now; send the batch again."""

    code = ErrorCode.not_enough_replicas


class InvalidRequiredAcks(KafkaError):
    """The value of acks must be -1, 0 or 1."""

    code = ErrorCode.invalid_required_acks


class TopicAuthorizationFailed(KafkaError):
    """The principal may not do this to the topic."""

    code = ErrorCode.topic_authorization_failed


class GroupAuthorizationFailed(KafkaError):
    """The principal may not do this to the group."""

    code = ErrorCode.group_authorization_failed


class ClusterAuthorizationFailed(KafkaError):
    """The principal may not do this to the cluster."""

    code = ErrorCode.cluster_authorization_failed


class InvalidTimestamp(KafkaError):
    """The timestamp of a record is outside what the topic allows."""

    code = ErrorCode.invalid_timestamp


class IllegalSaslState(KafkaError):
    """Nobody logs in to this broker; set security.protocol=PLAINTEXT in the client."""

    code = ErrorCode.illegal_sasl_state


class UnsupportedVersion(KafkaError):
    """The broker does not serve this version of the request."""

    code = ErrorCode.unsupported_version


class TopicAlreadyExists(KafkaError):
    """A topic with this name exists already."""

    code = ErrorCode.topic_already_exists


class InvalidPartitions(KafkaError):
    """The number of partitions is not possible."""

    code = ErrorCode.invalid_partitions


class InvalidReplicationFactor(KafkaError):
    """The replication factor is not possible: this cluster is one broker."""

    code = ErrorCode.invalid_replication_factor


class InvalidReplicaAssignment(KafkaError):
    """The replica assignment is not possible: this cluster is one broker."""

    code = ErrorCode.invalid_replica_assignment


class InvalidConfig(KafkaError):
    """A setting is unknown or its value is not allowed."""

    code = ErrorCode.invalid_config


class InvalidRequest(KafkaError):
    """The request contradicts itself or asks for something that does not exist."""

    code = ErrorCode.invalid_request


class PolicyViolation(KafkaError):
    """The settings of the topic forbid this."""

    code = ErrorCode.policy_violation


class OutOfOrderSequence(KafkaError):
    """The first sequence of the batch does not follow the last one of its producer."""

    code = ErrorCode.out_of_order_sequence_number


class InvalidProducerEpoch(KafkaError):
    """A newer epoch of this producer has written to the partition."""

    code = ErrorCode.invalid_producer_epoch


class InvalidTxnState(KafkaError):
    """The transaction is in a state that does not allow this."""

    code = ErrorCode.invalid_txn_state


class InvalidProducerIdMapping(KafkaError):
    """The producer id does not belong to this transactional id."""

    code = ErrorCode.invalid_producer_id_mapping


class InvalidTransactionTimeout(KafkaError):
    """The time-out must be positive and at most transaction.max.timeout.ms."""

    code = ErrorCode.invalid_transaction_timeout


class ConcurrentTransactions(KafkaError):
    """The transaction before is still being completed; ask again."""

    code = ErrorCode.concurrent_transactions


class TransactionCoordinatorFenced(KafkaError):
    """The transaction marker comes from a coordinator that has been replaced."""

    code = ErrorCode.transaction_coordinator_fenced


class TransactionalIdAuthorizationFailed(KafkaError):
    """The principal may not use this transactional id."""

    code = ErrorCode.transactional_id_authorization_failed


class OperationNotAttempted(KafkaError):
    """Nothing was done, since another part of the request failed."""

    code = ErrorCode.operation_not_attempted


class KafkaStorageError(KafkaError):
    """A log directory failed; the partitions in it are offline."""

    code = ErrorCode.kafka_storage_error


class LogDirNotFound(KafkaError):
    """There is no such log directory."""

    code = ErrorCode.log_dir_not_found


class FetchSessionIdNotFound(KafkaError):
    """There is no such fetch session; it was evicted or the broker was restarted."""

    code = ErrorCode.fetch_session_id_not_found


class InvalidFetchSessionEpoch(KafkaError):
    """The epoch is not the next one of this fetch session."""

    code = ErrorCode.invalid_fetch_session_epoch


class TopicDeletionDisabled(KafkaError):
    """Topics cannot be deleted: delete.topic.enable is false."""

    code = ErrorCode.topic_deletion_disabled


class FencedLeaderEpoch(KafkaError):
    """The leader epoch of the client is older than that of the partition."""

    code = ErrorCode.fenced_leader_epoch


class UnknownLeaderEpoch(KafkaError):
    """The leader epoch of the client is newer than that of the partition."""

    code = ErrorCode.unknown_leader_epoch


class UnsupportedCompressionType(KafkaError):
    """The version of the request is too old for this compression type."""

    code = ErrorCode.unsupported_compression_type


class ElectionNotNeeded(KafkaError):
    """The partition has the leader that was asked for."""

    code = ErrorCode.election_not_needed


class NoReassignmentInProgress(KafkaError):
    """The partition is not being reassigned."""

    code = ErrorCode.no_reassignment_in_progress


class InvalidRecord(KafkaError):
    """A record or the header of its batch is not valid."""

    code = ErrorCode.invalid_record


class ProducerFenced(KafkaError):
    """A newer producer uses the same transactional id."""

    code = ErrorCode.producer_fenced


class InvalidUpdateVersion(KafkaError):
    """The feature does not exist or cannot have that level."""

    code = ErrorCode.invalid_update_version


class FeatureUpdateFailed(KafkaError):
    """The level of the feature could not be changed."""

    code = ErrorCode.feature_update_failed


class UnknownTopicId(KafkaError):
    """There is no topic with this id here."""

    code = ErrorCode.unknown_topic_id


class InconsistentTopicId(KafkaError):
    """The topic was created anew: its id is another one than that of the request."""

    code = ErrorCode.inconsistent_topic_id


class InconsistentClusterId(KafkaError):
    """The cluster id of the request is not that of this cluster."""

    code = ErrorCode.inconsistent_cluster_id


class TransactionalIdNotFound(KafkaError):
    """There is no such transactional id here."""

    code = ErrorCode.transactional_id_not_found


class FetchSessionTopicIdError(KafkaError):
    """The fetch session was opened with topic names and continued with ids, or the other way."""

    code = ErrorCode.fetch_session_topic_id_error


class MismatchedEndpointType(KafkaError):
    """The request is for another kind of endpoint than this broker listener."""

    code = ErrorCode.mismatched_endpoint_type


class UnsupportedEndpointType(KafkaError):
    """There is no such kind of endpoint."""

    code = ErrorCode.unsupported_endpoint_type


class TransactionAbortable(KafkaError):
    """The transaction cannot go on; abort it and try again."""

    code = ErrorCode.transaction_abortable


class InvalidRegularExpression(KafkaError):
    """The regular expression is not valid."""

    code = ErrorCode.invalid_regular_expression
