"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.groups.consumer_group_checks import check_partitions
from broker.groups.offset_metadata import is_too_long
from protocol.coordinator.group_errors import OffsetMetadataTooLarge
from protocol.coordinator.group_records import NO_EXPIRY
from protocol.errors import ErrorCode, KafkaError, UnknownTopicId, UnknownTopicOrPartition
from protocol.messages import NO_ID
from protocol.messages.offset_commit import OffsetCommitResponse

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from broker.context import RequestContext, Rooms
    from broker.groups.coordinator import GroupCoordinator
    from broker.groups.offsets import NewOffset
    from protocol.messages.offset_commit import OffsetCommitRequest

    Results = list[tuple[str, bytes, list[tuple[int, ErrorCode]]]]


_FIRST_WITH_TOPIC_ID = 10
_NO_RETENTION = -1
_LATEST_MS = (1 << 63) - 1
_UNKNOWN = frozenset({UnknownTopicId.code, UnknownTopicOrPartition.code})


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | Coroutine[Any, Any, OffsetCommitResponse]:
    """Commit and answer; return a coroutine if the journal must be flushed first."""
    rooms = context.rooms
    groups = rooms.groups
    results = _commit(rooms, groups, context.version, request)
    return _flush(groups, results) if groups.log.unflushed else _answer(results)


async def _flush(groups: GroupCoordinator, results: Results) -> OffsetCommitResponse:
    """Wait for the fsyncs that ``flush.messages`` of the journal asks for."""
    try:
        await groups.log.flush()
    except KafkaError as error:
        results = [
            (name, topic_id, [(index, before or error.code) for index, before in codes])
            for name, topic_id, codes in results
        ]
    return _answer(results)


def _answer(results: Any) -> OffsetCommitResponse:
    return OffsetCommitResponse(0, results)


def _expiry(request: OffsetCommitRequest, now_ms: int) -> int:
    if request.retention_time_ms == _NO_RETENTION:
        return NO_EXPIRY
    return min(now_ms + request.retention_time_ms, _LATEST_MS)


def _commit(
    rooms: Rooms, groups: GroupCoordinator, version: int, request: OffsetCommitRequest
) -> Results:
    """Commit what can be, and return a code for each partition of the request.

    A topic that is named twice is answered once, unless all partitions are there.
    """
    now_ms = rooms.clock.now_ms()
    expiry = _expiry(request, now_ms)
    limits = rooms.settings.server
    registry = rooms.topics
    results: Results = []
    offsets: list[Any] = []
    is_any_known = is_any_unknown = False
    for name, topic_id, partitions in request.topics:
        unknown = UnknownTopicOrPartition.code
        if version < _FIRST_WITH_TOPIC_ID:
            topic = registry.topics.get(name)
        else:
            topic = registry.by_id.get(topic_id)
            unknown = UnknownTopicId.code if topic is None else unknown
        count = 0 if topic is None else topic.partitions
        codes: list[tuple[int, ErrorCode]] = []
        results.append((name, topic_id, codes))
        for index, offset, leader_epoch, metadata in partitions:
            if topic is None or not 0 <= index < count:
                is_any_unknown = True
                codes.append((index, unknown))
                continue
            is_any_known = True
            if metadata and is_too_long(metadata, limits):
                codes.append((index, OffsetMetadataTooLarge.code))
            else:
                committed = (offset, leader_epoch, metadata or "", now_ms, expiry, NO_ID)
                offsets.append((topic.name, index, committed))
                codes.append((index, ErrorCode.none))
    if is_any_known:
        code = _write(groups, version, request, offsets)
        if code:
            results = [
                (
                    name,
                    topic_id,
                    [(index, before if before in _UNKNOWN else code) for index, before in codes],
                )
                for name, topic_id, codes in results
            ]
    return _merge(results) if is_any_unknown else results


def _merge(results: Results) -> Results:
    """Return the codes of a topic that is there twice in one place."""
    merged: dict[tuple[str, bytes], list[tuple[int, ErrorCode]]] = {}
    for name, topic_id, codes in results:
        merged.setdefault((name, topic_id), []).extend(codes)
    return [(*key, codes) for key, codes in merged.items()]


def _write(
    groups: GroupCoordinator,
    version: int,
    request: OffsetCommitRequest,
    offsets: list[NewOffset],
) -> ErrorCode:
    """Write offsets of partitions that exist, if the member may; return a code for all."""
    group_id, generation, member_id, instance_id, _, _ = request
    try:
        groups.check(group_id)
        group = groups.check_commit(group_id, generation, member_id, instance_id, version)
        group.touch(member_id)
        check = group.find_partition_check(member_id, generation)
        if check is not None:
            check_partitions(check, offsets, groups.consumer.image)
        if offsets:
            groups.offsets.append(group_id, group.partition, offsets)
            groups.keep(group)
    except KafkaError as error:
        return error.code
    return ErrorCode.none
