"""Writing a segment: indexes, rolling, flushing, closing, truncating."""

import errno
import gc
import os
import tracemalloc
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.batch import BatchHeader, stamp
from siltstone.storage import files
from siltstone.storage.producers.transaction_index import ENTRY, AbortedTransaction
from siltstone.storage.segment.index import MAX_RELATIVE_OFFSET
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.readable import open_segment
from siltstone.storage.segment.segment import LogSegment
from tests.support import faults
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.clock import FakeClock
from tests.support.segments import (
    NOW_MS,
    append,
    append_next,
    load_segment,
    make_segment,
    open_files,
)

LOG = "00000000000000000000.log"
INDEX = "00000000000000000000.index"
TIME_INDEX = "00000000000000000000.timeindex"


def sized_batch(size: int, **fields: int) -> bytearray:
    """Return a batch of one record that is exactly ``size`` bytes long."""
    batch = make_batch([(None, b"")], **fields)
    for value_size in range(size - len(batch), 0, -1):
        batch = make_batch([(None, b"v" * value_size)], **fields)
        if len(batch) == size:
            return batch
    raise AssertionError(size)


def index_entries(folder: Path) -> list[tuple[int, int]]:
    """Return the entries of the offset index file."""
    index = open_segment(folder, 0, OpenFiles()).offset_index()
    return [tuple(index[n]) for n in range(len(index))]  # type: ignore[misc]


class TestIndexRule:
    def test_first_batch_has_no_entry(self, tmp_path: Path) -> None:
        """Even if it alone is larger than the interval: a lookup begins at 0 anyway."""
        written = make_segment(tmp_path)

        append_next(written, [sized_batch(9000)])
        written.close()

        assert index_entries(tmp_path) == []

    def test_distance_has_to_exceed_the_interval(self, tmp_path: Path) -> None:
        """4096 bytes since the last entry are not enough, 4097 are: strictly greater."""
        written = make_segment(tmp_path)

        append_next(written, [sized_batch(4096), sized_batch(100), sized_batch(200)])
        written.close()

        assert index_entries(tmp_path) == [(2, 4196)]

    def test_indexed_batch_counts_for_the_next_entry(self, tmp_path: Path) -> None:
        """The bytes of the batch that was indexed are the first of the new distance."""
        written = make_segment(tmp_path)

        append_next(written, [sized_batch(4097) for _ in range(4)])
        written.close()

        assert index_entries(tmp_path) == [(1, 4097), (2, 8194), (3, 12291)]

    def test_entry_is_last_offset_and_start(self, tmp_path: Path) -> None:
        """Offset: the batch's last one. Position: where it begins (KAFKA-806: per batch)."""
        written = make_segment(tmp_path)

        positions = append_next(written, [make_batch(200, step_ms=0), make_batch(7), make_batch(5)])
        written.close()

        assert positions[1] > 4096
        assert index_entries(tmp_path) == [(206, positions[1])]

    def test_interval_zero_indexes_every_batch_but_the_first(self, tmp_path: Path) -> None:
        """As Kafka's index.interval.bytes=0."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))

        positions = append_next(written, [make_batch() for _ in range(4)])
        written.close()

        assert index_entries(tmp_path) == list(enumerate(positions))[1:]

    def test_time_entry_has_the_maximum_so_far(self, tmp_path: Path) -> None:
        """Not the batch's own time: the largest so far, and the last offset of its batch."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))

        times = [50, 90, 70, 90, 60]
        append_next(written, [make_batch(2, timestamp=t, step_ms=0) for t in times])
        written.close()

        index = written.time_index()
        assert [tuple(index[n]) for n in range(len(index))] == [(90, 3)]

    def test_roll_and_close_add_the_final_time_entry(self, tmp_path: Path) -> None:
        """The maximum of a closed segment is its last time entry."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch(timestamp=70), make_batch(timestamp=60)])

        written.seal()
        written.flush()

        assert (tmp_path / TIME_INDEX).read_bytes().hex() == "000000000000004600000000"

    def test_no_timestamps_no_time_entries(self, tmp_path: Path) -> None:
        """A segment without timed records has an empty time index and goes by the file's time."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch(timestamp=-1)])

        written.close()

        assert (tmp_path / TIME_INDEX).read_bytes() == b""
        assert written.max_timestamp == -1
        assert written.largest_timestamp == written.files.modified_ms > NOW_MS

    def test_reopened_segment_goes_on(self, tmp_path: Path) -> None:
        """Entries follow those in the files; the distance begins again, as in Kafka."""
        config = TopicConfig(index_interval_bytes=0)
        written = make_segment(tmp_path, config)
        append_next(written, [make_batch(timestamp=70), make_batch(timestamp=80)])
        written.close()

        reopened = load_segment(tmp_path, config)
        append_next(reopened, [make_batch(timestamp=75), make_batch(timestamp=90)], first=2)
        reopened.close()

        assert [offset for offset, _ in index_entries(tmp_path)] == [1, 3]
        index = reopened.time_index()
        assert [tuple(index[n]) for n in range(len(index))] == [(80, 1), (90, 3)]
        assert reopened.find_damage() is None

    def test_files_are_as_long_as_their_entries(self, tmp_path: Path) -> None:
        """Never preallocated: there is no tail of zeros to find one's way out of (KAFKA-10207)."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))
        append_next(written, [make_batch(timestamp=n) for n in range(10)])

        written.flush()

        assert (tmp_path / INDEX).stat().st_size == 9 * 8
        assert (tmp_path / TIME_INDEX).stat().st_size == 9 * 12


class TestRolling:
    def roll(self, written: LogSegment, size: int = 100, **changes: int) -> bool:
        """Ask for a batch like the last one, with changes."""
        facts = {"max_timestamp": TIMESTAMP, "last_offset": 1, "now_ms": NOW_MS} | changes
        clock = FakeClock(facts.pop("now_ms"))
        return written.end.should_roll(written, size, **facts, clock=clock)

    def test_exact_fit_stays(self, tmp_path: Path) -> None:
        """A batch that fills the segment to the byte stays, one byte more rolls."""
        written = make_segment(tmp_path, TopicConfig(segment_bytes=1000))
        append_next(written, [sized_batch(400)])

        assert not self.roll(written, 600)
        assert self.roll(written, 601)

    def test_empty_segment_takes_any_size(self, tmp_path: Path) -> None:
        """There is nothing to roll (KAFKA-6388)."""
        config = TopicConfig(segment_bytes=100, segment_index_bytes=4)

        assert not self.roll(make_segment(tmp_path, config), 5000)

    def test_time_is_that_of_records(self, tmp_path: Path) -> None:
        """Old data does not roll however long the wall clock waits; a future record does."""
        written = make_segment(tmp_path, TopicConfig(segment_ms=1000))
        append_next(written, [make_batch(timestamp=5000)])
        years = NOW_MS * 2

        assert not self.roll(written, max_timestamp=6000, now_ms=years)
        assert not self.roll(written, max_timestamp=-1, now_ms=years)
        assert self.roll(written, max_timestamp=6001, now_ms=0)

    def test_reloaded_segment_remembers_its_first_time(self, tmp_path: Path) -> None:
        """The first batch is read again after a restart."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch(timestamp=5000)])
        written.close()

        reopened = load_segment(tmp_path, TopicConfig(segment_ms=1000))

        assert self.roll(reopened, max_timestamp=6001)
        assert not self.roll(reopened, max_timestamp=6000)

    def test_without_first_time_the_wall_clock_counts(self, tmp_path: Path) -> None:
        """From the creation of the segment object on."""
        written = make_segment(tmp_path, TopicConfig(segment_ms=1000))
        append_next(written, [make_batch(timestamp=-1)])

        assert not self.roll(written, max_timestamp=10**15, now_ms=NOW_MS + 1000)
        assert self.roll(written, max_timestamp=-1, now_ms=NOW_MS + 1001)

    def test_compacted_topic_rolls_at_its_largest_lag(self, tmp_path: Path) -> None:
        """max.compaction.lag.ms cannot be kept with data in the active segment."""
        config = TopicConfig(
            cleanup_policy=("compact",), segment_ms=10_000, max_compaction_lag_ms=500
        )
        written = make_segment(tmp_path, config)
        append_next(written, [make_batch(timestamp=0)])

        assert self.roll(written, max_timestamp=501)
        assert not self.roll(written, max_timestamp=500)

    def test_jitter_only_shortens(self, tmp_path: Path) -> None:
        """Drawn once per segment, below segment.jitter.ms, and kept when settings change."""
        config = TopicConfig(segment_ms=1000, segment_jitter_ms=400)
        written = make_segment(tmp_path, config)
        append_next(written, [make_batch(timestamp=0)])
        at = next(t for t in range(2000) if self.roll(written, max_timestamp=t))

        written.reconfigure(TopicConfig(segment_ms=5000, segment_jitter_ms=400))

        assert 601 < at <= 1001
        assert self.roll(written, max_timestamp=at + 4000)
        assert not self.roll(written, max_timestamp=at + 3999)

    def test_full_index_rolls(self, tmp_path: Path) -> None:
        """segment.index.bytes=48 holds four time entries, of which one is kept free."""
        config = TopicConfig(index_interval_bytes=0, segment_index_bytes=48)
        written = make_segment(tmp_path, config)

        append_next(written, [make_batch(timestamp=n) for n in range(3)])
        assert not self.roll(written, max_timestamp=9)
        append_next(written, [make_batch(timestamp=9)], first=3)
        assert self.roll(written, max_timestamp=9)

    def test_offset_overflow_rolls_even_an_empty_segment(self, tmp_path: Path) -> None:
        """A relative offset is a signed 32-bit number."""
        written = make_segment(tmp_path, base_offset=10)

        assert not self.roll(written, last_offset=10 + MAX_RELATIVE_OFFSET)
        assert self.roll(written, last_offset=11 + MAX_RELATIVE_OFFSET)


class TestFlushing:
    def test_indexes_stay_in_memory_until_flushed(self, tmp_path: Path) -> None:
        """An append touches the .log alone."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))
        append_next(written, [make_batch(timestamp=n) for n in range(3)])

        before = (tmp_path / INDEX).stat().st_size
        written.flush()

        assert before == 0
        assert (tmp_path / INDEX).stat().st_size == 2 * 8

    def test_new_names_are_fsynced_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The log, the indexes that changed, then the folder if it has new names (KAFKA-3968)."""
        synced: list[str] = []
        monkeypatch.setattr(
            files, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().suffix)
        )
        monkeypatch.setattr(files, "fsync_directory", lambda _: synced.append("folder"))
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))
        append_next(written, [make_batch(timestamp=n) for n in range(3)])

        written.flush()
        first, synced[:] = list(synced), []
        written.flush()

        assert first == [".log", ".index", ".timeindex", "folder"]
        assert synced == [".log"]

    def test_rebuilt_indexes_are_synced_by_the_next_flush(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The recovery point passes a segment only after its indexes were fsynced."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))
        append_next(written, [make_batch(timestamp=n) for n in range(3)])
        written.close()
        written.recover()
        synced: list[str] = []
        monkeypatch.setattr(
            files, "fsync", lambda fd: synced.append(Path(f"/proc/self/fd/{fd}").readlink().suffix)
        )

        written.flush()

        assert synced == [".log", ".index", ".timeindex", ""]

    def test_an_abort_while_its_index_is_fsynced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The fsync that runs need not have it: the next flush fsyncs the file once more."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        written.append_aborted(AbortedTransaction(7, 0, 2, 3))
        covered: list[int] = []

        def fsync(fd: int) -> None:
            path = Path(f"/proc/self/fd/{fd}").readlink()
            if path.suffix == files.TRANSACTION_INDEX:
                covered.append(path.stat().st_size)
                if len(covered) == 1:
                    written.append_aborted(AbortedTransaction(8, 3, 5, 6))

        monkeypatch.setattr(files, "fsync", fsync)
        for _ in range(3):
            written.flush()

        assert covered == [ENTRY.size, 2 * ENTRY.size]

    def test_a_first_abort_while_the_folder_is_fsynced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The name of its transaction index is left to the next flush."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        folders: list[Path] = []

        def fsync_directory(path: Path) -> None:
            folders.append(path)
            if len(folders) == 1:
                written.append_aborted(AbortedTransaction(7, 0, 2, 3))

        monkeypatch.setattr(files, "fsync_directory", fsync_directory)
        for _ in range(3):
            written.flush()

        assert folders == [tmp_path] * 2

    def test_room_is_reserved_and_given_back(self, tmp_path: Path) -> None:
        """preallocate=true takes the blocks of a whole segment; the file is as long as its data."""
        config = TopicConfig(preallocate=True, segment_bytes=1 << 20)
        written = make_segment(tmp_path, config)
        append_next(written, [make_batch()])
        log = tmp_path / LOG
        if log.stat().st_blocks * 512 < 1 << 20:
            pytest.skip("the file system under tmp_path cannot reserve room")

        written.seal()
        written.flush()

        assert log.stat().st_blocks * 512 < 1 << 16
        assert log.stat().st_size == written.size

    def test_room_of_an_empty_segment_is_given_back(self, tmp_path: Path) -> None:
        """As of a cleaned one that no record is left for: no later start looks at its end."""
        written = make_segment(tmp_path, TopicConfig(preallocate=True, segment_bytes=1 << 20))
        log = tmp_path / LOG
        if log.stat().st_blocks * 512 < 1 << 20:
            pytest.skip("the file system under tmp_path cannot reserve room")

        written.seal()
        written.flush()

        assert log.stat().st_blocks == 0

    def test_room_that_an_earlier_run_reserved_is_given_back(self, tmp_path: Path) -> None:
        """A kill left the segment empty, so that no start looked at its end."""
        config = TopicConfig(preallocate=True, segment_bytes=1 << 20)
        make_segment(tmp_path, config)
        log = tmp_path / LOG
        if log.stat().st_blocks * 512 < 1 << 20:
            pytest.skip("the file system under tmp_path cannot reserve room")

        loaded = load_segment(tmp_path, config)
        append_next(loaded, [make_batch()])
        loaded.seal()
        loaded.flush()

        assert log.stat().st_blocks * 512 < 1 << 16

    def test_sealed_segment_lets_go(self, tmp_path: Path) -> None:
        """After the flush its descriptor is one of those kept for reading, and can be evicted."""
        kept = OpenFiles(1)
        written = make_segment(tmp_path, open_files=kept)
        append_next(written, [make_batch()])
        slice_ = written.slice(0, written.size)

        written.seal()
        written.flush()
        written.files.forget(files.LOG)

        assert open_files(tmp_path) == [LOG]
        assert os.fstat(slice_.file.fileno()).st_size == len(slice_)
        del slice_
        assert open_files(tmp_path) == []

    def test_deleted_segment_needs_no_flush(self, tmp_path: Path) -> None:
        """The background flush may come after retention (KAFKA-15391)."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        written.seal()
        written.delete()

        written.flush()

        assert list(tmp_path.iterdir()) == []

    def test_close_can_be_repeated(self, tmp_path: Path) -> None:
        """Nothing more is written the second time."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])

        written.close()
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        written.close()

        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


class TestFailures:
    def test_failed_write_leaves_the_segment_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Half a batch on a full disk is cut off again; the next append goes where it should."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        size = written.size

        def half(fd: int, data: bytes, position: int) -> int:
            return os.pwrite(fd, memoryview(data)[:40], position)

        def full(_fd: int, _data: object, _position: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        faults.replace_pwrite(monkeypatch, half)
        monkeypatch.setattr(files, "write_all", full)
        with pytest.raises(OSError, match="No space"):
            append_next(written, [make_batch(3)], first=1)
        monkeypatch.undo()

        assert written.size == size == (tmp_path / LOG).stat().st_size
        append_next(written, [make_batch(3)], first=1)
        assert written.next_offset() == 4

    def test_short_write_is_completed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel may take a part."""
        written = make_segment(tmp_path)
        faults.replace_pwrite(
            monkeypatch, lambda fd, data, at: os.pwrite(fd, memoryview(data)[:7], at)
        )
        batch = make_batch(5)

        append(written, batch)

        assert written.read(0, 10_000) == batch


class TestNames:
    def test_files_are_renamed_log_first(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Start-up relies on the order when it finishes an interrupted swap."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        written.append_aborted(AbortedTransaction(1, 0, 0, 1))
        written.close()
        renamed: list[str] = []
        really = files.rename

        def rename(old: str, new: str) -> None:
            renamed.append(Path(new).name[20:])
            really(old, new)

        monkeypatch.setattr(files, "rename", rename)

        written.files.change_suffix(files.DELETED)

        assert renamed == [
            ".log.deleted",
            ".index.deleted",
            ".timeindex.deleted",
            ".txnindex.deleted",
        ]
        assert written.read(0, 61) != b""
        written.delete()
        assert list(tmp_path.iterdir()) == []

    def test_leftovers_do_not_shine_through(self, tmp_path: Path) -> None:
        """A segment created where files are begins empty."""
        written = make_segment(tmp_path)
        append_next(written, [make_batch()])
        written.append_aborted(AbortedTransaction(1, 0, 0, 1))
        written.close()

        anew = make_segment(tmp_path)

        assert anew.size == 0
        assert anew.next_offset() == 0
        assert not (tmp_path / "00000000000000000000.txnindex").exists()

    def test_missing_log_is_an_error(self, tmp_path: Path) -> None:
        """There is no segment without a .log."""
        with pytest.raises(FileNotFoundError):
            load_segment(tmp_path)


class TestFootprint:
    def test_thousands_at_rest_cost_little(self, tmp_path: Path) -> None:
        """A segment that is not written holds no descriptor and well below a KiB."""
        config = TopicConfig()
        written = make_segment(tmp_path, config)
        append_next(written, [make_batch()])
        written.close()
        kept = OpenFiles()
        gc.collect()
        tracemalloc.start()

        before = tracemalloc.get_traced_memory()[0]
        held = [load_segment(tmp_path, config, open_files=kept) for _ in range(1000)]
        each = (tracemalloc.get_traced_memory()[0] - before) / len(held)

        tracemalloc.stop()
        assert each < 600
        assert open_files(tmp_path) == []

    def test_active_segment_costs_about_a_kib(self, tmp_path: Path) -> None:
        """One descriptor, and a few objects for its indexes."""
        config = TopicConfig()
        held = [make_segment(tmp_path, config, base_offset=base) for base in range(50)]
        batch = make_batch()
        gc.collect()
        tracemalloc.start()

        before = tracemalloc.get_traced_memory()[0]
        for each in held:
            stamp(batch, 0, each.base_offset, 0)
            append(each, batch)
        cost = (tracemalloc.get_traced_memory()[0] - before) / len(held)

        tracemalloc.stop()
        assert cost < 1024
        assert len(open_files(tmp_path)) == len(held)
        assert BatchHeader.read(batch).count == 1
