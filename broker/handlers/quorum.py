"""DescribeQuorum (55), versions 0-2: a quorum of one (KIP-595).

v1 times of replicas (KIP-836) · v2 directory ids, nodes and messages (KIP-853).

Differs from Kafka: there is no metadata log; its offsets are the count of the catalogue's writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.describe_quorum.v2.response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

from protocol.errors import ErrorCode, UnknownTopicOrPartition
from protocol.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest

    from broker.context import RequestContext

_EPOCH = 1


def describe(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Describe this broker as the only voter; anything but the one partition is unknown."""
    asked = [
        (each.topic_name, part.partition_index)
        for each in request.topics
        for part in each.partitions
    ]
    if asked != [(CLUSTER_METADATA_TOPIC, 0)]:
        return DescribeQuorumResponse(
            error_code=ErrorCode.none,
            error_message=None,
            topics=tuple(
                TopicData(
                    topic_name=topic.topic_name,
                    partitions=tuple(_unknown(each.partition_index) for each in topic.partitions),
                )
                for topic in request.topics
            ),
            nodes=(),
        )
    node_id = context.rooms.identity.node_id
    host, port = context.advertised
    return DescribeQuorumResponse(
        error_code=ErrorCode.none,
        error_message=None,
        topics=(TopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=(_quorum(context),)),),
        nodes=(
            Node(
                node_id=node_id,
                listeners=(Listener(name=context.listener, host=host, port=port),),
            ),
        ),
    )


def _quorum(context: RequestContext) -> PartitionData:
    node_id = context.rooms.identity.node_id
    end_offset = context.rooms.topics.generation
    now_ms = context.rooms.clock.now_ms()
    return PartitionData(
        partition_index=0,
        error_code=ErrorCode.none,
        error_message=None,
        leader_id=node_id,
        leader_epoch=_EPOCH,
        high_watermark=end_offset,
        current_voters=(
            ReplicaState(
                replica_id=node_id,
                replica_directory_id=None,
                log_end_offset=end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            ),
        ),
        observers=(),
    )


def _unknown(index: int) -> PartitionData:
    error = UnknownTopicOrPartition()
    return PartitionData(
        partition_index=index,
        error_code=error.code,
        error_message=error.message,
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )
