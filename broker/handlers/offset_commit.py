"""OffsetCommit (8), versions 2-10: how far a group has come, written before it is answered.

v5 no retention time · v6 leader epoch (KIP-320) · v7 instance id (KIP-345) · v9 member epochs and
GROUP_ID_NOT_FOUND (KIP-848) · v10 topic ids. It takes the frame itself: consumers that commit each
batch send it as often as they fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.groups.consumer_group_checks import find_refused
from protocol.coordinator.group_errors import OffsetMetadataTooLarge
from protocol.coordinator.group_records import NO_EXPIRY, CommittedOffset
from protocol.errors import KafkaError, UnknownTopicId, UnknownTopicOrPartition
from protocol.offset_commit import API_KEY, NO_RETENTION, encode, parse

if TYPE_CHECKING:
    from broker.answers import Answer, Waiting
    from broker.connection import Connection
    from broker.context import Rooms
    from protocol.offset_commit import OffsetCommitRequest
    from protocol.topic_key import TopicKey

    Results = list[tuple[TopicKey, list[tuple[int, int]]]]


_LATEST_MS = (1 << 63) - 1
# What the int16 length of a record's field surely holds, whatever the characters.
_MOST_CHARACTERS = 8191


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> Answer | Waiting:
    """Commit and answer; return a coroutine if the journal must be made or flushed first."""
    request = parse(version, buffer, position, end)
    journal = connection.rooms.groups.log
    if not journal.is_created:
        return _commit_first(connection, version, correlation_id, request)
    results = _commit(connection.rooms, version, request)
    if journal.unflushed:
        return _flush(connection, version, correlation_id, results)
    return _answer(connection, version, correlation_id, results)


async def _commit_first(
    connection: Connection, version: int, correlation_id: int, request: OffsetCommitRequest
) -> Answer:
    """Make the journal: this is the first group ever."""
    try:
        await connection.rooms.groups.log.ensure_created()
    except KafkaError as error:
        code = error.code.value
        refused: Results = [
            (key, [(each.index, code) for each in partitions]) for key, partitions in request.topics
        ]
        return _answer(connection, version, correlation_id, refused)
    results = _commit(connection.rooms, version, request)
    return await _flush(connection, version, correlation_id, results)


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
    """Commit what can be, and return a code for each partition of the request."""
    now_ms = rooms.clock.now_ms()
    expiry = _expiry(request, now_ms)
    most = min(rooms.settings.server.offset_metadata_max_bytes, _MOST_CHARACTERS)
    results: Results = []
    offsets: list[tuple[str, int, CommittedOffset]] = []
    places: list[tuple[list[tuple[int, int]], int]] = []
    places_of_offsets: list[tuple[list[tuple[int, int]], int]] = []
    known = 0
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
            known += 1
            if metadata is not None and len(metadata) > most:
                codes.append((index, OffsetMetadataTooLarge.code.value))
            else:
                committed = CommittedOffset(offset, leader_epoch, metadata or "", now_ms, expiry)
                offsets.append((topic.name, index, committed))
                places_of_offsets.append((codes, len(codes)))
                codes.append((index, 0))
            places.append((codes, len(codes) - 1))
    if known:
        code, refused = _write(rooms, version, request, offsets)
        if code:
            for codes, place in places:
                codes[place] = codes[place][0], code
        for number, refusal in refused.items():
            codes, place = places_of_offsets[number]
            codes[place] = codes[place][0], refusal
    return results


def _write(
    rooms: Rooms,
    version: int,
    request: OffsetCommitRequest,
    offsets: list[tuple[str, int, CommittedOffset]],
) -> tuple[int, dict[int, int]]:
    """Write offsets of partitions that exist, if the group lets the member.

    Returns:
        The code of all partitions; those of offsets that alone are refused, by their numbers.
    """
    refused: dict[int, int] = {}
    groups = rooms.groups
    group_id, member_id = request.group_id, request.member_id
    try:
        groups.check(group_id)
        group = groups.check_commit(
            group_id, request.generation, member_id, request.instance_id, version
        )
        group.touch(member_id)
        check = group.find_partition_check(member_id, request.generation)
        if check is not None:
            refused = find_refused(check, offsets, groups.consumer.image)
            offsets = [each for number, each in enumerate(offsets) if number not in refused]
        if offsets:
            groups.offsets.append(group_id, group.partition, offsets)
    except KafkaError as error:
        return int(error.code), {}
    return 0, refused
