"""DeleteRecords (21), versions 0-2: deletes the records below an offset, for readers at once.

Retention deletes the files later. An offset of -1 means all records.

Differs from Kafka: records of the broker's own topics cannot be deleted, whatever their policy.
"""

from collections.abc import Sequence
from typing import Any, Final

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DELETE, TOPIC
from siltstone.broker.services import RequestContext
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_UNKNOWN: Final = errors.UnknownTopicOrPartition.code
_INTERNAL: Final = errors.InvalidTopic.code


async def delete(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Raise the log start offset of partitions."""
    share = LoopShare()
    results = []
    for name, partitions in request.topics:
        answer = _delete_some if context.may(DELETE, TOPIC, name) else _refuse
        rows = []
        for some in share.pieces(partitions):
            rows += answer(context, name, some)
            await share.rest()
        results.append(DeleteRecordsTopicResult(name, rows))
    return DeleteRecordsResponse(topics=results)


def _refuse(_: RequestContext, __: str, wanted: Sequence[DeleteRecordsPartition]) -> list[Any]:
    return [(index, -1, errors.TopicAuthorizationFailed.code) for index, _ in wanted]


def _delete_some(
    context: RequestContext, name: str, wanted: Sequence[DeleteRecordsPartition]
) -> list[Any]:
    """Delete records of some partitions of a topic as it is now."""
    topic = context.services.topics.topics.get(name)
    logs = () if topic is None else topic.logs
    is_refused = topic is not None and topic.is_internal
    count = len(logs)
    rows: list[Any] = []
    for index, offset in wanted:
        log = logs[index] if 0 <= index < count else None
        if log is None:
            rows.append((index, -1, _UNKNOWN))
            continue
        if is_refused:
            rows.append((index, -1, _INTERNAL))
            continue
        before = log.end.log_start_offset
        try:
            start = log.delete_records(offset)
        except KafkaError as error:
            rows.append((index, -1, error.code))
            continue
        if start != before:
            log.dismiss_watchers()
        rows.append((index, start, 0))
    return rows
