"""Rebuilds producer state from a snapshot and the batches after the snapshot."""

from collections.abc import Sequence

from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import has_valid_crc
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.readable import ReadableSegment, find_index
from siltstone.storage.segment.segment import LogSegment


def rebuild_producers(
    producers: ProducerStateManager,
    segments: Sequence[LogSegment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Rebuild the state of producers, whose snapshots are noted, as of ``end_offset``. Blocks.

    Snapshots above ``end_offset`` are deleted. If a log was closed cleanly and has no snapshot,
    Kafka assumes that the log has no producers; here its batches are read.
    """
    start = producers.load(log_start_offset, end_offset, now_ms)
    if start >= end_offset:
        return
    for segment in segments[find_index(segments, start) :]:
        if segment.base_offset >= end_offset:
            break
        replay_segment(producers, segment, start, end_offset)


def replay_segment(
    producers: ProducerStateManager, segment: ReadableSegment, start: int, end: int
) -> None:
    """Feed a segment's batches from ``start`` to ``end``, exclusive, to ``producers``.

    Raises:
        CorruptMessage: A producer's batch is damaged; later appends would rely on its fields.
        InvalidRecord: A marker cannot be read.
    """
    located = segment.locate(start)
    if located is None:
        return
    for position, header in segment.batches(located.position):
        if header.base_offset >= end:
            break
        if header.producer_id >= 0:
            batch = segment.read(position, header.size)
            if not has_valid_crc(memoryview(batch), header.crc):
                raise CorruptMessage(f"{segment.log_path}: wrong checksum at position {position}")
            producers.replay(header, batch)


def write_snapshot(producers: ProducerStateManager, offset: int, *, fsync: bool) -> None:
    """Write a snapshot; without ``fsync`` it must be the newest, which the next start reads."""
    snapshot = producers.capture(offset)
    if snapshot is not None:
        producers.write_snapshot(snapshot, fsync=fsync)
