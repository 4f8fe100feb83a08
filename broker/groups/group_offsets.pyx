"""The offsets of one group: the offsets that a request commits, their records, and kept offsets.

The columns are in `protocol.messages.columns`.
"""

from typing import TYPE_CHECKING

cimport cython

from siltstone.protocol.core._messages cimport Grid, cell_of, grid_of, put_cell, value_of

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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.broker.topics.topic import Topic

include "columns.pxi"  # made by the build from protocol/messages/columns.py

cdef dict NO_IDS = {}
cdef tuple NOTHING_COMMITTED = (-1, -1, "")  # offset, leader epoch, metadata
cdef int TOO_LARGE = OffsetMetadataTooLarge.code
cdef int UNKNOWN = UnknownTopicOrPartition.code
cdef int UNKNOWN_ID = UnknownTopicId.code

cdef object KEY = OFFSET_COMMIT_KEY.table(0)
cdef object KEY_TYPE = OFFSET_COMMIT_KEY.key
cdef list VALUES = [
    OFFSET_COMMIT_VALUE.table(version)
    for version in range(OFFSET_COMMIT_VALUE.first, OFFSET_COMMIT_VALUE.last + 1)
]
# The positions of the fields of a key and of a value in a request.
cdef tuple KEY_FROM = (-1, -1, PARTITION)
cdef tuple VALUE_FROM = (COMMITTED_OFFSET, COMMITTED_EPOCH, -1, -1, -1, -1)

# The memory for a topic of a group, for a partition with an offset whose value has at most
# USUAL_BYTES (a dozen characters of metadata), for a transaction with offsets of the group, and for
# each of its offsets besides the value.
cdef enum:
    OF_TOPIC = 220
    OF_OFFSET = 120
    OF_CHARACTER = 4
    OF_TRANSACTION = 400
    OF_PENDING = 200
    USUAL_BYTES = 40

TOPIC_BYTES = OF_TOPIC  # type: Final[int]
OFFSET_BYTES = OF_OFFSET  # type: Final[int]
CHARACTER_BYTES = OF_CHARACTER  # type: Final[int]
TRANSACTION_BYTES = OF_TRANSACTION  # type: Final[int]


@cython.final
cdef class Run:
    """The partitions of a topic that are adjacent in a request and have the same metadata.

    The partitions are ``rows[start:stop]``; the rows begin like those of an OffsetCommit.
    """

    cdef readonly str topic, metadata
    cdef readonly Grid rows
    cdef readonly Py_ssize_t start, stop


@cython.final
cdef class NewOffsets:
    """Offsets of one group that are committed together: one record for each, in one batch.

    All have the same commit time, and expire at the same time or never. ``max_bytes`` is the most
    memory that they take, which is the case if the group has none of their topics and partitions
    yet.
    """

    cdef readonly list runs  # type: list[Run]
    cdef readonly Py_ssize_t count, max_bytes
    cdef Run _last
    cdef long long _now_ms, _expiry_ms

    def __init__(self, now_ms: int, expiry_ms: int = NO_EXPIRY):
        self.runs = []
        self._now_ms = now_ms
        self._expiry_ms = expiry_ms

    cpdef add(self, str topic, Grid rows, Py_ssize_t place, str metadata):
        """Add the offset from a row of a request."""
        cdef Run last = self._last
        if (
            last is not None
            and last.rows is rows
            and last.stop == place
            and last.metadata == metadata
        ):
            last.stop += 1
        else:
            last = self._last = Run.__new__(Run)
            last.topic = topic
            last.rows = rows
            last.start = place
            last.stop = place + 1
            last.metadata = metadata
            self.runs.append(last)
            self.max_bytes += OF_TOPIC
        self.max_bytes += OF_OFFSET + OF_CHARACTER * len(metadata)
        self.count += 1

    def named(self) -> list[tuple[str, int]]:
        """Return the topics and partitions of the offsets."""
        cdef Run run
        return [
            (run.topic, value_of(run.rows, place, PARTITION))
            for run in self.runs
            for place in range(run.start, run.stop)
        ]

    def journal_rows(
        self, str group_id, dict ids: dict[str, bytes] = NO_IDS
    ) -> list[tuple[bytes, bytes]]:
        """Return the journal's keys and values; ``ids`` has the topic ids that values must have."""
        cdef int usual = VERSION if self._expiry_ms == NO_EXPIRY else VERSION_WITH_EXPIRY
        cdef int version
        cdef Run run
        cdef list pairs = [], keys, values
        cdef Py_ssize_t place
        for run in self.runs:
            topic_id = ids.get(run.topic, NO_ID)
            version = VERSION_WITH_TOPIC_ID if run.topic in ids else usual
            key = (group_id, run.topic, 0)
            value = (0, 0, run.metadata, self._now_ms, self._expiry_ms, topic_id)
            keys = write_alike(KEY, key, KEY_TYPE, run.rows, KEY_FROM, run.start, run.stop)
            values = write_alike(
                VALUES[version], value, version, run.rows, VALUE_FROM, run.start, run.stop
            )
            for place in range(run.stop - run.start):
                pairs.append((keys[place], values[place]))
        return pairs


@cython.final
cdef class GroupOffsets:
    """The offsets of one group; ``pending`` has those of open transactions, by producer id.

    Of two committed offsets of a partition, the one whose record is later in the journal counts,
    whenever their transactions ended: so a compacted journal gives the same result. A pending
    offset is kept with its number among all offsets that were ever pending. A pending offset
    becomes None if a later offset is committed before its transaction ends: then the later offset
    stays, however the transaction ends. ``more_bytes`` is the memory of the group besides its
    topics and offsets of the usual size: longer metadata, and pending offsets.
    """

    cdef readonly dict committed  # type: dict[str, dict[int, bytes]]
    cdef readonly dict pending  # type: dict[int, dict[tuple[str, int], tuple[int, bytes] | None]]
    cdef readonly long long more_bytes
    cdef long long _last_place

    def __init__(self):
        self.committed = {}
        self.pending = {}

    cpdef bint put(self, str topic, object partition: int, bytes stored) except *:
        """Keep an offset, the last in the journal; return whether its partition is new here."""
        return self._put_after(topic, partition, stored, self._last_place)

    cdef bint _put_after(self, str topic, object partition, bytes stored, long long place) except *:
        """Keep an offset whose record follows the record of the pending offset number ``place``.

        Return whether the partition is new here.
        """
        cdef dict partitions, offsets
        cdef tuple waits
        cdef Py_ssize_t count
        for offsets in self.pending.values():
            waits = offsets.get((topic, partition))
            if waits is not None and waits[0] <= place:
                offsets[topic, partition] = None
                self.more_bytes -= length_of(waits)
        partitions = self.committed.get(topic)
        if partitions is None:
            self.more_bytes += excess_of(stored)
            self.committed[topic] = {partition: stored}
            return True
        if len(stored) > USUAL_BYTES or self.more_bytes:
            self.more_bytes += excess_of(stored) - excess_of(partitions.get(partition))
        count = len(partitions)
        partitions[partition] = stored
        return len(partitions) > count

    def put_all(self, NewOffsets new, list rows: Sequence[tuple[bytes, bytes]]) -> int:
        """Keep offsets that the journal has as ``rows``; return the number of new partitions.

        Each offset is kept as the value of its record.
        """
        cdef Run run
        cdef Py_ssize_t place, count = 0, added = 0
        for run in new.runs:
            for place in range(run.start, run.stop):
                added += self.put(run.topic, value_of(run.rows, place, PARTITION), rows[count][1])
                count += 1
        return added

    def remove(self, str topic, partition: int) -> bool:
        """Forget a pending or committed offset; return whether one was committed."""
        cdef dict partitions, offsets
        cdef bytes stored
        for offsets in self.pending.values():
            if (topic, partition) in offsets:
                self.more_bytes -= OF_PENDING + length_of(offsets.pop((topic, partition)))
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

    def put_pending(self, producer_id: int, tuple key: tuple[str, int], bytes stored):
        """Keep an offset that a producer's transaction will commit."""
        cdef dict offsets = self.pending.get(producer_id)
        if offsets is None:
            offsets = self.pending[producer_id] = {}
            self.more_bytes += OF_TRANSACTION
        self.more_bytes += growth_of(offsets, key, stored)
        self._last_place += 1
        offsets[key] = self._last_place, stored

    def end(self, producer_id: int, bint is_commit) -> int:
        """Commit or drop the offsets of a producer's transaction.

        Returns:
            The number of new partitions.
        """
        cdef dict offsets = self.pending.pop(producer_id, None)
        cdef Py_ssize_t added = 0
        cdef tuple waited
        if offsets is None:
            return added
        self.more_bytes -= OF_TRANSACTION
        for (topic, partition), waited in offsets.items():
            self.more_bytes -= OF_PENDING + length_of(waited)
            if is_commit and waited is not None:
                added += self._put_after(topic, partition, waited[1], waited[0])
        return added

    def is_pending(self, topic: str, partition: int) -> bool:
        """Return whether an open transaction will commit an offset of the partition."""
        return any((topic, partition) in offsets for offsets in self.pending.values())


cpdef Py_ssize_t growth_of(
    dict offsets: dict[tuple[str, int], tuple[int, bytes] | None], tuple key: tuple[str, int],
    bytes stored,
) except *:
    """Return how many bytes more a pending offset takes than the offset that it replaces."""
    if key not in offsets:
        return OF_PENDING + len(stored)
    return len(stored) - length_of(offsets[key])


cdef Py_ssize_t length_of(tuple waits) except -1:
    """Return the length of the value of a pending offset."""
    return 0 if waits is None else len(<bytes> waits[1])


cpdef Py_ssize_t excess_of(bytes stored: bytes | None) except -1:
    """Return by how many bytes a value is longer than usual."""
    return 0 if stored is None else max(0, len(stored) - USUAL_BYTES)


def list_committed(dict partitions: dict[int, bytes], indexes: Sequence[int]) -> Grid:
    """Return the rows of an OffsetFetch answer for partitions with these committed offsets."""
    cdef Grid rows = Grid(len(indexes), STORED_COLUMNS)
    cdef Py_ssize_t place
    fill_versioned(
        rows, STORED_VALUE, VALUES, [partitions.get(index) for index in indexes],
        NOTHING_COMMITTED,
    )
    for place, index in enumerate(indexes):
        put_cell(rows, place, PARTITION, index)
    return rows


def judge_offsets(
    topics: Iterable[tuple[str, bytes, Sequence[Any]]], dict known: Mapping[Any, Topic], bint by_id,
    settings: BrokerSettings, NewOffsets offsets,
) -> tuple[list[tuple[str, bytes, Grid]], bool, bool]:
    """Put offsets of partitions that exist into ``offsets``, unless their metadata is too long.

    ``known`` has topics by id if ``by_id``, else by name.

    Returns:
        An error code for each partition, whether any partition exists, and whether any does not.
    """
    cdef list results = []
    cdef bint is_any_known = False, is_any_unknown = False
    cdef Grid codes, rows
    cdef Py_ssize_t count, place, partition_count
    cdef long long index
    cdef str known_name, metadata
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
                put_cell(
                    codes, place, ERROR_CODE, UNKNOWN_ID if by_id and topic is None else UNKNOWN
                )
                continue
            is_any_known = True
            metadata = value_of(rows, place, COMMITTED_METADATA) or ""
            if metadata and is_too_long(metadata, settings.server):
                put_cell(codes, place, ERROR_CODE, TOO_LARGE)
                continue
            offsets.add(known_name, rows, place, metadata)
    return results, is_any_known, is_any_unknown
