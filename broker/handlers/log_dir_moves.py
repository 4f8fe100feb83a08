"""AlterReplicaLogDirs (34), versions 1-2: partitions move between log directories (KIP-113).

v2 flexible. The moves run in the background: DescribeLogDirs shows their progress.
"""

import logging
from typing import Any

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import ALTER, CLUSTER
from siltstone.broker.services import RequestContext
from siltstone.protocol.errors import ClusterAuthorizationFailed, ErrorCode, KafkaError
from siltstone.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
)
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

_TOLD = 10
"""How many refused partitions of a request get a log line each; the others are only counted."""


async def alter(
    context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin to move partitions, each independently; if one is named twice, the last counts."""
    if not context.may(ALTER, CLUSTER):
        return await _refuse(request)
    share = LoopShare()
    paths = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                paths[TopicPartition(topic.name, index)] = directory.path
                await share.rest()
            await share.rest()
        await share.rest()
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    refused = 0
    for topic_partition, path in paths.items():
        await share.rest()
        code = ErrorCode.none
        try:
            await context.services.moves.alter(topic_partition, path)
        except KafkaError as error:
            code = error.code
            refused += 1
            if refused <= _TOLD:
                _logger.warning("partition is not moved partition=%s: %s", topic_partition, error)
        result = AlterReplicaLogDirPartitionResult(topic_partition.partition, code)
        results.setdefault(topic_partition.topic, []).append(result)
    if refused > _TOLD:
        _logger.warning("%d more partitions are not moved peer=%s", refused - _TOLD, context.peer)
    topics: list[Any] = list(results.items())
    return AlterReplicaLogDirsResponse(results=topics)


async def _refuse(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    code = ClusterAuthorizationFailed.code
    share = LoopShare()
    results: list[Any] = []
    for directory in request.dirs:
        for topic in directory.topics:
            rows = await share.some(topic.partitions, lambda some: [(each, code) for each in some])
            results.append((topic.name, rows))
        await share.rest()
    return AlterReplicaLogDirsResponse(results=results)
