"""The partitions of a commit, one after the other: which exist, their records, what is kept.

Compiled by Cython. The types of C stand in ``_commit_kernels.pxd``,
the columns in `protocol.messages.columns`.
"""

from typing import TYPE_CHECKING, Any

import cython

from siltstone.broker.groups.offset_metadata import is_too_long
from siltstone.protocol.coordinator.group_errors import OffsetMetadataTooLarge
from siltstone.protocol.coordinator.group_records import (
    NO_EXPIRY,
    VERSION,
    VERSION_WITH_EXPIRY,
    VERSION_WITH_TOPIC_ID,
)
from siltstone.protocol.core import fill_versioned, write_alike
from siltstone.protocol.errors import UnknownTopicId, UnknownTopicOrPartition
from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages.consumer_offsets import OFFSET_COMMIT_KEY, OFFSET_COMMIT_VALUE

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.protocol.core import Grid, grid_of
    from siltstone.protocol.core._messages import cell_of, put_cell, value_of
    from siltstone.protocol.messages.columns import (
        COMMIT_CODES_COLUMNS,
        COMMITTED_COLUMNS,
        COMMITTED_EPOCH,
        COMMITTED_METADATA,
        COMMITTED_OFFSET,
        ERROR_CODE,
        PARTITION,
        STORED_COLUMNS,
        STORED_VALUE,
    )

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic
    from siltstone.protocol.messages.offset_commit import OffsetCommitRequestTopic

    Results = list[tuple[str, bytes, Grid]]


_NO_IDS: dict[str, bytes] = {}
_NOTHING_COMMITTED = (-1, -1, "")  # offset, leader epoch, metadata
_TOO_LARGE = OffsetMetadataTooLarge.code
_UNKNOWN = UnknownTopicOrPartition.code
_UNKNOWN_ID = UnknownTopicId.code

_KEY = OFFSET_COMMIT_KEY.table(0)
_KEY_TYPE = OFFSET_COMMIT_KEY.key
_VALUES = [
    OFFSET_COMMIT_VALUE.table(version)
    for version in range(OFFSET_COMMIT_VALUE.first, OFFSET_COMMIT_VALUE.last + 1)
]
# Where the fields of a key and of a value stand in a request.
_KEY_FROM = (-1, -1, PARTITION)
_VALUE_FROM = (COMMITTED_OFFSET, COMMITTED_EPOCH, -1, -1, -1, -1)

# What the topics of a group cost in memory, each of their partitions with an offset whose value has
# not more than _VALUE_BYTES (a dozen characters of metadata), a transaction with offsets of the
# group, and each of these besides its value.
TOPIC_BYTES = 220
OFFSET_BYTES = 120
CHARACTER_BYTES = 4
TRANSACTION_BYTES = 400
PENDING_BYTES = 200
_TOPIC, _OFFSET, _CHARACTER = TOPIC_BYTES, OFFSET_BYTES, CHARACTER_BYTES  # numbers of C here
_VALUE_BYTES = 40


class Run:
    """Partitions of a topic that follow each other in a request and have the same metadata.

    They are ``rows[start:stop]``, which begin as those of an OffsetCommit do.
    """

    __slots__ = ("metadata", "rows", "start", "stop", "topic")

    def __init__(self, topic: str, rows: Grid, start: int, metadata: str) -> None:
        self.topic = topic
        self.rows = rows
        self.start = start
        self.stop = start + 1
        self.metadata = metadata


class NewOffsets:
    """Offsets of one group that are committed together: by one record each, in one batch.

    All are of one time, and expire at one or never. ``max_bytes`` is how many they may take in
    memory, if none of their topics and partitions is there yet.
    """

    __slots__ = ("_expiry_ms", "_last", "_now_ms", "count", "max_bytes", "runs")

    def __init__(self, now_ms: int, expiry_ms: int = NO_EXPIRY) -> None:
        self.count = 0
        self.max_bytes = 0
        self.runs: list[Run] = []
        self._last: Run | None = None
        self._now_ms = now_ms
        self._expiry_ms = expiry_ms

    def add(self, topic: str, rows: Grid, place: int, metadata: str) -> None:
        """Add the offset of a row of a request."""
        last = self._last
        if (
            last is not None
            and last.rows is rows
            and last.stop == place
            and last.metadata == metadata
        ):
            last.stop += 1
        else:
            self._last = Run(topic, rows, place, metadata)
            self.runs.append(self._last)
            self.max_bytes += _TOPIC
        self.max_bytes += _OFFSET + _CHARACTER * len(metadata)
        self.count += 1

    def named(self) -> "list[tuple[str, int]]":
        """Return topics and partitions."""
        return [
            (run.topic, value_of(run.rows, place, PARTITION))
            for run in self.runs
            for place in range(run.start, run.stop)
        ]

    def journal_rows(
        self, group_id: str, ids: dict[str, bytes] = _NO_IDS
    ) -> "list[tuple[bytes, bytes]]":
        """Return the journal's keys and values; ``ids`` are those of topics that must be told."""
        usual = VERSION if self._expiry_ms == NO_EXPIRY else VERSION_WITH_EXPIRY
        pairs: list[tuple[bytes, bytes]] = []
        for run in self.runs:
            topic_id = ids.get(run.topic, NO_ID)
            version = VERSION_WITH_TOPIC_ID if run.topic in ids else usual
            table = _VALUES[version]
            start = run.start
            stop = run.stop
            key = (group_id, run.topic, 0)
            value = (0, 0, run.metadata, self._now_ms, self._expiry_ms, topic_id)
            keys = write_alike(_KEY, key, _KEY_TYPE, run.rows, _KEY_FROM, start, stop)
            values = write_alike(table, value, version, run.rows, _VALUE_FROM, start, stop)
            for place in range(stop - start):
                pairs.append((keys[place], values[place]))  # noqa: PERF401  # zip costs more
        return pairs


class GroupOffsets:
    """The offsets of one group; ``pending`` are those of open transactions, by producer id.

    Of two offsets of a partition that count, the one whose record stands later in the journal is
    the group's, whenever their transactions ended: so a compacted journal says the same. A pending
    offset is kept with its place among all that were ever pending. None stands for one before whose
    end a later one was committed: that stays, however the transaction ends. ``more_bytes`` is what
    the group takes in memory besides its topics and offsets of the usual size: metadata, and what
    is pending.
    """

    __slots__ = ("_last_place", "committed", "more_bytes", "pending")

    def __init__(self) -> None:
        self.more_bytes = 0
        self.committed: dict[str, dict[int, bytes]] = {}
        self.pending: dict[int, dict[tuple[str, int], tuple[int, bytes] | None]] = {}
        self._last_place = 0

    def put(self, topic: str, partition: int, stored: bytes) -> bool:
        """Keep an offset whose record is the last, and tell whether there was none before."""
        return self.put_after(topic, partition, stored, self._last_place)

    def put_after(self, topic: str, partition: int, stored: bytes, place: int) -> bool:
        """Keep an offset whose record follows that of a place among those that were pending.

        Tells whether there was none before.
        """
        for offsets in self.pending.values():
            waits = offsets.get((topic, partition))
            if waits is not None and waits[0] <= place:
                offsets[topic, partition] = None
                self.more_bytes -= len(waits[1])
        partitions = self.committed.get(topic)
        if partitions is None:
            self.more_bytes += excess_of(stored)
            self.committed[topic] = {partition: stored}
            return True
        if len(stored) > _VALUE_BYTES or self.more_bytes:
            self.more_bytes += excess_of(stored) - excess_of(partitions.get(partition))
        count = len(partitions)
        partitions[partition] = stored
        return len(partitions) > count

    def put_all(self, new: NewOffsets, rows: "Sequence[tuple[bytes, bytes]]") -> int:
        """Keep offsets that are in the journal as ``rows``; return how many are of new partitions.

        Each is kept as its record's value.
        """
        count = added = 0
        for run in new.runs:
            start = run.start
            stop = run.stop
            for place in range(start, stop):
                added += self.put(run.topic, value_of(run.rows, place, PARTITION), rows[count][1])
                count += 1
        return added

    def remove(self, topic: str, partition: int) -> bool:
        """Forget an offset, pending or committed, and tell whether one was committed."""
        for offsets in self.pending.values():
            if (topic, partition) in offsets:
                self.more_bytes -= PENDING_BYTES + _length_of(offsets.pop((topic, partition)))
        partitions = self.committed.get(topic)
        if partitions is None:
            return False
        stored = partitions.pop(partition, None)
        if stored is None:
            return False
        self.more_bytes -= excess_of(stored)
        if not partitions:
            del self.committed[topic]
        return True

    def put_pending(self, producer_id: int, key: tuple[str, int], stored: bytes) -> None:
        """Keep an offset that a producer's transaction will commit."""
        offsets = self.pending.get(producer_id)
        if offsets is None:
            offsets = self.pending[producer_id] = {}
            self.more_bytes += TRANSACTION_BYTES
        self.more_bytes += growth_of(offsets, key, stored)
        self._last_place += 1
        offsets[key] = self._last_place, stored

    def end(self, producer_id: int, is_commit: bool) -> int:
        """Commit or drop the offsets of a producer's transaction.

        Returns:
            How many are of new partitions.
        """
        added = 0
        offsets = self.pending.pop(producer_id, None)
        if offsets is None:
            return added
        self.more_bytes -= TRANSACTION_BYTES
        for (topic, partition), waited in offsets.items():
            self.more_bytes -= PENDING_BYTES + _length_of(waited)
            if is_commit and waited is not None:
                added += self.put_after(topic, partition, waited[1], waited[0])
        return added

    def is_pending(self, topic: str, partition: int) -> bool:
        """Tell whether an open transaction will commit an offset."""
        return any((topic, partition) in offsets for offsets in self.pending.values())


def growth_of(
    offsets: dict[tuple[str, int], tuple[int, bytes] | None], key: tuple[str, int], stored: bytes
) -> int:
    """Return how many bytes more a pending offset takes than what it replaces."""
    if key not in offsets:
        return PENDING_BYTES + len(stored)
    return len(stored) - _length_of(offsets[key])


def _length_of(waits: tuple[int, bytes] | None) -> int:
    """Return how long the value of a pending offset is."""
    return 0 if waits is None else len(waits[1])


def excess_of(stored: bytes | None) -> int:
    """Return how much longer than usual a value is."""
    return 0 if stored is None else max(0, len(stored) - _VALUE_BYTES)


def list_committed(partitions: "dict[int, bytes]", indexes: "Sequence[int]") -> Grid:
    """Return the rows of an OffsetFetch answer for partitions with these committed offsets."""
    rows = Grid(len(indexes), STORED_COLUMNS)
    stored = [partitions.get(index) for index in indexes]
    fill_versioned(rows, STORED_VALUE, _VALUES, stored, _NOTHING_COMMITTED)
    for place, index in enumerate(indexes):
        put_cell(rows, place, PARTITION, index)
    return rows


def judge_offsets(
    topics: "Iterable[OffsetCommitRequestTopic]",
    known: "Mapping[Any, Topic]",
    by_id: bool,
    settings: "BrokerSettings",
    offsets: NewOffsets,
) -> "tuple[Results, bool, bool]":
    """Put offsets of partitions that exist into ``offsets``, unless their metadata is too long.

    Topics are ``known`` by their ids if ``by_id``, else by name.

    Returns:
        A code for each partition, whether any exists, and whether any does not.
    """
    results: Results = []
    is_any_known = is_any_unknown = False
    for name, topic_id, partitions in topics:
        topic = known.get(topic_id if by_id else name)
        known_name = "" if topic is None else topic.name
        partition_count = 0 if topic is None else len(topic.logs)
        rows = grid_of(partitions, COMMITTED_COLUMNS)
        count = len(rows)
        codes = Grid(count, COMMIT_CODES_COLUMNS)
        results.append((name, topic_id, codes))
        for place in range(count):
            index = cell_of(rows, place, PARTITION)
            put_cell(codes, place, PARTITION, index)
            if index < 0 or index >= partition_count:
                is_any_unknown = True
                unknown = _UNKNOWN_ID if by_id and topic is None else _UNKNOWN
                put_cell(codes, place, ERROR_CODE, unknown)
                continue
            is_any_known = True
            metadata = value_of(rows, place, COMMITTED_METADATA) or ""
            if metadata and is_too_long(metadata, settings.server):
                put_cell(codes, place, ERROR_CODE, _TOO_LARGE)
                continue
            offsets.add(known_name, rows, place, metadata)
    return results, is_any_known, is_any_unknown
