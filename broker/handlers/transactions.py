"""AddPartitionsToTxn (24), versions 0-5: adds the partitions that a transaction writes to (KIP-98).

v2 fenced producers have a code of their own (KIP-588) · v4 several transactions and verification
only, from brokers (KIP-890) · v5 by the rules of ``transaction.version`` 2.

Differs from Kafka: partitions above transactional.ids.max.bytes are refused with POLICY_VIOLATION;
the answer names a topic once, where Kafka does as often as the request before v4.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import CLUSTER, CLUSTER_ACTION, TOPIC, TRANSACTIONAL_ID, WRITE
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.transaction import FIRST_WITH_EPOCH_BUMP
from siltstone.protocol import errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from siltstone.protocol.names import is_internal

Codes = Mapping[tuple[str, int], ErrorCode]

T = TypeVar("T")

_FIRST_WITH_FENCED = 2
_FIRST_BY_BROKERS = 4
_FIRST_WITH_EPOCH_BUMP = 5


def code_of(error: KafkaError, version: int) -> ErrorCode:
    """Return the code of a refusal; versions 0 and 1 have an older code for it."""
    if isinstance(error, errors.ProducerFenced) and version < _FIRST_WITH_FENCED:
        return errors.InvalidProducerEpoch.code
    return error.code


def client_version_of(version: int) -> int:
    """Return the ``transaction.version`` that a request of the two APIs follows."""
    return FIRST_WITH_EPOCH_BUMP if version >= _FIRST_WITH_EPOCH_BUMP else 0


async def add_partitions(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse:
    """Add partitions to their producers' transactions; of each transaction all or none."""
    version = context.version
    if version >= _FIRST_BY_BROKERS and not context.may(CLUSTER_ACTION, CLUSTER):
        return AddPartitionsToTxnResponse(error_code=errors.ClusterAuthorizationFailed.code)
    wanted: Sequence[AddPartitionsToTxnTransaction] = request.transactions
    if version < _FIRST_BY_BROKERS:
        wanted = [_only_transaction(request)]
    share = LoopShare()
    results = [await _add(context, each, share) for each in wanted]
    if version < _FIRST_BY_BROKERS:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0].topic_results)
    return AddPartitionsToTxnResponse(results_by_transaction=results)


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """Return the one transaction of a client's request; only brokers send several."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


async def _add(
    context: RequestContext, wanted: AddPartitionsToTxnTransaction, share: LoopShare
) -> AddPartitionsToTxnResult:
    """Make partitions part of one transaction."""
    await share.rest()  # also for many topics without partitions
    name = wanted.transactional_id
    if context.version < _FIRST_BY_BROKERS and not context.may(WRITE, TRANSACTIONAL_ID, name):
        return await _refuse(wanted, errors.TransactionalIdAuthorizationFailed.code, share)
    partitions = _partitions_of(wanted)
    codes = await _find_faults(context, partitions, share)
    if not codes:
        codes = await _add_or_verify(context, wanted, partitions, share)
    return await _answer(wanted, codes, share)


async def _refuse(
    wanted: AddPartitionsToTxnTransaction, code: ErrorCode, share: LoopShare
) -> AddPartitionsToTxnResult:
    """Return the answer for one transaction whose partitions all have the same code."""
    return await _answer(wanted, dict.fromkeys(_partitions_of(wanted), code), share)


def _partitions_of(wanted: AddPartitionsToTxnTransaction) -> list[tuple[str, int]]:
    return [(name, index) for name, indexes in wanted.topics for index in indexes]


async def _answer(
    wanted: AddPartitionsToTxnTransaction, codes: Codes, share: LoopShare
) -> AddPartitionsToTxnResult:
    """Return the answer for one transaction, which names every topic once."""
    named: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for name, indexes in wanted.topics:
        rows = named.setdefault(name, [])
        for index in indexes:
            rows.append(AddPartitionsToTxnPartitionResult(index, codes[name, index]))
            await share.rest()
        await share.rest()
    topics = await share.each(named.items(), lambda each: AddPartitionsToTxnTopicResult(*each))
    return AddPartitionsToTxnResult(wanted.transactional_id, topics)


async def _find_faults(
    context: RequestContext, partitions: list[tuple[str, int]], share: LoopShare
) -> Codes:
    """Return a code for every partition, if one of them cannot join a transaction."""
    logs = context.services.topics.logs
    is_client = context.version < _FIRST_BY_BROKERS  # brokers may add internal topics, too
    codes: dict[tuple[str, int], ErrorCode] = {}
    has_faults = False
    may_write: dict[str, bool] = {}
    for each in partitions:
        name = each[0]
        if is_client and name not in may_write:
            may_write[name] = not is_internal(name) and context.may(WRITE, TOPIC, name)
        if is_client and not may_write[name]:
            codes[each] = errors.TopicAuthorizationFailed.code
            has_faults = True
        elif each not in logs:
            codes[each] = errors.UnknownTopicOrPartition.code
            has_faults = True
        else:
            codes[each] = errors.OperationNotAttempted.code
        await share.rest()
    return codes if has_faults else {}


async def _add_or_verify(
    context: RequestContext,
    wanted: AddPartitionsToTxnTransaction,
    partitions: list[tuple[str, int]],
    share: LoopShare,
) -> Codes:
    coordinator = context.services.transactions()
    producer = wanted.transactional_id, wanted.producer_id, wanted.producer_epoch
    codes: dict[tuple[str, int], ErrorCode] = dict.fromkeys(partitions, ErrorCode.none)
    try:
        if not wanted.transactional_id:
            raise errors.InvalidRequest("a transactional id must not be empty")
        if not wanted.verify_only:
            version = client_version_of(context.version)
            coordinator.add_partitions(*producer, partitions, client_version=version)
            if due := coordinator.take_unflushed(wanted.transactional_id):
                await share.wait_for(coordinator.journal.flush(due))
    except KafkaError as error:
        return dict.fromkeys(partitions, code_of(error, context.version))
    if wanted.verify_only:
        for each in partitions:
            try:
                coordinator.verify(*producer, each)
            except KafkaError as error:
                codes[each] = error.code
            await share.rest()
    return codes
