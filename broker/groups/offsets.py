"""The offsets of groups: committed offsets, and offsets that open transactions will commit.

(Kafka: ``OffsetMetadataManager``.) A committed offset is kept as the bytes of its record's value,
and read on request: a million offsets are then a million small objects that the garbage collector
never looks at.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final
from zlib import crc32

from siltstone.broker.groups.group_offsets import (
    CHARACTER_BYTES,
    OFFSET_BYTES,
    TOPIC_BYTES,
    TRANSACTION_BYTES,
    GroupOffsets,
    NewOffsets,
    excess_of,
    growth_of,
)
from siltstone.broker.topics.retired import RetiredNames
from siltstone.protocol.coordinator.group_records import offset_key, read_offset
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import NO_PRODUCER, EntryKind, Producer, Row

_SHARDS: Final = 64  # one dict of a million groups would stop the loop for 50 ms when it grows
_NO_IDS: dict[str, bytes] = {}
TOMBSTONES_AT_A_TIME: Final = 1000
_NOTHING: Mapping[str, dict[int, bytes]] = {}
_NO_OFFSETS: dict[int, bytes] = {}
_GROUP_BYTES: Final = 350
"""The bytes of a group in memory besides its name, its topics and their offsets."""
_ROOM: Final = 1 << 20
"""How many bytes offsets may take until their limit is looked at again."""


class Offsets:
    """The offsets of all groups, of every kind (loop only).

    ``append(partition, rows, producer)`` writes offsets into the journal; only then do the offsets
    count here. An offset that a transaction commits waits for the marker in the same partition of
    the journal.

    All offsets take ``size`` bytes in memory: ``find_room(size, growth)`` refuses to let them grow
    by ``growth`` if there is no room, and returns the room that is left. It is called again only
    when the commits since then could have used up that room.

    Offsets of deleted topics, ``retired``, are not shown; `delete_old` deletes them. A group never
    has offsets of two topics with one name: the offsets of the deleted topic are deleted before an
    offset is committed for the new topic.
    """

    def __init__(
        self,
        append: Callable[[int, Sequence[Row], Producer], int],
        find_room: Callable[[int, int], int] | None = None,
        retired: RetiredNames | None = None,
    ) -> None:
        self.count = 0
        self.commit_count = 0
        self.expired_count = 0
        self.deleted_count = 0
        self._topic_count = 0
        self._other_bytes = 0  # the memory of groups besides committed offsets
        self._append = append
        self._find_room = find_room or _no_limit
        self._retired = RetiredNames({}) if retired is None else retired
        self._retired_names = self._retired.names  # a view of the dict's keys, for fast look-ups
        self._room = 0
        self._shards: tuple[dict[str, GroupOffsets], ...] = tuple([{} for _ in range(_SHARDS)])
        self._open: dict[tuple[int, int], set[str]] = {}  # partition, producer id -> groups

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._shard(group_id)

    def __iter__(self) -> Iterator[str]:
        return iter([group_id for shard in self._shards for group_id in shard])

    @property
    def group_count(self) -> int:
        """How many groups have committed offsets."""
        return sum(map(len, self._shards))

    @property
    def size(self) -> int:
        """How many bytes the offsets of all groups take in memory, with the groups' names."""
        return self.count * OFFSET_BYTES + self._topic_count * TOPIC_BYTES + self._other_bytes

    def by_shard(self) -> Iterator[tuple[str, ...]]:
        """Yield all groups, some at a time; other work may run in between."""
        for shard in self._shards:
            yield tuple(shard)

    def find_groups(self, topics: AbstractSet[str]) -> Iterator[list[str]]:
        """Yield the groups with offsets of some topics, pending offsets too, in steps.

        Other work may run in between; a step that finds no group yields an empty list.
        """
        for shard in self._shards:
            yield [
                group_id
                for group_id, group in shard.items()
                if not group.committed.keys().isdisjoint(topics)
                or (group.pending and _has_pending_of(group, topics))
            ]

    def append(self, group_id: str, partition: int, offsets: NewOffsets) -> None:
        """Commit offsets of a group that this partition of the journal keeps.

        Raises:
            KafkaError: The journal did not take the offsets, or they would take too many bytes in
                memory.
        """
        ids = self._make_place(group_id, partition, offsets) if self._retired_names else _NO_IDS
        rows = offsets.journal_rows(group_id, ids)
        self._room -= offsets.max_bytes + _GROUP_BYTES + CHARACTER_BYTES * len(group_id)
        if self._room < 0 or ids:  # a value with a topic id is longer
            growth = self._find_growth(group_id, offsets, rows)
            self._room = min(self._find_room(self.size, growth), _ROOM)
        self._append(partition, rows, NO_PRODUCER)
        group = self._of(group_id)
        topics, more_bytes = len(group.committed), group.more_bytes
        added = group.put_all(offsets, rows)
        if added or group.more_bytes != more_bytes:
            self.count += added
            self._count_change(group, topics, more_bytes)
        self.commit_count += offsets.count

    def append_transactional(
        self, group_id: str, partition: int, offsets: NewOffsets, producer: Producer
    ) -> None:
        """Write offsets of a transaction; `complete` will commit or drop them.

        Raises:
            KafkaError: The journal did not take the offsets, or they would take too many bytes in
                memory.
        """
        ids = self._make_place(group_id, partition, offsets) if self._retired_names else _NO_IDS
        rows = offsets.journal_rows(group_id, ids)
        growth = self._find_pending_growth(group_id, offsets, rows, producer.id)
        self._room = min(self._find_room(self.size, growth), _ROOM)
        self._append(partition, rows, producer)
        for named, (_, value) in zip(offsets.named(), rows, strict=True):
            self._put_pending(partition, producer.id, group_id, named, value)

    def complete(self, partition: int, producer_id: int, *, is_commit: bool) -> None:
        """Apply the marker that ended a producer's transaction in a partition."""
        for group_id in self._open.pop((partition, producer_id), ()):
            group = self._find(group_id)
            if group is None:
                continue  # deleted meanwhile
            topics, more_bytes = len(group.committed), group.more_bytes
            self.count += group.end(producer_id, is_commit)
            self._count_change(group, topics, more_bytes)
            self._drop_if_empty(group_id, group)

    def find(self, group_id: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Return what a group has committed for a partition."""
        stored = self.of_topic(group_id, topic).get(partition)
        return None if stored is None else read_offset(stored)

    def topics(self, group_id: str) -> Mapping[str, dict[int, bytes]]:
        """Return a group's committed offsets by topic and partition; `read_offset` reads one."""
        group = self._find(group_id)
        if group is None:
            return _NOTHING
        if self._retired:
            old = self._find_old(group, self._retired.names)
            if old:
                return {topic: each for topic, each in group.committed.items() if topic not in old}
        return group.committed

    def of_topic(self, group_id: str, topic: str) -> dict[int, bytes]:
        """Return what a group has committed for a topic by partition, for `read_offset`."""
        group = self._find(group_id)
        found = None if group is None else group.committed.get(topic)
        if group is None or found is None:
            return _NO_OFFSETS
        is_old = topic in self._retired and self._find_old(group, {topic})
        return _NO_OFFSETS if is_old else found

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Tell whether an open transaction will commit an offset of this partition."""
        group = self._find(group_id)
        if group is None or not group.pending or not group.is_pending(topic, partition):
            return False
        return topic not in self._retired or not self._find_old(group, {topic})

    def has_pending(self, group_id: str) -> bool:
        """Tell whether an open transaction will commit offsets of the group."""
        group = self._find(group_id)
        return group is not None and any(group.pending.values())

    def delete(self, group_id: str, partition: int, named: Iterable[tuple[str, int]]) -> int:
        """Delete offsets of a group, pending ones included, and return how many there were.

        Raises:
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        group = self._find(group_id)
        if group is None:
            return 0
        there = [
            (topic, index)
            for topic, index in named
            if index in group.committed.get(topic, {}) or group.is_pending(topic, index)
        ]
        try:
            for start in range(0, len(there), TOMBSTONES_AT_A_TIME):
                some = there[start : start + TOMBSTONES_AT_A_TIME]
                rows = [(offset_key(group_id, topic, index), None) for topic, index in some]
                self._append(partition, rows, NO_PRODUCER)
                for topic, index in some:
                    self._remove(group, topic, index)
        finally:
            self._drop_if_empty(group_id, group)
        return len(there)

    def delete_old(self, group_id: str, partition: int, names: AbstractSet[str]) -> int:
        """Delete a group's offsets of the deleted topics with these names, pending offsets too.

        Raises:
            KafkaError: The journal did not take the records. The error can be sent as the answer.
        """
        group = self._find(group_id)
        old = set() if group is None else self._find_old(group, names)
        return self.delete(group_id, partition, self.list_all(group_id, old)) if old else 0

    def _make_place(self, group_id: str, partition: int, offsets: NewOffsets) -> dict[str, bytes]:
        """Delete a group's offsets of deleted topics whose names the new offsets have.

        Returns:
            The ids of the new topics that have retired names; the ids tell them from the deleted
            topics.
        """
        ids = self._retired.new_ids({run.topic for run in offsets.runs})
        if ids:
            self.delete_old(group_id, partition, ids.keys())
        return ids

    def _find_old(self, group: GroupOffsets, names: AbstractSet[str]) -> set[str]:
        """Return the names of which a group has offsets of a deleted topic, among retired names.

        All offsets that a group has of a name are of one topic, so one of them is looked at.
        """
        there = {
            topic: next(iter(group.committed[topic].values()))
            for topic in names & group.committed.keys()
        }
        for pending in group.pending.values():
            for (topic, _), waits in pending.items():
                if waits is not None and topic in names:
                    there.setdefault(topic, waits[1])
        return {topic for topic, stored in there.items() if self._is_of_deleted(topic, stored)}

    def _is_of_deleted(self, topic: str, stored: bytes) -> bool:
        """Tell whether an offset is not of the topic that has the name now."""
        topic_id = self._retired.find_id(topic)
        return topic_id is None or read_offset(stored).topic_id != topic_id

    def _shard(self, group_id: str) -> dict[str, GroupOffsets]:
        return self._shards[crc32(group_id.encode()) % _SHARDS]  # the same in every process

    def _find(self, group_id: str) -> GroupOffsets | None:
        return self._shard(group_id).get(group_id)

    def _of(self, group_id: str) -> GroupOffsets:
        shard = self._shard(group_id)
        group = shard.get(group_id)
        if group is None:
            group = shard[group_id] = GroupOffsets()
            self._other_bytes += _size_of_group(group_id)
        return group

    def _put(self, group: GroupOffsets, topic: str, partition: int, stored: bytes) -> None:
        """Keep a committed offset of a group."""
        topics, more_bytes = len(group.committed), group.more_bytes
        self.count += group.put(topic, partition, stored)
        self._count_change(group, topics, more_bytes)

    def _remove(self, group: GroupOffsets, topic: str, partition: int) -> None:
        """Forget a pending or committed offset of a group."""
        topics, more_bytes = len(group.committed), group.more_bytes
        self.count -= group.remove(topic, partition)
        self._count_change(group, topics, more_bytes)

    def _count_change(self, group: GroupOffsets, topics: int, more_bytes: int) -> None:
        """Count the bytes that a group takes more, or less, than before."""
        self._topic_count += len(group.committed) - topics
        self._other_bytes += group.more_bytes - more_bytes

    def _find_pending_growth(
        self,
        group_id: str,
        offsets: NewOffsets,
        rows: Sequence[tuple[bytes, bytes]],
        producer_id: int,
    ) -> int:
        """Return how many bytes more a transaction's offsets take than those that they replace."""
        group = self._find(group_id)
        known = None if group is None else group.pending.get(producer_id)
        growth = _size_of_group(group_id) if group is None else 0
        growth += TRANSACTION_BYTES if known is None else 0
        for named, (_, stored) in zip(offsets.named(), rows, strict=True):
            growth += growth_of(known or {}, named, stored)
        return growth

    def _find_growth(self, group_id: str, offsets: NewOffsets, rows: Sequence[Row]) -> int:
        """Return how many bytes more the offsets take than those that they replace."""
        group = self._find(group_id)
        known = _NOTHING if group is None else group.committed
        growth = _size_of_group(group_id) if group is None else 0
        new_topics = set()
        for (topic, index), (_, stored) in zip(offsets.named(), rows, strict=True):
            before = known.get(topic, {}).get(index)
            growth += excess_of(stored) - excess_of(before)
            growth += OFFSET_BYTES if before is None else 0
            if topic not in known:
                new_topics.add(topic)
        return growth + len(new_topics) * TOPIC_BYTES

    def _drop_if_empty(self, group_id: str, group: GroupOffsets) -> None:
        if not group.committed and not group.pending:
            del self._shard(group_id)[group_id]
            self._other_bytes -= _size_of_group(group_id)

    def list_all(
        self, group_id: str, names: AbstractSet[str] | None = None
    ) -> list[tuple[str, int]]:
        """Return the partitions of a group's offsets, of some topics or all, pending ones too."""
        group = self._find(group_id)
        if group is None:
            return []
        named = {(topic, index) for topic, indexes in group.committed.items() for index in indexes}
        named = named.union(*group.pending.values())
        return sorted(key for key in named if names is None or key[0] in names)

    def forget(self, group_id: str) -> None:
        """Forget a group that is deleted according to the journal."""
        group = self._shard(group_id).pop(group_id, None)
        if group is not None:
            self.count -= sum(map(len, group.committed.values()))
            self._topic_count -= len(group.committed)
            self._other_bytes -= _size_of_group(group_id) + group.more_bytes

    def clear(self) -> None:
        """Forget everything: the journal was deleted."""
        for shard in self._shards:
            shard.clear()
        self._open.clear()
        self.count = self._topic_count = self._other_bytes = 0

    def replay(
        self,
        partition: int,
        key: tuple[str, str, int],
        stored: bytes | None,
        kind: int,
        producer_id: int,
    ) -> None:
        """Apply the journal's record of a group's offset; a record without a value deletes it."""
        group_id, topic, index = key
        if stored is None:
            group = self._find(group_id)
            if group is not None:
                self._remove(group, topic, index)
                self._drop_if_empty(group_id, group)
        elif kind == EntryKind.PLAIN:
            self._put(self._of(group_id), topic, index, stored)
        else:
            self._put_pending(partition, producer_id, group_id, (topic, index), stored)

    def _put_pending(
        self, partition: int, producer_id: int, group_id: str, key: tuple[str, int], stored: bytes
    ) -> None:
        group = self._of(group_id)
        more_bytes = group.more_bytes
        group.put_pending(producer_id, key, stored)
        self._other_bytes += group.more_bytes - more_bytes
        self._open.setdefault((partition, producer_id), set()).add(group_id)


def _has_pending_of(group: GroupOffsets, topics: AbstractSet[str]) -> bool:
    return any(topic in topics for pending in group.pending.values() for topic, _ in pending)


def _no_limit(size: int, growth: int) -> int:
    """Always let offsets grow: the table has no limit."""
    del size, growth
    return _ROOM


def _size_of_group(group_id: str) -> int:
    """Return how many bytes a group takes in memory, without its topics and their offsets."""
    return _GROUP_BYTES + len(group_id) * (1 if group_id.isascii() else CHARACTER_BYTES)
