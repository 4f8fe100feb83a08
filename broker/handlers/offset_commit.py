"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids. It takes the frame itself: consumers that commit each
batch send it as often as they fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.consumer_group_checks import check_partitions
from broker.groups.offset_metadata import is_too_long
from protocol.coordinator.group_errors import OffsetMetadataTooLarge
from protocol.coordinator.group_records import NO_EXPIRY, CommittedOffset
from protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition
from protocol.offset_commit import API_KEY, FIRST_FLEXIBLE, NO_RETENTION, encode, parse

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.context import Rooms
    from broker.groups.coordinator import GroupCoordinator
    from protocol.offset_commit import OffsetCommitRequest
    from protocol.topic_key import TopicKey

    Results = list[tuple[TopicKey, list[tuple[int, int]]]]


_LATEST_MS = (1 << 63) - 1


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Commit and answer; return a coroutine if the journal must be flushed first."""
    groups = connection.rooms.groups
    if version >= FIRST_FLEXIBLE:
        answer = groups.commit_one(version, correlation_id, buffer, position, end)
        if answer is not None and not groups.log.unflushed:
            return answer
        if answer is not None:
            request = parse(version, buffer, position, end)
            return _flush(connection, version, correlation_id, _good(request))
    request = parse(version, buffer, position, end)
    results = _commit(connection.rooms, version, request)
    if groups.log.unflushed:
        return _flush(connection, version, correlation_id, results)
    return _answer(connection, version, correlation_id, results)


def _good(request: OffsetCommitRequest) -> Results:
    """Return that all was committed."""
    return [(key, [(each.index, 0) for each in partitions]) for key, partitions in request.topics]


async def _flush(
    connection: Connection, version: int, correlation_id: int, results: Results
) -> Answer:
    """Wait for the fsyncs that ``flush.messages`` of the journal asks for."""
    try:
        await connection.rooms.groups.log.flush()
    except KafkaError as error:
        code = error.code.value
        results = [
            (key, [(index, before or code) for index, before in partitions])
            for key, partitions in results
        ]
    return _answer(connection, version, correlation_id, results)


def _answer(connection: Connection, version: int, correlation_id: int, results: Results) -> bytes:
    for _, partitions in results:
        for _, code in partitions:
            if code:
                connection.listener.dispatcher.stats.by_key[API_KEY].failed(code)
    return encode(version, correlation_id, results)


def _expiry(request: OffsetCommitRequest, now_ms: int) -> int:
    if request.retention_ms == NO_RETENTION:
        return NO_EXPIRY
    return min(now_ms + request.retention_ms, _LATEST_MS)


def _commit(rooms: Rooms, version: int, request: OffsetCommitRequest) -> Results:
    """Commit what can be, and return a code for each partition of the request.

    A topic that is named twice is answered once, unless all partitions are there.
    """
    now_ms = rooms.clock.now_ms()
    expiry = _expiry(request, now_ms)
    limits = rooms.settings.server
    results: Results = []
    offsets: list[tuple[str, int, CommittedOffset]] = []
    places: list[tuple[list[tuple[int, int]], int]] = []
    for key, partitions in request.topics:
        topics = rooms.topics
        topic = topics.by_id.get(key) if isinstance(key, bytes) else topics.topics.get(key)
        codes: list[tuple[int, int]] = []
        results.append((key, codes))
        for index, offset, leader_epoch, metadata in partitions:
            if topic is None:
                error = UnknownTopicId if isinstance(key, bytes) else UnknownTopicOrPartition
                codes.append((index, error.code.value))
                continue
            if not 0 <= index < topic.partitions:
                codes.append((index, UnknownTopicOrPartition.code.value))
                continue
            places.append((codes, len(codes)))
            if metadata is not None and is_too_long(metadata, limits):
                codes.append((index, OffsetMetadataTooLarge.code.value))
            else:
                committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expiry)
                offsets.append((topic.name, index, committed))
                codes.append((index, 0))
    if places:
        who = request.group_id, request.generation, request.member_id, request.instance_id
        code = _write(rooms.groups, version, who, offsets)
        if code:
            for codes, place in places:
                codes[place] = codes[place][0], code
    return _merge(results) if len(places) < sum(len(codes) for _, codes in results) else results


def _merge(results: Results) -> Results:
    """Return the codes of a topic that is there twice in one place."""
    merged: dict[TopicKey, list[tuple[int, int]]] = {}
    for key, codes in results:
        merged.setdefault(key, []).extend(codes)
    return list(merged.items())


def _write(
    groups: GroupCoordinator,
    version: int,
    who: tuple[str, int, str, str | None],
    offsets: list[tuple[str, int, CommittedOffset]],
) -> int:
    """Write offsets of partitions that exist, if the group lets the member; return a code for all.

    ``who`` commits: group, generation, member id and instance id.
    """
    group_id, generation, member_id, instance_id = who
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
        return int(error.code)
    return 0
