"""Guards of what producers and transactions ask."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.broker.security.gate.rows import (
    CLUSTER,
    GROUP,
    TOPIC,
    TRANSACTION,
    ByRow,
    Handler,
    Rows,
    then,
)
from siltstone.broker.security.requirements import REQUIREMENTS
from siltstone.protocol.errors import ErrorCode
from siltstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from siltstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from siltstone.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from siltstone.protocol.messages.end_txn import EndTxnResponse
from siltstone.protocol.messages.init_producer_id import InitProducerIdResponse
from siltstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from siltstone.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from siltstone.protocol.names import INTERNAL_TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable

    from siltstone.broker.net._dispatch_kernels import RequestContext
    from siltstone.broker.security.rights import Rights

_FIRST_OF_BROKERS: Final = 4
_NOT_ATTEMPTED: Final = int(ErrorCode.operation_not_attempted)
_UNKNOWN: Final = int(ErrorCode.unknown_topic_or_partition)

_IN_TRANSACTION, _IN_TWO_PHASES, _IDEMPOTENT, _ANY_TOPIC = REQUIREMENTS[22]


def init_producer_id(
    rights: Rights, context: RequestContext, request: Any, handler: Handler
) -> Any:
    """Give an id to who may write: in a transaction, or else somewhere."""
    name = request.transactional_id
    code = 0
    if name is not None:
        may = rights.may(*_IN_TRANSACTION[:2], name) and (
            not request.enable2_pc or rights.may(*_IN_TWO_PHASES[:2], name)
        )
        code = 0 if may else TRANSACTION
    elif not rights.sees(*_IDEMPOTENT[:2]) and not rights.may_any(*_ANY_TOPIC[:2]):
        code = CLUSTER
    if not code:
        return handler(context, request)
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


_BY_BROKERS, _ADDING, _ADDED = REQUIREMENTS[24]


def add_partitions(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Add partitions of topics that may be written, all or none of them."""
    if context.version >= _FIRST_OF_BROKERS:
        if rights.may(*_BY_BROKERS[:2]):
            return handler(context, request)
        return AddPartitionsToTxnResponse(error_code=CLUSTER)
    topics = request.v3_and_below_topics
    if not rights.may(*_ADDING[:2], request.v3_and_below_transactional_id):
        return _answer_adding(topics, lambda _, __: TRANSACTION)
    may = {
        row.name: row.name not in INTERNAL_TOPICS and rights.may(*_ADDED[:2], row.name)
        for row in topics
    }
    if all(may.values()):
        return handler(context, request)
    known = context.rooms.topics

    def judge(name: str, index: int) -> int:
        if not may[name]:
            return TOPIC
        return _UNKNOWN if known.get_log(name, index) is None else _NOT_ATTEMPTED

    return _answer_adding(topics, judge)


def _answer_adding(topics: Any, judge: Callable[[str, int], int]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                row.name,
                [
                    AddPartitionsToTxnPartitionResult(index, judge(row.name, index))
                    for index in row.partitions
                ],
            )
            for row in topics
        ]
    )


_ADDS_OFFSETS, _OF_GROUP = REQUIREMENTS[25]


def add_offsets(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Add the offsets of a group that may be read."""
    code = 0
    if not rights.may(*_ADDS_OFFSETS[:2], request.transactional_id):
        code = TRANSACTION
    elif not rights.may(*_OF_GROUP[:2], request.group_id):
        code = GROUP
    return AddOffsetsToTxnResponse(error_code=code) if code else handler(context, request)


def end(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """End a transaction that may be written."""
    if rights.may(*REQUIREMENTS[26][0][:2], request.transactional_id):
        return handler(context, request)
    return EndTxnResponse(error_code=TRANSACTION)


_ALTERS, _ACTS = REQUIREMENTS[27]


def write_markers(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Write markers for brokers and administrators."""
    if rights.sees(*_ALTERS[:2]) or rights.may(*_ACTS[:2]):
        return handler(context, request)
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, CLUSTER)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def _refuse_commit(code: int) -> Callable[[Any], TxnOffsetCommitResponseTopic]:
    return lambda row: TxnOffsetCommitResponseTopic(
        row.name, [TxnOffsetCommitResponsePartition(each[0], code) for each in row.partitions]
    )


_COMMITS, _FOR_GROUP, _COMMITTED = REQUIREMENTS[28]
_OFFSETS: Final = ByRow(
    _COMMITTED, Rows("topics", "topics", TxnOffsetCommitResponse), _refuse_commit(TOPIC)
)


def offset_commit(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Commit in a transaction that may be written, for a group and topics that may be read."""
    if not rights.may(*_COMMITS[:2], request.transactional_id):
        return _OFFSETS.refuse_all(request, _refuse_commit(TRANSACTION))
    if not rights.may(*_FOR_GROUP[:2], request.group_id):
        return _OFFSETS.refuse_all(request, _refuse_commit(GROUP))
    return _OFFSETS.guard(rights, context, request, handler)


_DESCRIBES, _DESCRIBES_TOPICS = REQUIREMENTS[65]
_DESCRIBED: Final = Rows("transactional_ids", "transaction_states", DescribeTransactionsResponse)


def describe(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """Describe transactions, and in them the topics, that may be described."""
    refused = {
        place: TransactionState(TRANSACTION, name)
        for place, name in enumerate(request.transactional_ids)
        if not rights.may(*_DESCRIBES[:2], name)
    }

    def hide_topics(answer: Any) -> Any:
        rows = [
            row._replace(
                topics=[each for each in row.topics if rights.sees(*_DESCRIBES_TOPICS[:2], each[0])]
            )
            for row in answer.transaction_states
        ]
        return answer._replace(transaction_states=rows)

    return then(_DESCRIBED.serve(context, request, handler, refused), hide_topics)


def list_all(rights: Rights, context: RequestContext, request: Any, handler: Handler) -> Any:
    """List the transactional ids that may be described."""
    need = REQUIREMENTS[66][0]
    return then(
        handler(context, request),
        lambda answer: answer._replace(
            transaction_states=[
                each for each in answer.transaction_states if rights.sees(*need[:2], each[0])
            ]
        ),
    )
