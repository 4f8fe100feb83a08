"""Checks that partitions are placed once each on this broker (Kafka: ReplicaPlacer)."""

from collections.abc import Collection, Sequence

from siltstone.protocol.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    PolicyViolation,
)

MAX_PARTITIONS = 10_000
"""Partitions that one request may add, as in Kafka: more would be a very long wait."""


def check_total(partitions: int) -> None:
    """Refuse a request that would add more partitions than one request may.

    Raises:
        PolicyViolation: The topics of the request together would add too many.
    """
    if partitions > MAX_PARTITIONS:
        raise PolicyViolation(
            f"{partitions} partitions are too many for one request, {MAX_PARTITIONS} may be"
        )


def check_replicas(replicas: Sequence[int], node_id: int) -> None:
    """Refuse the replicas of one partition unless they are this broker alone.

    Raises:
        InvalidReplicaAssignment: There is no replica, one is named twice, or a broker does not
            exist.
    """
    if not replicas:
        raise InvalidReplicaAssignment("the assignment of a partition names no broker")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"the assignment {list(replicas)} names a broker twice")
    for broker_id in replicas:
        if broker_id != node_id:
            raise InvalidReplicaAssignment(
                f"the assignment names broker {broker_id}; there is only broker {node_id}"
            )


def check_indexes(indexes: Collection[int]) -> None:
    """Refuse partitions unless their numbers begin with 0, without gaps and each once.

    Raises:
        InvalidReplicaAssignment: A number is named twice or missing.
    """
    if len(set(indexes)) < len(indexes):
        raise InvalidReplicaAssignment("the assignment names a partition twice")
    if set(indexes) != set(range(len(indexes))):
        raise InvalidReplicaAssignment("the assignment must number partitions from 0, without gaps")


def check_replication_factor(replication_factor: int) -> None:
    """Refuse more replicas than there are brokers; -1 stands for the default.

    Raises:
        InvalidReplicationFactor: The factor is neither 1 nor -1.
    """
    if replication_factor == 0 or replication_factor < -1:
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} must be at least 1, or -1 for the default"
        )
    if replication_factor > 1:
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} needs as many brokers; this one is alone, "
            "ask for 1 or -1"
        )
