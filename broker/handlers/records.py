"""DeleteRecords (21), versions 0-2: records below an offset are gone for readers at once.

Their files go with the next retention. An offset of -1 means all there is.

Differs from Kafka: records of the broker's own topics cannot be deleted, whatever their policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.protocol.errors import ErrorCode, InvalidTopic, KafkaError, UnknownTopicOrPartition
from siltstone.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from siltstone.protocol.names import is_internal

if TYPE_CHECKING:
    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.protocol.messages.delete_records import (
        DeleteRecordsPartition,
        DeleteRecordsRequest,
    )


def delete(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Raise the log start offset of partitions."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name, [_delete(context, topic.name, each) for each in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(
    context: RequestContext, topic: str, wanted: DeleteRecordsPartition
) -> DeleteRecordsPartitionResult:
    code, low_watermark = ErrorCode.none, -1
    rooms = context.rooms
    try:
        log = rooms.topics.logs.get((topic, wanted.partition_index))
        if log is None:
            raise UnknownTopicOrPartition
        if is_internal(topic):
            raise InvalidTopic
        low_watermark = log.delete_records(wanted.offset)
        log.dismiss_watchers()
    except KafkaError as error:
        code = error.code
    return DeleteRecordsPartitionResult(
        partition_index=wanted.partition_index, low_watermark=low_watermark, error_code=code
    )
