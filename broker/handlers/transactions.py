"""AddPartitionsToTxn (24), versions 0-5: where a transaction is going to write (KIP-98).

v2 fenced producers have a code of their own (KIP-588) · v4 several transactions and verification
only, from brokers (KIP-890) · v5 by the rules of ``transaction.version`` 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from protocol.errors import (
    ErrorCode,
    InvalidProducerEpoch,
    InvalidRequest,
    KafkaError,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from protocol.names import is_internal

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from broker.context import RequestContext
    from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest

    Codes = Mapping[tuple[str, int], ErrorCode]

T = TypeVar("T")

_FIRST_WITH_FENCED = 2
_FIRST_BY_BROKERS = 4
_FIRST_WITH_EPOCH_BUMP = 5


def code_of(error: KafkaError, version: int) -> ErrorCode:
    """Return the code of a refusal, which clients of versions 0 and 1 know by an older one."""
    if isinstance(error, ProducerFenced) and version < _FIRST_WITH_FENCED:
        return InvalidProducerEpoch.code
    return error.code


def client_version_of(version: int) -> int:
    """Return the ``transaction.version`` that a request of the two APIs follows."""
    return FIRST_WITH_EPOCH_BUMP if version >= _FIRST_WITH_EPOCH_BUMP else 0


def when_durable(
    context: RequestContext, answer: T, refuse: Callable[[KafkaError], T]
) -> T | Coroutine[Any, Any, T]:
    """Return the answer, or a coroutine if ``flush.messages`` asks for fsyncs before it."""
    rooms = context.rooms
    if not (rooms.transactions.must_flush or rooms.groups.log.unflushed):
        return answer
    return _flush(context, answer, refuse)


async def _flush(context: RequestContext, answer: T, refuse: Callable[[KafkaError], T]) -> T:
    try:
        await context.rooms.transactions.flush()
        await context.rooms.groups.log.flush()
    except KafkaError as error:
        return refuse(error)
    return answer


def add_partitions(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    """Make partitions part of their producers' transactions, all of one or none."""
    version = context.version
    wanted: Sequence[AddPartitionsToTxnTransaction] = request.transactions
    if version < _FIRST_BY_BROKERS:
        wanted = [_only_transaction(request)]

    def refuse(error: KafkaError) -> AddPartitionsToTxnResponse:
        code = code_of(error, version)
        return _respond(
            version,
            [_results(each, dict.fromkeys(_partitions_of(each), code)) for each in wanted],
        )

    answer = _respond(version, [_add(context, each) for each in wanted])
    return when_durable(context, answer, refuse)


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """Return what clients ask; only brokers ask for several."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _respond(version: int, results: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    if version < _FIRST_BY_BROKERS:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _add(
    context: RequestContext, wanted: AddPartitionsToTxnTransaction
) -> AddPartitionsToTxnResult:
    partitions = _partitions_of(wanted)
    codes = _find_faults(context, partitions)
    return _results(wanted, codes or _add_or_verify(context, wanted, partitions))


def _partitions_of(wanted: AddPartitionsToTxnTransaction) -> list[tuple[str, int]]:
    return [(topic.name, index) for topic in wanted.topics for index in topic.partitions]


def _results(wanted: AddPartitionsToTxnTransaction, codes: Codes) -> AddPartitionsToTxnResult:
    """Return the answer for one transaction, in which every topic is there once."""
    named: dict[str, list[int]] = {}
    for topic in wanted.topics:
        named.setdefault(topic.name, []).extend(topic.partitions)
    return AddPartitionsToTxnResult(
        wanted.transactional_id,
        [
            AddPartitionsToTxnTopicResult(
                name,
                [AddPartitionsToTxnPartitionResult(index, codes[name, index]) for index in indexes],
            )
            for name, indexes in named.items()
        ],
    )


def _is_never(topic: str) -> bool:
    """Brokers ask about the topics of their own, too."""
    del topic
    return False


def _find_faults(context: RequestContext, partitions: list[tuple[str, int]]) -> Codes:
    """Return a code for every partition if one of them cannot be part of a transaction."""
    logs = context.rooms.topics.logs
    is_barred = _is_never if context.version >= _FIRST_BY_BROKERS else is_internal
    if all(each in logs and not is_barred(each[0]) for each in partitions):
        return {}
    codes: dict[tuple[str, int], ErrorCode] = {}
    for each in partitions:
        if is_barred(each[0]):
            codes[each] = TopicAuthorizationFailed.code
        elif each not in logs:
            codes[each] = UnknownTopicOrPartition.code
        else:
            codes[each] = OperationNotAttempted.code
    return codes


def _add_or_verify(
    context: RequestContext,
    wanted: AddPartitionsToTxnTransaction,
    partitions: list[tuple[str, int]],
) -> Codes:
    coordinator = context.rooms.transactions
    producer = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
    codes: dict[tuple[str, int], ErrorCode] = dict.fromkeys(partitions, ErrorCode.none)
    try:
        if not wanted.transactional_id:
            raise InvalidRequest("a transactional id must not be empty")
        if not wanted.verify_only:
            version = client_version_of(context.version)
            coordinator.add_partitions(*producer, partitions, client_version=version)
    except KafkaError as error:
        return dict.fromkeys(partitions, code_of(error, context.version))
    if wanted.verify_only:
        for each in partitions:
            try:
                coordinator.verify(*producer, each)
            except KafkaError as error:
                codes[each] = error.code
    return codes
