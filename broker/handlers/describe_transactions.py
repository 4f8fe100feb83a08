"""DescribeTransactions (65), version 0, and ListTransactions (66), versions 0-2 (KIP-664).

ListTransactions: v1 those that are open for longer (KIP-994) · v2 those whose id matches a pattern
(KIP-1152).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.describe_transactions.v0.response import (
    DescribeTransactionsResponse,
    TopicData,
)
from kio.schema.describe_transactions.v0.response import (
    TransactionState as DescribedTransaction,
)
from kio.schema.list_transactions.v2.response import ListTransactionsResponse
from kio.schema.list_transactions.v2.response import TransactionState as ListedTransaction

from broker.regular_expression import compile_expression
from broker.transactions.transaction import TransactionState
from protocol.coordinator.transaction_records import group_by_topic
from protocol.errors import ErrorCode, KafkaError
from protocol.kio_messages import NO_THROTTLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
    from kio.schema.list_transactions.v2.request import ListTransactionsRequest

    from broker.context import RequestContext
    from broker.transactions.transaction import Transaction

_STATES = {state.title: state for state in TransactionState}


class _NoTime:
    """What kio writes as -1 ms: the field is not nullable there."""

    @staticmethod
    def timestamp() -> float:
        return -0.001


def describe(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return where each transactional id stands."""
    return DescribeTransactionsResponse(
        throttle_time=NO_THROTTLE,
        transaction_states=tuple(_describe(context, each) for each in request.transactional_ids),
    )


def list_all(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """Return the transactional ids that every filter lets through."""
    unknown = tuple(name for name in request.state_filters if name not in _STATES)
    try:
        matches = _pattern(request.transactional_id_pattern)
        found = [
            ListedTransaction(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
            for transactional_id, transaction in context.rooms.transactions.list_all()
            if _is_wanted(transaction, request, context.rooms.clock.now_ms())
            and matches(transactional_id)
        ]
    except KafkaError as error:
        return ListTransactionsResponse(
            throttle_time=NO_THROTTLE,
            error_code=error.code,
            unknown_state_filters=(),
            transaction_states=(),
        )
    return ListTransactionsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        unknown_state_filters=unknown,
        transaction_states=tuple(found),
    )


def _describe(context: RequestContext, transactional_id: str) -> DescribedTransaction:
    try:
        found = context.rooms.transactions.describe(transactional_id)
    except KafkaError as error:
        return DescribedTransaction(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout=timedelta(0),
            transaction_start_time=_start_of(0),
            producer_id=0,
            producer_epoch=0,
            topics=(),
        )
    return DescribedTransaction(
        error_code=ErrorCode.none,
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout=timedelta(milliseconds=found.timeout_ms),
        transaction_start_time=_start_of(found.started_ms),
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=tuple(
            TopicData(topic=topic, partitions=tuple(indexes))
            for topic, indexes in group_by_topic(found.partitions).items()
        ),
    )


def _start_of(started_ms: int) -> Any:
    return _NoTime if started_ms < 0 else datetime.fromtimestamp(started_ms / 1000, UTC)


def _pattern(pattern: str | None) -> Callable[[str], bool]:
    """Return the test of an expression, which must match a whole id; none matches all."""
    if not pattern:
        return lambda _: True
    compiled = compile_expression(pattern)
    return lambda transactional_id: bool(compiled.fullmatch(transactional_id))


def _is_wanted(transaction: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and transaction.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and transaction.state.title not in request.state_filters:
        return False
    longer_ms: int = request.duration_filter
    return longer_ms < 0 or now_ms - transaction.started_ms > longer_ms
