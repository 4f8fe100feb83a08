"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids.

Differs from Kafka: what would exceed group.offsets.max.bytes is refused with
INVALID_COMMIT_OFFSET_SIZE; an offset with a retention time of its own (v2-4), of a topic whose
name was another's until just now, with UNKNOWN_TOPIC_OR_PARTITION, as long as groups may have
offsets of that one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.broker.groups.consumer.checks import check_partitions
from siltstone.broker.groups.group_offsets import NewOffsets, judge_offsets
from siltstone.broker.handlers.authorized import split_many, split_topics, weave
from siltstone.broker.net.slices import ELEMENTS, Slices
from siltstone.broker.process.loop_share import LoopShare, finish, finish_in_shares
from siltstone.broker.security.rights import GROUP, READ
from siltstone.protocol.coordinator.group_records import NO_EXPIRY
from siltstone.protocol.errors import (
    GroupAuthorizationFailed,
    KafkaError,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from siltstone.protocol.messages.columns import ERROR_CODE
from siltstone.protocol.messages.offset_commit import OffsetCommitResponse
from siltstone.protocol.names import FIRST_OFFSETS_WITH_TOPIC_ID

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator, Iterable, Sequence

    from siltstone.broker.context import RequestContext
    from siltstone.broker.groups.coordinator import GroupCoordinator
    from siltstone.broker.services import Services
    from siltstone.protocol.core import Grid
    from siltstone.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitRequestTopic,
    )

    Refused = dict[int, OffsetCommitRequestTopic]
    Results = Sequence[tuple[str, bytes, Sequence[tuple[int, int]]]]
    Lists = list[tuple[str, bytes, list[tuple[int, int]]]]

_SLICES = Slices("topics", nested="partitions")
_NO_RETENTION = -1
_LATEST_MS = (1 << 63) - 1
_MISSING = (UnknownTopicOrPartition.code, UnknownTopicId.code)


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Commit and answer; return a coroutine if the journal must be flushed first."""
    if not context.may(READ, GROUP, request.group_id):
        return _answer(_refuse_topics(request.topics, GroupAuthorizationFailed.code))
    if context.rights is not None:
        by_id = context.version >= FIRST_OFFSETS_WITH_TOPIC_ID
        if len(request.topics) > ELEMENTS:
            return _handle_many(context, request, by_id=by_id)
        topics, refused = split_topics(context, READ, request.topics, by_id=by_id)
        if refused:
            return _handle_some(context, request, topics, refused)
    return _handle(context, request)


async def _handle_many(
    context: RequestContext, request: OffsetCommitRequest, *, by_id: bool
) -> OffsetCommitResponse:
    """Commit what the client may of many topics."""
    split = await split_many(context, READ, request.topics, by_id=by_id)
    return await _handle_some(context, request, *split)


async def _handle_some(
    context: RequestContext,
    request: OffsetCommitRequest,
    topics: Sequence[OffsetCommitRequestTopic],
    refused: Refused,
) -> OffsetCommitResponse:
    """Commit some topics, and refuse the others."""
    answered: Sequence[Any] = ()
    if topics:
        answer = _handle(context, request._replace(topics=topics))
        if not isinstance(answer, tuple):
            answer = await answer
        answered = answer[1]
    rows = _refuse_topics(refused.values(), TopicAuthorizationFailed.code)
    places = dict(zip(refused, rows, strict=True))
    return _answer(weave(answered, places, len(request.topics)))


def _refuse_topics(topics: Iterable[OffsetCommitRequestTopic], code: int) -> list[Any]:
    return [
        (name, topic_id, [(each[0], code) for each in partitions])
        for name, topic_id, partitions in topics
    ]


def _handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    topics = request.topics
    is_one = len(topics) == 1 and len(topics[0].partitions) <= ELEMENTS
    if not is_one and _SLICES.is_large(request):
        return _handle_large(context, request)
    services = context.services
    groups = services.groups()
    results: Results
    results, is_any_unknown = _commit(services, groups, context.version, request)
    if is_any_unknown:
        results = finish(_merge(results))
    return _flush(groups, results) if groups.journal.unflushed else _answer(results)


async def _handle_large(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse:
    """Commit some partitions at a time; each batch of the journal is as if somebody had asked."""
    services = context.services
    groups = services.groups()
    share = LoopShare()
    lists: Lists = []
    is_any_unknown = False
    for piece, goes_on in _SLICES.cut(request):
        await share.rest()
        some, is_unknown = _commit(services, groups, context.version, piece)
        is_any_unknown |= is_unknown
        if goes_on:
            (_, _, codes), *some = some
            lists[-1][2].extend(codes)
        lists += [(name, topic_id, list(codes)) for name, topic_id, codes in some]
    results: Any = lists
    if is_any_unknown:
        results = await finish_in_shares(_merge(results))
    return await _flush(groups, results) if groups.journal.unflushed else _answer(results)


def _commit(
    services: Services, groups: GroupCoordinator, version: int, request: OffsetCommitRequest
) -> tuple[list[tuple[str, bytes, Grid]], bool]:
    """Commit; return a code for each partition, and whether one does not exist."""
    by_id = version >= FIRST_OFFSETS_WITH_TOPIC_ID
    known: dict[Any, Any] = services.topics.by_id if by_id else services.topics.topics
    now_ms = services.clock.now_ms()
    retention_ms = request.retention_time_ms
    expiry_ms = (
        NO_EXPIRY if retention_ms == _NO_RETENTION else min(now_ms + retention_ms, _LATEST_MS)
    )
    retired = services.topics.retired
    if retired and expiry_ms != NO_EXPIRY:  # such a record cannot tell the topic's id
        known = {key: each for key, each in known.items() if each.name not in retired}
    offsets = NewOffsets(now_ms, expiry_ms)
    results, is_any_known, is_any_unknown = judge_offsets(
        request.topics, known, by_id, services.settings, offsets
    )
    if is_any_known:
        try:
            _write(groups, version, request, offsets)
        except KafkaError as error:
            _refuse(results, error.code)
    return results, is_any_unknown


def _write(
    groups: GroupCoordinator, version: int, request: OffsetCommitRequest, offsets: NewOffsets
) -> None:
    """Write offsets of partitions that exist, if the member may commit.

    Raises:
        KafkaError: The member may not commit, or the journal did not take them.
    """
    group_id, generation, member_id, instance_id = request[:4]
    groups.check(group_id)
    group = groups.check_commit(group_id, generation, member_id, instance_id, version)
    group.touch(member_id)
    check = group.find_partition_check(member_id, generation)
    if check is not None:
        check_partitions(check, offsets.named(), groups.consumer.image)
    if offsets.count:
        groups.offsets.append(group_id, group.partition, offsets)
        groups.keep(group)


def _refuse(results: list[tuple[str, bytes, Grid]], error_code: int) -> None:
    """Put an error code to all partitions that exist."""
    for _, _, codes in results:
        for place, (_, before) in enumerate(codes):
            if before not in _MISSING:
                codes.put(place, ERROR_CODE, error_code)


async def _flush(groups: GroupCoordinator, results: Results) -> OffsetCommitResponse:
    """Wait for the fsyncs that ``flush.messages`` of the journal asks for."""
    try:
        await groups.journal.flush()
    except KafkaError as error:
        results = [
            (name, topic_id, [(index, before or error.code) for index, before in codes])
            for name, topic_id, codes in results
        ]
    return _answer(results)


def _answer(results: Any) -> OffsetCommitResponse:
    return tuple.__new__(OffsetCommitResponse, (0, results))  # its __new__ costs more than the read


def _merge(results: Results) -> Generator[None, None, Results]:
    """Return the codes of a topic that is named twice in one place.

    Kafka answers so, unless all partitions exist.
    """
    merged: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
    for name, topic_id, codes in results:
        merged.setdefault((name, topic_id), []).extend(codes)
        yield
    return [(*key, codes) for key, codes in merged.items()]
