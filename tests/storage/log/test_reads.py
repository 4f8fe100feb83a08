"""Reading a log: bounds, batch boundaries, gaps, hints, times."""

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import InvalidRecord, OffsetOutOfRange, UnknownTopicOrPartition
from siltstone.storage import files
from siltstone.storage.log.log import Log
from siltstone.storage.log.reads import LogReader
from siltstone.storage.log.timestamp_lookup import TimestampedOffset
from siltstone.storage.producers.transaction_index import ENTRY, AbortedTransaction
from siltstone.storage.segment.file_set import SegmentFiles
from siltstone.storage.segment.index import TimeEntry
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import TIMESTAMP, Row, make_batch
from tests.support.faults import Disk
from tests.support.invariants import check_lookups
from tests.support.logs import LogFolder, bytes_of, offsets_in, validated

BATCH_BYTES = len(make_batch([(b"k", b"v" * 10)] * 2))


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    """Ten batches of two records each, three batches to a segment."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=3 * BATCH_BYTES))
    for _ in range(10):
        folder.append(2)
    return folder


def test_read_inside_a_batch_begins_at_its_start(folder: LogFolder) -> None:
    """The range holds whole batches, so it may begin with records below the offset."""
    read = folder.log.read(3, BATCH_BYTES, 20)

    assert read is not None
    assert (read.slice.position, read.slice.size) == (BATCH_BYTES, BATCH_BYTES)
    assert read.next_offset == 4


def test_read_at_the_end_is_empty(folder: LogFolder) -> None:
    """The log end offset is a legal offset where nothing is yet; one more is out of range."""
    assert folder.log.read(20, 100, 20) is None
    with pytest.raises(OffsetOutOfRange, match=r"offset 21 of orders-0 is outside 0\.\.20"):
        folder.log.read(21, 100, 20)


def test_read_below_the_log_start_is_out_of_range(folder: LogFolder) -> None:
    """After DeleteRecords the offsets below are gone, although their bytes are not."""
    folder.log.delete_records(3)

    read = folder.log.read(3, 1, 20)
    assert read is not None
    assert read.slice.position == BATCH_BYTES
    with pytest.raises(OffsetOutOfRange):
        folder.log.read(2, 100, 20)


@pytest.mark.parametrize(
    ("max_bytes", "batches"),
    [(1, 1), (BATCH_BYTES, 1), (2 * BATCH_BYTES - 1, 1), (2 * BATCH_BYTES, 2), (1 << 20, 3)],
)
def test_read_ends_at_a_batch_and_at_its_segment(
    folder: LogFolder, max_bytes: int, batches: int
) -> None:
    """max_bytes is cut down to whole batches, the first one always counting; a segment ends it."""
    read = folder.log.read(0, max_bytes, 20)

    assert read is not None
    assert read.slice.size == batches * BATCH_BYTES
    assert read.next_offset == 2 * batches


def test_read_without_at_least_one_may_be_empty(folder: LogFolder) -> None:
    """A later partition of a request gets nothing rather than more than is left for it."""
    assert folder.log.read(0, BATCH_BYTES - 1, 20, at_least_one=False) is None
    assert folder.log.read(0, BATCH_BYTES, 20, at_least_one=False) is not None


@pytest.mark.parametrize("upto", [0, 2, 6, 8, 18, 20])
def test_read_stays_below_its_bound(folder: LogFolder, upto: int) -> None:
    """Read-committed readers get exactly what lies below the last stable offset."""
    data = bytes_of(folder.log, 0, upto=upto)

    assert offsets_in(data) == list(range(0, upto, 2))


def test_whole_log_is_read_segment_by_segment(folder: LogFolder) -> None:
    """Following next_offset visits every batch once."""
    assert offsets_in(bytes_of(folder.log, 0)) == list(range(0, 20, 2))


def test_a_follower_of_the_end_never_searches(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that goes on where it ended is found by the hint, across rolls too."""
    log = folder.log
    assert log.read(20, 1, 20) is None
    monkeypatch.setattr(LogSegment, "find", None)
    offset, seen = 20, []

    for _ in range(8):
        folder.append(2)
        read = log.read(offset, 1 << 20, log.high_watermark)
        assert read is not None
        seen += offsets_in(read.segment.read(read.slice.position, read.slice.size))
        offset = read.next_offset

    assert seen == list(range(20, 36, 2))


def test_hints_live_as_long_as_their_read(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread drops segments while a read is on its way, and with them the hints."""
    log = folder.log
    find = LogSegment.find

    def find_and_drop(segment: LogSegment, offset: int) -> int:
        log.reader.forget()  # as `Log._drop` does
        return find(segment, offset)

    monkeypatch.setattr(LogSegment, "find", find_and_drop)
    for _ in range(100):
        read = log.read(8, 1 << 20, 20)

        assert read is not None
        assert read.slice.position == BATCH_BYTES


def test_hints_never_change_an_answer(tmp_path: Path) -> None:
    """Random reads beside appends answer the same with and without hints."""
    rng = random.Random(20)
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=900, index_interval_bytes=200))
    log = folder.log
    for _ in range(400):
        if rng.random() < 0.3:
            folder.append(rng.randint(1, 5), size=rng.randint(0, 90))
        offset, upto = rng.randint(0, log.log_end_offset), log.log_end_offset
        max_bytes = rng.choice([1, 100, 500, 5000])
        hinted = log.read(offset, max_bytes, upto)
        other = LogReader(log.end).read(log, offset, max_bytes, upto, True)
        if hinted is None or other is None:
            assert hinted is other
            continue
        assert hinted.segment is other.segment
        assert (hinted.slice.position, hinted.slice.size, hinted.next_offset) == (
            other.slice.position,
            other.slice.size,
            other.next_offset,
        )


def _thin(folder: LogFolder, kept: list[int]) -> None:
    """Leave only the batches of these base offsets in the closed folder, as a cleaner does."""
    for path in sorted(folder.path.glob("*.log")):
        data = path.read_bytes()
        batches = [data[at : at + BATCH_BYTES] for at in range(0, len(data), BATCH_BYTES)]
        path.write_bytes(b"".join(batch for batch in batches if int.from_bytes(batch[:8]) in kept))
        path.with_suffix(".index").unlink()
    folder.reopen(is_clean=True)


@pytest.mark.parametrize(
    ("offset", "first"), [(0, 2), (3, 2), (4, 8), (5, 8), (6, 8), (10, 18), (17, 18), (18, 18)]
)
def test_gaps_are_read_over(folder: LogFolder, offset: int, first: int) -> None:
    """An offset in a gap, inside a segment or at its end, is answered by the next batch."""
    folder.close()
    _thin(folder, [2, 8, 18])

    assert offsets_in(bytes_of(folder.log, offset))[0] == first


def test_a_gap_up_to_the_end_is_empty(folder: LogFolder) -> None:
    """When everything above an offset was removed there is nothing, and no error."""
    folder.close()
    folder.log_start_offset = 0
    _thin(folder, [2, 8, 18])
    folder.log.roll()

    read = folder.log.read(18, 1 << 20, 20)

    assert read is not None
    assert folder.log.read(read.next_offset, 1 << 20, 20) is None


def test_available_bytes_count_over_segments(folder: LogFolder) -> None:
    """The bytes for a long poll are counted from the batch of its offset up to its bound."""
    log = folder.log

    assert log.available_bytes(0, 20) == 10 * BATCH_BYTES
    assert log.available_bytes(5, 20) == 8 * BATCH_BYTES
    assert log.available_bytes(0, 14) == 7 * BATCH_BYTES
    assert log.available_bytes(18, 18) == log.available_bytes(20, 20) == 0


def test_a_slice_outlives_the_deletion_of_its_segment(folder: LogFolder) -> None:
    """A range on its way out stays readable after rename and unlink."""
    read = folder.log.read(0, 1 << 20, 20)
    assert read is not None
    expected = read.segment.read(0, read.slice.size)
    folder.log.delete_records(20)
    folder.log.apply_retention(0)
    folder.pass_time(60_000)

    import os  # noqa: PLC0415

    assert not (folder.path / "00000000000000000000.log").exists()
    assert os.pread(read.slice.file.fileno(), read.slice.size, read.slice.position) == expected


@pytest.fixture
def times(tmp_path: Path) -> LogFolder:
    """Batches of two records whose times go up and down, two batches to a segment."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=2 * BATCH_BYTES))
    for seconds in (10, 30, 20, 30, 5):
        folder.append(2, timestamp=TIMESTAMP + seconds)
    return folder


@pytest.mark.parametrize(
    ("seconds", "offset", "at"),
    [(0, 0, 10), (10, 0, 10), (11, 1, 11), (12, 2, 30), (31, 3, 31), (32, None, 0)],
)
def test_find_by_time(times: LogFolder, seconds: int, offset: int | None, at: int) -> None:
    """The answer is the first record by offset that is at or after the time."""
    found = times.log.find_offset_by_timestamp(TIMESTAMP + seconds, 10)

    assert (found and found.offset) == offset
    if found is not None:
        assert found.timestamp == TIMESTAMP + at
        assert found.leader_epoch == 0


def test_find_by_time_stays_below_the_bound(times: LogFolder) -> None:
    """A record at or above the bound of the isolation level is not found."""
    assert times.log.find_offset_by_timestamp(TIMESTAMP + 31, 3) is None


def test_find_the_greatest_time(times: LogFolder) -> None:
    """It is the record's own offset, not its batch's last, and the first of equals."""
    found = times.log.find_max_timestamp(10)

    assert found is not None
    assert (found.offset, found.timestamp) == (3, TIMESTAMP + 31)
    assert times.log.find_max_timestamp(3) is None


def test_times_are_found_after_a_restart(times: LogFolder) -> None:
    """Time indexes that were closed or rebuilt give the same answers."""
    for is_clean in (True, False):
        if is_clean:
            times.close()
        log = times.reopen(is_clean=is_clean)
        found = log.find_offset_by_timestamp(TIMESTAMP + 12, 10)
        greatest = log.find_max_timestamp(10)

        assert found is not None
        assert greatest is not None
        assert (found.offset, greatest.offset) == (2, 3)


def test_no_times_no_answer(tmp_path: Path) -> None:
    """A log without timestamps has no greatest one."""
    folder = LogFolder(tmp_path)
    folder.append(timestamp=-1, step_ms=0)

    assert folder.log.find_max_timestamp(1) is None


def test_epochs_are_answered(folder: LogFolder) -> None:
    """The only epoch ends at the log end; a later one is not known."""
    assert folder.log.epochs.epoch_of(5) == 0
    assert folder.log.end_offset_for_epoch(0) == (0, 20)
    assert folder.log.end_offset_for_epoch(1) == (-1, -1)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_record_above_its_limit_fails_a_lookup_by_time(tmp_path: Path, codec: int) -> None:
    """As in Apache Kafka 4.4.0, with max.decompressed.message.bytes; one in the clear has none."""
    log = LogFolder(tmp_path).log
    rows: list[Row] = [(b"k", b"v"), (b"k", b"v" * 2000), (b"k", b"v")]
    log.append(validated(make_batch(rows, codec=codec)))
    log.reconfigure(TopicConfig(max_decompressed_message_bytes=1000))

    first = log.find_offset_by_timestamp(TIMESTAMP, 5)
    assert first is not None
    assert first.offset == 0
    finds: list[Callable[[int], TimestampedOffset | None]] = [
        partial(log.find_offset_by_timestamp, TIMESTAMP + 2),
        log.find_max_timestamp,
    ]
    for find in finds:
        if codec:
            with pytest.raises(InvalidRecord, match="a record of the batch has 2"):
                find(5)
            continue
        found = find(5)
        assert found is not None
        assert found.offset == 2


def test_compressed_batches_are_opened_for_times(tmp_path: Path) -> None:
    """A lookup by time finds the record inside a compressed batch."""
    folder = LogFolder(tmp_path)
    folder.log.append(validated(make_batch(5, codec=1)))

    found = folder.log.find_offset_by_timestamp(TIMESTAMP + 3, 5)

    assert found is not None
    assert found.offset == 3


@pytest.mark.parametrize(
    "look",
    [lambda log: log.find_offset_by_timestamp(TIMESTAMP, 20), lambda log: log.read(0, 1 << 20, 20)],
)
def test_files_of_a_deleted_topic_are_no_fault_of_the_disk(
    folder: LogFolder, caplog: pytest.LogCaptureFixture, look: Callable[[Log], object]
) -> None:
    """A request that still reads it is told that it is gone, and nobody to check a disk."""
    folder.close()
    log = folder.reopen(is_clean=True)
    gone = folder.path.with_name("gone")
    log.abandon(gone)
    shutil.rmtree(folder.path)

    with pytest.raises(UnknownTopicOrPartition, match="orders-0 was deleted meanwhile"):
        look(log)
    assert caplog.records == []


def test_an_append_while_the_largest_timestamp_is_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lookup in the segment before does not undo what the append has noted."""
    folder = LogFolder(tmp_path)
    folder.append(timestamp=1_000)
    folder.close()
    folder.reopen(is_clean=True)
    confirm = ReadableSegment._is_confirmed

    def append_meanwhile(segment: ReadableSegment, entry: TimeEntry) -> bool:
        monkeypatch.undo()
        folder.append(timestamp=5_000)
        return confirm(segment, entry)

    monkeypatch.setattr(ReadableSegment, "_is_confirmed", append_meanwhile)
    folder.log.find_offset_by_timestamp(500, 1)

    for _ in range(2):
        check_lookups(folder.log, {1_000: 0, 5_000: 1})
        newest = folder.log.find_max_timestamp(2)
        assert newest is not None
        assert (newest.timestamp, newest.offset) == (5_000, 1)
        folder.close()
        folder.reopen(is_clean=True)


def test_a_first_abort_while_the_index_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that found no transaction index does not hide the one that is made meanwhile."""
    folder = LogFolder(tmp_path)
    folder.append(3)
    folder.close()
    segment = folder.reopen(is_clean=True).segments[0]
    find_size = SegmentFiles.find_size

    def abort_meanwhile(names: SegmentFiles, kind: str) -> int | None:
        monkeypatch.undo()
        size = find_size(names, kind)
        segment.append_aborted(AbortedTransaction(7, 0, 2, 3))
        return size

    monkeypatch.setattr(SegmentFiles, "find_size", abort_meanwhile)
    segment.aborted_transactions(0, 3)

    assert folder.log.aborted_transactions(0, 3) == [(7, 0)]


def test_aborted_transactions_while_files_are_renamed(tmp_path: Path, disk: Disk) -> None:
    """The index has the new name, and the segment goes by the old one still: it is found."""
    folder = LogFolder(tmp_path)
    folder.append(3)
    segment = folder.log.segments[0]
    segment.append_aborted(AbortedTransaction(7, 0, 2, 3))
    disk.fail("rename", path=files.LOG)
    for kind in files.SEGMENT_KINDS:
        segment.files.path(kind).rename(f"{segment.files.path(kind)}{files.DELETED}")
    with pytest.raises(OSError, match="Input/output error"):
        segment.files.change_suffix(files.DELETED)
    assert segment.files.path(files.LOG).suffix == files.LOG

    assert folder.log.aborted_transactions(0, 3) == [(7, 0)]
    assert segment.files.find_size(files.TRANSACTION_INDEX) == ENTRY.size
