"""The end of a segment, to which batches are appended; compiled, since each append changes it."""

from typing import TYPE_CHECKING

cimport cython
from libc.stdint cimport INT32_MAX, INT64_MAX

from siltstone.storage.clock cimport Clock
from siltstone.storage.files._disk cimport write_at

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from siltstone.storage.segment.segment import LogSegment

cdef enum:
    NOT_LOOKED_UP = -2

UNKNOWN = NOT_LOOKED_UP  # type: Final[int]
"""Stands for a timestamp that was not looked up yet; -1 means that no record has one."""


@cython.final
cdef class SegmentEnd:
    """The fields of a segment that an append changes: its size, and timestamps of its batches.

    Bytes below ``size`` are written. The object has one owner at a time (``Log.lock``); readers
    read ``size`` without the lock. The methods get the segment for rare cases; the segment changes
    no field.
    """

    def __init__(self, long long base_offset, long long size, long long created_ms):
        self.base_offset = base_offset
        self.size = size
        self.created_ms = created_ms
        self.fd = -1  # the descriptor of the .log while it is open for writing, else -1
        self.first_timestamp = NOT_LOOKED_UP  # the max timestamp of the first batch
        self.max_timestamp = NOT_LOOKED_UP
        self.offset_of_max_timestamp = base_offset  # last offset of the batch that has it
        self.since_index = 0  # bytes since the last index entry
        self.is_index_full = False
        self.obey(INT32_MAX, INT32_MAX, INT64_MAX)

    def obey(self, long long segment_bytes, long long index_interval_bytes, long long roll_after_ms):
        """Use these limits from the next append on."""
        self.segment_bytes = segment_bytes
        self.index_interval_bytes = index_interval_bytes
        self.roll_after_ms = roll_after_ms

    def open(self, int fd):
        """Use this descriptor of the ``.log`` for writes from now on."""
        self.fd = fd

    def rest(self):
        """Stop writing until the ``.log`` is opened again."""
        self.fd = -1
        self.is_index_full = False

    def resize(self, long long size):
        """Set the size to that of the ``.log``."""
        self.size = size
        if not size:
            self.first_timestamp = NOT_LOOKED_UP

    def begin_interval(self, long long since_index=0):
        """Count the bytes up to the next index entry from here on."""
        self.since_index = since_index

    def note_full(self, bint is_full):
        """Take note of whether the indexes have room for more entries."""
        self.is_index_full = is_full

    def note_first(self, long long timestamp):
        """Take note of the largest timestamp of the first batch."""
        self.first_timestamp = timestamp

    def note_max(self, long long timestamp, long long offset):
        """Take note of the largest timestamp, and of the last offset of the batch that has it."""
        self.max_timestamp = timestamp
        self.offset_of_max_timestamp = offset

    def follow(self, SegmentEnd other):
        """Copy the fields from the end of another segment that has the same bytes."""
        self.size = other.size
        self.first_timestamp = other.first_timestamp
        self.max_timestamp = other.max_timestamp
        self.offset_of_max_timestamp = other.offset_of_max_timestamp
        self.since_index = other.since_index

    cpdef bint should_roll(
        self, object segment: LogSegment, long long size, long long max_timestamp,
        long long last_offset, Clock clock,
    ) except *:
        """Tell whether a batch has to go into a new segment (docs/log.md).

        The time that counts is that of the records, from the segment's first batch to this one. If
        the first batch has no timestamp, the age of this object counts. An empty segment rolls only
        for an offset that it cannot hold (KAFKA-6388).
        """
        cdef long long first, waited
        if last_offset - self.base_offset > INT32_MAX:
            return True
        if not self.size:
            return False
        if self.size + size > self.segment_bytes or self.is_index_full:
            return True
        first = self.first_timestamp
        if first == NOT_LOOKED_UP:
            first = segment.first_batch_timestamp
        waited = max_timestamp - first if first >= 0 else clock.now_ms() - self.created_ms
        return waited > self.roll_after_ms

    cpdef write(self, object segment: LogSegment, object buffer: Buffer, long long size):
        """Write ``size`` bytes of stamped batches at the end; `note` counts each batch.

        Raises:
            OSError: The write failed; none of the bytes count as written.
        """
        cdef long long position = self.size
        cdef Py_ssize_t written
        if self.fd < 0:
            segment.activate()
        written = write_at(self.fd, buffer, position)
        if written != size:
            segment.write_rest(buffer, written)

    cpdef note(
        self, object segment: LogSegment, long long size, long long last_offset,
        long long max_timestamp,
    ):
        """Count the next batch of those that were written.

        An index entry is added when more than ``index.interval.bytes`` were written since the last
        entry. It has the batch's last offset and its position; the first batch never has an entry.
        """
        cdef long long position = self.size
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if self.since_index > self.index_interval_bytes:
            segment.add_index_entries(last_offset, position)
        self.since_index += size
        if not position:
            self.first_timestamp = max_timestamp
        self.size = position + size
