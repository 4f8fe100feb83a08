"""DescribeQuorum (55), versions 0-2: a quorum of one (KIP-595).

v1 times of replicas (KIP-836) · v2 directory ids, nodes and messages (KIP-853).

Differs from Kafka: there is no metadata log: the offsets in the answer are the number of the
catalogue's writes, and the node has the listener that received the request.
"""

from siltstone.broker.handlers.authorized import CLUSTER_REFUSED
from siltstone.broker.security.rights import CLUSTER, DESCRIBE
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import UnknownTopicOrPartition
from siltstone.protocol.messages import describe_quorum
from siltstone.protocol.names import CLUSTER_METADATA_TOPIC

_EPOCH = 1


def describe(
    context: RequestContext, request: describe_quorum.DescribeQuorumRequest
) -> describe_quorum.DescribeQuorumResponse:
    """Describe this broker as the only voter; all partitions but the quorum's are unknown."""
    if not context.may(DESCRIBE, CLUSTER):
        return describe_quorum.DescribeQuorumResponse(**CLUSTER_REFUSED)
    asked = [
        (each.topic_name, part.partition_index)
        for each in request.topics
        for part in each.partitions
    ]
    if asked != [(CLUSTER_METADATA_TOPIC, 0)]:
        return describe_quorum.DescribeQuorumResponse(
            error_message="",
            topics=[
                describe_quorum.ResponseTopicData(
                    topic.topic_name, [_unknown(each.partition_index) for each in topic.partitions]
                )
                for topic in request.topics
            ],
        )
    node_id = context.services.identity.node_id
    host, port = context.advertised
    return describe_quorum.DescribeQuorumResponse(
        error_message="",
        topics=[describe_quorum.ResponseTopicData(CLUSTER_METADATA_TOPIC, [_quorum(context)])],
        nodes=[
            describe_quorum.Node(node_id, [describe_quorum.Listener(context.listener, host, port)])
        ],
    )


def _quorum(context: RequestContext) -> describe_quorum.ResponsePartitionData:
    node_id = context.services.identity.node_id
    end_offset = context.services.topics.generation
    now_ms = context.services.clock.now_ms()
    return describe_quorum.ResponsePartitionData(
        partition_index=0,
        error_message="",
        leader_id=node_id,
        leader_epoch=_EPOCH,
        high_watermark=end_offset,
        current_voters=[
            describe_quorum.ReplicaState(
                replica_id=node_id,
                log_end_offset=end_offset,
                last_fetch_timestamp=now_ms,
                last_caught_up_timestamp=now_ms,
            )
        ],
    )


def _unknown(index: int) -> describe_quorum.ResponsePartitionData:
    error = UnknownTopicOrPartition()
    return describe_quorum.ResponsePartitionData(index, error.code, error.message)
