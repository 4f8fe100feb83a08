"""AddOffsetsToTxn (25), versions 0-4, and TxnOffsetCommit (28), versions 0-6 (KIP-98, KIP-447).

Offsets of a group are committed together with the records of a transaction, or not at all.
AddOffsetsToTxn: v2 fenced producers have a code of their own (KIP-588) · v4 transactions may be
aborted by error (KIP-890). TxnOffsetCommit: v2 leader epochs · v3 the member of the group commits,
not anybody with its name (KIP-447) · v4 as above · v5 adds the group's partition to the transaction
by itself, so that no AddOffsetsToTxn comes before it (KIP-890) · v6 topic ids, and the errors of
member epochs (KIP-1319).

Differs from Kafka: what would exceed transactional.ids.max.bytes or group.offsets.max.bytes is
refused with TRANSACTION_ABORTABLE from v4 on: the producer aborts the transaction, and goes on. In
versions before 4 the answer is POLICY_VIOLATION or INVALID_COMMIT_OFFSET_SIZE, after which the
producer cannot go on.
"""

from collections.abc import Coroutine, Sequence
from typing import Any

from siltstone.broker.groups.group_offsets import NewOffsets, judge_offsets
from siltstone.broker.handlers.authorized import split_topics
from siltstone.broker.handlers.transactions import code_of
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import GROUP, READ, TRANSACTIONAL_ID, WRITE
from siltstone.broker.services import RequestContext
from siltstone.broker.transactions.producing import Rules, admit
from siltstone.protocol import errors
from siltstone.protocol.coordinator import group_errors
from siltstone.protocol.errors import ErrorCode, KafkaError
from siltstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from siltstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.protocol.records.journal import Producer
from siltstone.storage.log.log import Log

Topic = str | bytes
"""The topic of a request: its name, from v6 on its id."""
Codes = dict[tuple[Topic, int], ErrorCode]

_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_THAT_ADDS = 5
_FIRST_WITH_IDS = 6
_MISSING = {errors.UnknownTopicOrPartition.code, errors.UnknownTopicId.code}


def add_offsets(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | Coroutine[Any, Any, AddOffsetsToTxnResponse]:
    """Add the partition that stores a group's offsets to the transaction."""

    def respond(error: KafkaError | None = None) -> AddOffsetsToTxnResponse:
        code = ErrorCode.none
        if error is not None:
            code = code_of(_bearable(error, context.version), context.version)
        return AddOffsetsToTxnResponse(error_code=code)

    refusal = _find_refusal(context, request)
    if refusal is not None:
        return AddOffsetsToTxnResponse(error_code=refusal.code)
    partition = context.services.groups().journal.partition_for(request.group_id)
    transactions = context.services.transactions()

    async def respond_behind(due: dict[Log, None]) -> AddOffsetsToTxnResponse:
        try:
            await transactions.journal.flush(due)
        except KafkaError as error:
            return respond(error)
        return respond()

    try:
        if not request.transactional_id:
            raise errors.InvalidRequest("a transactional id must not be empty")
        transactions.add_partitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            [(OFFSETS_TOPIC, partition)],
            client_version=0,
        )
    except KafkaError as error:
        return respond(error)
    due = transactions.take_unflushed(request.transactional_id)
    return respond_behind(due) if due else respond()


def _find_refusal(
    context: RequestContext, request: AddOffsetsToTxnRequest | TxnOffsetCommitRequest
) -> KafkaError | None:
    """Return why a client may not commit for the group in the transaction."""
    if not context.may(WRITE, TRANSACTIONAL_ID, request.transactional_id):
        return errors.TransactionalIdAuthorizationFailed()
    if not context.may(READ, GROUP, request.group_id):
        return errors.GroupAuthorizationFailed()
    return None


async def commit(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse:
    """Write offsets that count once their transaction commits; many are written in batches.

    A partition is refused alone if it does not exist, if the client may not read it, or if its
    metadata is too long. An error of a coordinator or of the journal is the answer for all other
    partitions, also for those that were written before it: the producer will abort.
    """
    share = LoopShare()
    by_id = context.version >= _FIRST_WITH_IDS
    codes: Codes = {}
    refusal = _find_refusal(context, request)
    if refusal is not None:
        code = _code_of(refusal, context.version)
        return await _respond(request, codes, code, share, by_id=by_id)
    code = ErrorCode.none
    for some in share.cut(request.topics, "partitions"):
        refused, too_long, offsets = _sort(context, some)
        codes |= refused
        if not code and (offsets.count or too_long):
            code = await _try(context, request, offsets, share)
        if not code:
            codes |= too_long
        await share.rest()
    return await _respond(request, codes, code, share, by_id=by_id)


async def _try(
    context: RequestContext, request: TxnOffsetCommitRequest, offsets: NewOffsets, share: LoopShare
) -> ErrorCode:
    """Write offsets, with an fsync if settings ask for it, and return one code for all of them."""
    try:
        if not request.group_id:
            raise group_errors.InvalidGroupId
        if not context.services.groups().journal.is_created:
            raise errors.CoordinatorNotAvailable
        _write(context, request, offsets)
        coordinators = context.services.coordinators.get()
        due = coordinators.transactions.take_unflushed(request.transactional_id)
        due |= coordinators.groups.journal.find_unwritten_of(request.group_id)
        if due:
            await share.wait_for(coordinators.groups.journal.flush(due))
    except KafkaError as error:
        return _code_of(error, context.version)
    return ErrorCode.none


def _sort(
    context: RequestContext, topics: Sequence[TxnOffsetCommitRequestTopic]
) -> tuple[Codes, Codes, NewOffsets]:
    """Return codes of refused partitions, codes of those with too long metadata, and other offsets.

    The coordinators are not asked about partitions that do not exist or that the client may not
    read. If there are no others, no coordinator is asked and the transaction does not begin. Too
    long metadata is judged last: if a coordinator refuses the commit, its error is the answer.
    """
    services = context.services
    codes: Codes = {}
    too_long: Codes = {}
    offsets = NewOffsets(services.clock.now_ms())
    by_id = context.version >= _FIRST_WITH_IDS
    known: dict[Any, Any] = services.topics.by_id if by_id else services.topics.topics
    allowed, denied = split_topics(context, READ, topics, by_id=by_id)
    for topic in denied.values():
        code = errors.TopicAuthorizationFailed.code
        codes |= {(_name(topic, by_id=by_id), each[0]): code for each in topic.partitions}
    judged, _, _ = judge_offsets(allowed, known, by_id, services.settings, offsets)
    for topic, (_, _, judgements) in zip(allowed, judged, strict=True):
        name = _name(topic, by_id=by_id)
        for index, code in judgements:
            if code:
                refused = too_long if code == group_errors.OffsetMetadataTooLarge.code else codes
                refused[name, index] = ErrorCode(code)
    return codes, too_long, offsets


def _name(topic: TxnOffsetCommitRequestTopic, *, by_id: bool) -> Topic:
    return topic.topic_id if by_id else topic.name


def _write(context: RequestContext, request: TxnOffsetCommitRequest, offsets: NewOffsets) -> None:
    """Write the offsets if the group and the transaction accept them."""
    services = context.services
    groups = services.groups()
    groups.check(request.group_id)
    partition = groups.journal.partition_for(request.group_id)
    target = services.topics.find_log(OFFSETS_TOPIC, partition)
    producer = Producer(request.producer_id, request.producer_epoch)
    version = context.version
    admit(
        services.transactions(),
        request.transactional_id,
        producer,
        target,
        lambda: [(OFFSETS_TOPIC, partition)],
        Rules(version >= _FIRST_THAT_ADDS, version >= _FIRST_WITH_ABORTABLE),
    )
    group = groups.check_commit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        None,
        offsets,
        has_epochs=version >= _FIRST_WITH_IDS,
    )
    if offsets.count:
        groups.offsets.append_transactional(request.group_id, group.partition, offsets, producer)
        groups.keep(group)


def _code_of(error: KafkaError, version: int) -> ErrorCode:
    """Return the code of a refused TxnOffsetCommit; the oldest versions have another code."""
    if isinstance(error, errors.CoordinatorLoadInProgress) and version < _FIRST_WITH_LOADING:
        return errors.CoordinatorNotAvailable.code
    return _bearable(error, version).code


def _bearable(error: KafkaError, version: int) -> KafkaError:
    """Replace a refusal for lack of room by one after which a producer aborts and continues."""
    is_for_room = isinstance(error, (errors.PolicyViolation, group_errors.InvalidCommitOffsetSize))
    if is_for_room and version >= _FIRST_WITH_ABORTABLE:
        return errors.TransactionAbortable(error.message)
    return error


async def _respond(
    request: TxnOffsetCommitRequest,
    codes: Codes,
    others: ErrorCode,
    share: LoopShare,
    *,
    by_id: bool,
) -> TxnOffsetCommitResponse:
    topics: list[TxnOffsetCommitResponseTopic] = []
    once: dict[Topic, list[Any]] | None = None
    if not _MISSING.isdisjoint(codes.values()):
        once = {}  # then Kafka's answer names each topic once
    for topic in request.topics:
        name = _name(topic, by_id=by_id)
        rows: list[Any] = [] if once is None else once.get(name, [])
        if once is None or name not in once:
            topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, rows))
        if once is not None:
            once[name] = rows
        for index, *_ in topic.partitions:
            code = codes.get((name, index), others)
            rows.append(TxnOffsetCommitResponsePartition(index, code))
            await share.rest()
        await share.rest()
    return TxnOffsetCommitResponse(topics=topics)
