"""OffsetFetch (9), versions 1-10: what groups have committed.

v2 all topics · v5 leader epoch (KIP-320) · v7 require stable (KIP-447) · v8 several groups
(KIP-709) · v9 member epochs (KIP-848) · v10 topic ids. A partition without an offset, or without a
topic, is no error: its offset is -1. It takes the frame itself, since the shapes of old versions
differ more than fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.coordinator.group_errors import GroupIdNotFound, UnstableOffsetCommit
from protocol.coordinator.group_records import read_offset
from protocol.errors import KafkaError, UnknownTopicId
from protocol.offset_fetch import (
    API_KEY,
    FIRST_WITH_GROUP_ERROR,
    FIRST_WITH_TOPIC_ID,
    GroupCommitted,
    PartitionCommitted,
    encode,
    parse,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.connection import Connection
    from broker.context import Rooms
    from protocol.offset_fetch import FetchGroup
    from protocol.topic_key import TopicKey

_NO_OFFSETS: Mapping[int, bytes] = {}


def handle(
    connection: Connection,
    version: int,
    correlation_id: int,
    buffer: memoryview,
    position: int,
    end: int,
) -> bytes:
    """Answer for every group of the request."""
    request = parse(version, buffer, position, end)
    groups = [
        _fetch(connection.rooms, version, wanted, require_stable=request.require_stable)
        for wanted in request.groups
    ]
    stats = connection.listener.dispatcher.stats.by_key[API_KEY]
    for group in groups:
        if group.error_code:
            stats.failed(group.error_code)
    return encode(version, correlation_id, groups)


def _fetch(
    rooms: Rooms, version: int, wanted: FetchGroup, *, require_stable: bool
) -> GroupCommitted:
    group_id = wanted.group_id
    try:
        rooms.groups.check(group_id)
        group = rooms.groups.find(group_id)
        if group is not None:
            group.check_fetch(wanted.member_id, wanted.member_epoch)
    except GroupIdNotFound:
        pass  # a group without offsets, as one that never was
    except KafkaError as error:
        return _refuse(version, wanted, error.code.value)
    lookup = _Lookup(rooms, group_id, require_stable=require_stable)
    if wanted.topics is None:
        return GroupCommitted(group_id, lookup.find_all(version))
    topics = sorted(wanted.topics, key=lookup.is_unknown)  # those come last, as in Kafka
    return GroupCommitted(group_id, [(key, lookup.find(key, indexes)) for key, indexes in topics])


def _refuse(version: int, wanted: FetchGroup, code: int) -> GroupCommitted:
    """Return the error of a group, which version 1 can only say of partitions."""
    if version >= FIRST_WITH_GROUP_ERROR:
        return GroupCommitted(wanted.group_id, (), code)
    topics = [
        (key, [PartitionCommitted(index, error_code=code) for index in indexes])
        for key, indexes in wanted.topics or ()
    ]
    return GroupCommitted(wanted.group_id, topics, code)


class _Lookup:
    """The offsets of one group while a request asks for them."""

    __slots__ = ("_committed", "_group_id", "_has_pending", "_rooms")

    def __init__(self, rooms: Rooms, group_id: str, *, require_stable: bool) -> None:
        self._rooms = rooms
        self._group_id = group_id
        self._committed = rooms.groups.offsets.topics(group_id)
        self._has_pending = require_stable and rooms.groups.offsets.has_pending(group_id)

    def is_unknown(self, wanted: tuple[TopicKey, list[int]]) -> bool:
        """Tell whether a topic is asked for by an id that no topic has."""
        key = wanted[0]
        return isinstance(key, bytes) and key not in self._rooms.topics.by_id

    def find(self, key: TopicKey, indexes: list[int]) -> list[PartitionCommitted]:
        """Return the offsets of these partitions."""
        if isinstance(key, bytes):
            topic = self._rooms.topics.by_id.get(key)
            if topic is None:
                code = UnknownTopicId.code.value
                return [PartitionCommitted(index, error_code=code) for index in indexes]
            name = topic.name
        else:
            name = key
        committed = self._committed.get(name, _NO_OFFSETS)
        return [self._find(name, index, committed.get(index)) for index in indexes]

    def find_all(self, version: int) -> list[tuple[TopicKey, list[PartitionCommitted]]]:
        """Return all offsets; those of a topic that has no id any more can not be told by id."""
        found: list[tuple[TopicKey, list[PartitionCommitted]]] = []
        for name, partitions in self._committed.items():
            key: TopicKey = name
            if version >= FIRST_WITH_TOPIC_ID:
                topic = self._rooms.topics.topics.get(name)
                if topic is None:
                    continue
                key = topic.key
            rows = [self._find(name, index, stored) for index, stored in partitions.items()]
            found.append((key, rows))
        return found

    def _find(self, name: str, index: int, stored: bytes | None) -> PartitionCommitted:
        if self._has_pending and self._rooms.groups.offsets.is_pending(self._group_id, name, index):
            return PartitionCommitted(index, error_code=UnstableOffsetCommit.code.value)
        if stored is None:
            return PartitionCommitted(index)
        committed = read_offset(stored)
        return PartitionCommitted(
            index, committed.offset, committed.leader_epoch, committed.metadata
        )
