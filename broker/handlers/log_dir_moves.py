"""AlterReplicaLogDirs (34), versions 1-2: partitions move between log directories (KIP-113).

v2 flexible. Done in the background: DescribeLogDirs tells how far it is.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from protocol.errors import ErrorCode, KafkaError
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from broker.context import RequestContext
    from protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest

log = logging.getLogger(__name__)


async def alter(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move partitions, each by itself; of a partition named twice the last one counts."""
    paths = {
        TopicPartition(topic.name, index): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic_partition, path in paths.items():
        result = AlterReplicaLogDirPartitionResult(
            partition_index=topic_partition.partition,
            error_code=await _alter(context, topic_partition, path),
        )
        results.setdefault(topic_partition.topic, []).append(result)
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(name, partitions) for name, partitions in results.items()
        ]
    )


async def _alter(context: RequestContext, topic_partition: TopicPartition, path: str) -> ErrorCode:
    try:
        await context.rooms.moves.alter(topic_partition, path)
    except KafkaError as error:
        log.warning("partition is not moved partition=%s: %s", topic_partition, error)
        return error.code
    return ErrorCode.none
