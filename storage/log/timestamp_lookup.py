"""Finds records by time, for ListOffsets (Kafka: ``UnifiedLog.fetchOffsetByTimestamp``).

Records are not in the order of their timestamps. The search is for the first record *by offset*
that is at or after the requested time. The time index says where to begin. From there headers of
batches are read, and then the batch with the record is read, which may have to be decompressed. Io
threads call these functions, without a lock.
"""

from typing import NamedTuple

from siltstone.protocol.records.record import iterate_records
from siltstone.storage.segment.segment import LogSegment, LogView


class TimestampedOffset(NamedTuple):
    """A record's offset and timestamp, and the leader epoch of its batch."""

    offset: int
    timestamp: int
    leader_epoch: int


def find_at_or_after(
    view: LogView, timestamp: int, log_start_offset: int, max_record_bytes: int
) -> TimestampedOffset | None:
    """Return the first record at or after ``timestamp``, in ms; None if all are older.

    Raises:
        OSError: A segment cannot be read.
        InvalidRecord: A record of a compressed batch on the way is larger than the limit.
    """
    for segment in view[1]:
        if segment.largest_timestamp >= timestamp:
            found = segment.find_timestamp(timestamp, log_start_offset, max_record_bytes)
            if found is not None:
                return TimestampedOffset(found.offset, found.timestamp, found.leader_epoch)
    return None


def find_max(view: LogView, max_record_bytes: int) -> TimestampedOffset | None:
    """Return the first record that has the greatest timestamp; None if no record has one.

    The index has only the last offset of the record's batch (KAFKA-16310), so the batch is opened.

    Raises:
        OSError: A segment cannot be read.
        InvalidRecord: A record of the batch, if it is compressed, is larger than the limit.
    """
    segment = max(view[1], key=_max_timestamp)  # the first one wins a tie
    if segment.max_timestamp < 0:
        return None
    located = segment.locate(segment.offset_of_max_timestamp)
    if located is None:
        return None
    header = located.header
    batch = segment.read(located.position, header.size)
    for record in iterate_records(batch, max_record_bytes=max_record_bytes):
        if record.timestamp == segment.max_timestamp:
            return TimestampedOffset(record.offset, record.timestamp, header.leader_epoch)
    return None


def _max_timestamp(segment: LogSegment) -> int:
    return segment.max_timestamp
