"""Rules that hold for every log at every moment."""

from collections.abc import Iterable, Mapping

from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.segment.segment import LogSegment


def check_log(log: Log) -> list[BatchHeader]:
    """Assert that a log is sound and return the headers of all its batches."""
    segments = log.segments
    bases = [segment.base_offset for segment in segments]
    assert bases == sorted(set(bases))
    assert bases[0] <= log.log_start_offset
    assert log.log_start_offset <= log.last_stable_offset
    assert log.last_stable_offset <= log.high_watermark <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    assert log.size == sum(segment.size for segment in segments)
    headers = []
    next_offset = 0
    for segment in segments:
        check_indexes(segment)
        end = 0
        for position, header in segment.batches():
            assert header.base_offset >= max(segment.base_offset, next_offset)
            next_offset = header.next_offset
            end = position + header.size
            headers.append(header)
        assert end == segment.size
    assert next_offset <= log.log_end_offset
    return headers


def check_indexes(segment: LogSegment) -> None:
    """Assert that index entries grow and name batches that are where they say."""
    at = {batch.position: batch.header.last_offset for batch in segment.batches()}
    offsets = segment.offset_index()
    entries = [offsets[index] for index in range(len(offsets))]
    assert all(at.get(position) == offset for offset, position in entries)
    assert [offset for offset, _ in entries] == sorted({offset for offset, _ in entries})
    times = segment.time_index()
    marks = [times[index] for index in range(len(times))]
    stamps = [timestamp for timestamp, _ in marks]
    assert stamps == sorted(set(stamps))
    assert [offset for _, offset in marks] == sorted(offset for _, offset in marks)


def check_folder(log: Log) -> None:
    """Assert that a folder that was just opened holds nothing a crash left."""
    names = [files.parse_name(path.name) for path in log.path.iterdir()]
    assert not [name for name in names if name is not None and name.suffix]
    logs = [name.base_offset for name in names if name is not None and name.kind == files.LOG]
    assert sorted(logs) == [segment.base_offset for segment in log.segments]


def check_reads(log: Log, offsets: Iterable[int]) -> None:
    """Assert that a read from each of these offsets begins with the batch that holds it."""
    for offset in offsets:
        read = log.read(offset, 1, log.log_end_offset)
        assert read is not None, offset
        header = BatchHeader.read(read.segment.read(read.slice.position, HEADER_SIZE))
        assert header.base_offset <= offset <= header.last_offset


def check_lookups(log: Log, offsets: Mapping[int, int]) -> None:
    """Assert that a lookup of each timestamp finds the offset that belongs to it."""
    found = {}
    for timestamp in offsets:
        record = log.find_offset_by_timestamp(timestamp, log.log_end_offset)
        found[timestamp] = None if record is None else record.offset
    assert found == offsets
