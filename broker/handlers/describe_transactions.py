"""DescribeTransactions (65), version 0, and ListTransactions (66), versions 0-2 (KIP-664).

ListTransactions: v1 a filter by how long they are open (KIP-994) · v2 a filter by a pattern for the
id (KIP-1152).
"""

from collections.abc import Callable
from functools import partial

from siltstone.broker.groups.regular_expression import compile_expression
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.transaction import Transaction, TransactionState
from siltstone.protocol.coordinator.transaction_records import group_by_topic
from siltstone.protocol.errors import KafkaError, TransactionalIdAuthorizationFailed
from siltstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from siltstone.protocol.messages.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from siltstone.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from siltstone.protocol.messages.list_transactions import TransactionState as ListedTransaction

_STATES = {state.title: state for state in TransactionState}


async def describe(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse:
    """Return the state of each transactional id."""
    states = await LoopShare().each(request.transactional_ids, partial(_describe, context))
    return DescribeTransactionsResponse(transaction_states=states)


async def list_all(
    context: RequestContext, request: ListTransactionsRequest
) -> ListTransactionsResponse:
    """Return the transactional ids that match every filter."""
    share = LoopShare()
    unknown: list[str] = []
    for some in share.pieces(request.state_filters):
        unknown += [name for name in some if name not in _STATES]
        await share.rest()
    try:
        matches = _pattern(request.transactional_id_pattern)
        every = context.services.transactions().list_all()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    producer_ids = frozenset(request.producer_id_filters)
    states = frozenset(request.state_filters)
    found: list[ListedTransaction] = []
    for transactional_id, transaction in every:
        if (
            _is_wanted(
                transaction,
                producer_ids,
                states,
                request.duration_filter,
                context.services.clock.now_ms(),
            )
            and matches(transactional_id)
            and context.sees(DESCRIBE, TRANSACTIONAL_ID, transactional_id)
        ):
            found.append(
                ListedTransaction(
                    transactional_id=transactional_id,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.title,
                )
            )
        await share.rest()
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=found)


def _describe(context: RequestContext, transactional_id: str) -> DescribedTransaction:
    if not context.may(DESCRIBE, TRANSACTIONAL_ID, transactional_id):
        code = TransactionalIdAuthorizationFailed.code
        return DescribedTransaction(error_code=code, transactional_id=transactional_id)
    try:
        found = context.services.transactions().describe(transactional_id)
    except KafkaError as error:
        return DescribedTransaction(error_code=error.code, transactional_id=transactional_id)
    return DescribedTransaction(
        transactional_id=transactional_id,
        transaction_state=found.state.title,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[
            TopicData(topic, list(indexes))
            for topic, indexes in group_by_topic(found.partitions).items()
            if context.sees(DESCRIBE, TOPIC, topic)
        ],
    )


def _pattern(pattern: str | None) -> Callable[[str], bool]:
    """Return a test for whole ids by an expression; without an expression every id passes."""
    if not pattern:
        return lambda _: True
    compiled = compile_expression(pattern)
    return lambda transactional_id: bool(compiled.fullmatch(transactional_id))


def _is_wanted(
    transaction: Transaction,
    producer_ids: frozenset[int],
    states: frozenset[str],
    longer_ms: int,
    now_ms: int,
) -> bool:
    """Tell whether a transaction matches the filters; an empty one, or -1, matches all."""
    if producer_ids and transaction.producer_id not in producer_ids:
        return False
    if states and transaction.state.title not in states:
        return False
    return longer_ms < 0 or now_ms - transaction.started_ms > longer_ms
