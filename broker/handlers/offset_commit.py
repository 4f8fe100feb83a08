"""OffsetCommit (8), versions 2-10: stores offsets of a group before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids.

Differs from Kafka: what would exceed group.offsets.max.bytes is refused with
INVALID_COMMIT_OFFSET_SIZE. In v2-4 a commit with a retention time of its own is refused with
UNKNOWN_TOPIC_OR_PARTITION for a topic that has the name of a deleted one, as long as groups may
still have offsets of the deleted topic. A commit of which nothing is stored makes no group, where
Kafka keeps an empty one for a while.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from siltstone.broker.groups.consumer.checks import FIRST_WITH_EPOCHS
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.broker.groups.group_offsets import NewOffsets, judge_offsets
from siltstone.broker.handlers.authorized import split_many, weave
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.security.rights import GROUP, READ
from siltstone.broker.services import RequestContext, Services
from siltstone.protocol import errors
from siltstone.protocol.coordinator.group_records import NO_EXPIRY
from siltstone.protocol.core import Grid
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.columns import ERROR_CODE
from siltstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from siltstone.protocol.names import FIRST_OFFSETS_WITH_TOPIC_ID
from siltstone.storage.log.log import Log

Results = Sequence[tuple[str, bytes, Sequence[tuple[int, int]]]]

_NO_RETENTION = -1
_LATEST_MS = (1 << 63) - 1
_MISSING = (errors.UnknownTopicOrPartition.code, errors.UnknownTopicId.code)


async def handle(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    """Commit what the client's rights allow, and answer; many offsets are committed in batches.

    Each batch of the journal is handled like a request of its own.
    """
    share = LoopShare()
    topics = request.topics
    refused: dict[int, OffsetCommitRequestTopic] = {}
    if context.rights is not None:
        if not context.may(READ, GROUP, request.group_id):
            return _answer(await _refuse_all(topics, errors.GroupAuthorizationFailed.code, share))
        by_id = context.version >= FIRST_OFFSETS_WITH_TOPIC_ID
        topics, refused = await split_many(context, READ, topics, share, by_id=by_id)
    groups = context.services.groups()
    results: Any = []
    is_any_unknown = False
    for some in share.cut(topics, "partitions"):
        committed, is_unknown = _commit(context.services, groups, context.version, request, some)
        if due := groups.journal.find_unwritten_of(request.group_id):
            committed = await share.wait_for(_flush(groups, due, committed))
        results += committed
        is_any_unknown |= is_unknown
        await share.rest()
    if len(results) > len(topics):
        results = await _join(topics, results, share)
    if is_any_unknown:
        results = await _merge(results, share)
    if refused:
        rows = await _refuse_all(refused.values(), errors.TopicAuthorizationFailed.code, share)
        places = dict(zip(refused, rows, strict=True))
        results = weave(results, places, len(request.topics))
    return _answer(results)


async def _join(
    topics: Sequence[OffsetCommitRequestTopic], results: Results, share: LoopShare
) -> Results:
    """Join the pieces of each topic's codes: a long list was committed in pieces."""
    codes = chain.from_iterable(each[2] for each in results)
    return await share.each(
        topics, lambda topic: (topic[0], topic[1], list(islice(codes, len(topic[2]))))
    )


async def _refuse_all(
    topics: Iterable[OffsetCommitRequestTopic], code: int, share: LoopShare
) -> list[tuple[str, bytes, list[tuple[int, int]]]]:
    return await share.each(
        topics, lambda topic: (topic[0], topic[1], [(each[0], code) for each in topic[2]])
    )


def _commit(
    services: Services,
    groups: GroupCoordinator,
    version: int,
    request: OffsetCommitRequest,
    topics: Sequence[OffsetCommitRequestTopic],
) -> tuple[list[tuple[str, bytes, Grid]], bool]:
    """Commit topics of a request; return a code for each partition, and whether one is unknown."""
    by_id = version >= FIRST_OFFSETS_WITH_TOPIC_ID
    known: dict[Any, Any] = services.topics.by_id if by_id else services.topics.topics
    now_ms = services.clock.now_ms()
    retention_ms = request.retention_time_ms
    expiry_ms = (
        NO_EXPIRY if retention_ms == _NO_RETENTION else min(now_ms + retention_ms, _LATEST_MS)
    )
    retired = services.topics.retired
    if expiry_ms != NO_EXPIRY and retired:  # such a record has no topic id
        named = known.keys() & {each[0] for each in topics}
        known = {name: known[name] for name in named if name not in retired}
    offsets = NewOffsets(now_ms, expiry_ms)
    results, is_any_known, is_any_unknown = judge_offsets(
        topics, known, by_id, services.settings, offsets
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
    """Write offsets of partitions that exist, if the member may commit."""
    group_id, generation, member_id, instance_id = request[:4]
    groups.check(group_id)
    has_epochs = version >= FIRST_WITH_EPOCHS
    group = groups.check_commit(
        group_id, generation, member_id, instance_id, version, offsets, has_epochs=has_epochs
    )
    group.touch(member_id)
    if offsets.count:
        groups.offsets.append(group_id, group.partition, offsets)
        groups.keep(group)


def _refuse(results: list[tuple[str, bytes, Grid]], error_code: int) -> None:
    """Set the error code of all partitions that exist."""
    for _, _, codes in results:
        for place, (_, before) in enumerate(codes):
            if before not in _MISSING:
                codes.put(place, ERROR_CODE, error_code)


async def _flush(groups: GroupCoordinator, due: dict[Log, None], results: Any) -> Any:
    """Wait for the fsyncs that ``flush.messages`` asks for, and return the error, if any."""
    try:
        await groups.journal.flush(due)
    except KafkaError as error:
        return [
            (name, topic_id, [(index, before or error.code) for index, before in codes])
            for name, topic_id, codes in results
        ]
    return results


def _answer(results: Any) -> OffsetCommitResponse:
    return tuple.__new__(OffsetCommitResponse, (0, results))  # its __new__ costs more


async def _merge(results: Results, share: LoopShare) -> Results:
    """Join the codes of a topic that the request names twice.

    Kafka does the same, unless all partitions exist.
    """
    merged: dict[tuple[str, bytes], list[tuple[int, int]]] = {}
    for name, topic_id, codes in results:
        merged.setdefault((name, topic_id), []).extend(codes)
        await share.rest()
    return [(*key, codes) for key, codes in merged.items()]
