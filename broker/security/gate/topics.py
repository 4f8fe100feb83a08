"""Guards of what is asked about topics by name or id, one row a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate.rows import MESSAGES, TOPIC, ByRow, Handler, Rows, then, twice
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.errors import InvalidTopic
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from siltstone.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from siltstone.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from siltstone.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from siltstone.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from siltstone.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from siltstone.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from siltstone.protocol.names import check_topic_name
from siltstone.protocol.topic_key import FIRST_DELETE_BY_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights

_MESSAGE: Final = MESSAGES[TOPIC]


def _invalid(names: Sequence[str]) -> set[str]:
    """Return the names that no topic can have."""
    found = set()
    for name in names:
        try:
            check_topic_name(name)
        except InvalidTopic:
            found.add(name)
    return found


list_offsets: Final = ByRow(
    REQUIREMENTS[2][0],
    Rows("topics", "topics", ListOffsetsResponse),
    lambda row: ListOffsetsTopicResponse(
        row.name, [ListOffsetsPartitionResponse(each[0], TOPIC) for each in row.partitions]
    ),
).guard

delete_records: Final = ByRow(
    REQUIREMENTS[21][0],
    Rows("topics", "topics", DeleteRecordsResponse),
    lambda row: DeleteRecordsTopicResult(
        row.name, [DeleteRecordsPartitionResult(each[0], -1, TOPIC) for each in row.partitions]
    ),
).guard

create_partitions: Final = ByRow(
    REQUIREMENTS[37][0],
    Rows("topics", "results", CreatePartitionsResponse),
    lambda row: CreatePartitionsTopicResult(row.name, TOPIC, None),
    faulty=twice,
).guard

describe_producers: Final = ByRow(
    REQUIREMENTS[61][0],
    Rows("topics", "topics", DescribeProducersResponse),
    lambda row: TopicResponse(
        row.name, [PartitionResponse(each, TOPIC, _MESSAGE) for each in row.partition_indexes]
    ),
    faulty=_invalid,
).guard

_CLUSTER_ACTION, _DESCRIBE_EPOCH = REQUIREMENTS[23]
_EPOCHS: Final = ByRow(
    _DESCRIBE_EPOCH,
    Rows("topics", "topics", OffsetForLeaderEpochResponse),
    lambda row: OffsetForLeaderTopicResult(
        row.topic, [EpochEndOffset(TOPIC, each[0]) for each in row.partitions]
    ),
    name="topic",
)


def leader_epochs(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Brokers may ask about every topic, others about those that they may describe."""
    if rights.sees(*_CLUSTER_ACTION[:2]):
        return handler(context, request)
    return _EPOCHS.guard(rights, context, request, handler)


_CREATE_ALL, _CREATE, _DESCRIBE_CONFIGS = REQUIREMENTS[19]
_CREATED: Final = ByRow(
    _CREATE,
    Rows("topics", "topics", CreateTopicsResponse),
    lambda row: CreatableTopicResult(
        row.name, error_code=TOPIC, error_message="Authorization failed."
    ),
    faulty=twice,
)


def create_topics(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Make what may be made; tell the settings of what may be told."""
    if rights.sees(*_CREATE_ALL[:2]):
        answer = handler(context, request)
    else:
        answer = _CREATED.guard(rights, context, request, handler)
    return then(
        answer,
        lambda done: done._replace(topics=[_hide_configs(rights, each) for each in done.topics]),
    )


def _hide_configs(rights: Rights, row: CreatableTopicResult) -> CreatableTopicResult:
    if row.error_code or rights.sees(*_DESCRIBE_CONFIGS[:2], row.name):
        return row
    return row._replace(
        topic_config_error_code=TOPIC, num_partitions=-1, replication_factor=-1, configs=()
    )


_DELETE_ALL, _DESCRIBE, _DELETE = REQUIREMENTS[20]
_BY_STATE: Final = Rows("topics", "responses", DeleteTopicsResponse)
_BY_NAME: Final = Rows("topic_names", "responses", DeleteTopicsResponse)


def delete_topics(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Delete what may be deleted; the name of one that may not be described is not told."""
    if rights.sees(*_DELETE_ALL[:2]):
        return handler(context, request)
    by_state = context.version >= FIRST_DELETE_BY_ID
    rows = _BY_STATE if by_state else _BY_NAME
    doubled = twice(rows.of(request))
    refused: dict[int, DeletableTopicResult] = {}
    for place, row in enumerate(rows.of(request)):
        refusal = _judge_deletion(rights, context, row if by_state else DeleteTopicState(row))
        if refusal is not None and row not in doubled:
            refused[place] = refusal
    return rows.serve(context, request, handler, refused)


def _judge_deletion(
    rights: Rights, context: RequestContext, wanted: DeleteTopicState
) -> DeletableTopicResult | None:
    name = wanted.name
    if (name is None) == (wanted.topic_id == NO_ID):
        return None  # nonsense, which the handler refuses
    if name is None:
        topic = context.rooms.topics.by_id.get(wanted.topic_id)
        if topic is None or rights.may(*_DELETE[:2], topic.name):
            return None
        told = topic.name if rights.sees(*_DESCRIBE[:2], topic.name) else None
        return DeletableTopicResult(told, wanted.topic_id, TOPIC, _MESSAGE)
    if name not in context.rooms.topics.topics:
        may = rights.may(*_DESCRIBE[:2], name)  # and it is told that there is none
    else:
        may = rights.may(*_DELETE[:2], name) and rights.may(*_DESCRIBE[:2], name)
    return None if may else DeletableTopicResult(name, NO_ID, TOPIC, _MESSAGE)
