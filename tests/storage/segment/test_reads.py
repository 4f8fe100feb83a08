"""Reading a segment by offset, position and time."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from struct import pack

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import LOG_APPEND_TIME
from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.records.batch import BatchHeader
from siltstone.storage import files
from siltstone.storage.files import disk as seam
from siltstone.storage.producers.transaction_index import AbortedTransaction
from siltstone.storage.segment import batch_walk, lookup
from siltstone.storage.segment.batch_walk import Cut
from siltstone.storage.segment.file_set import SegmentFiles
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.scan import Scan, scan_log
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import make_batch, make_rows
from tests.support.faults import Disk
from tests.support.segments import append, append_next, load_segment, make_segment

INTERVALS = [0, 4096, 1 << 30]
"""An entry per batch, the default, and no index at all: the answers are the same."""


@pytest.fixture(params=[(i, s) for i in INTERVALS for s in ("active", "at rest")], ids=str)
def case(request: pytest.FixtureRequest) -> tuple[int, str]:
    """Run a test with several indexes, in memory and in files."""
    return request.param  # type: ignore[no-any-return]


def build(folder: Path, case: tuple[int, str], batches: list[bytearray]) -> LogSegment:
    """Return a segment of these batches, whose offsets are right already."""
    interval, state = case
    written = make_segment(folder, TopicConfig(index_interval_bytes=interval))
    for batch in batches:
        append(written, batch)
    if state == "at rest":
        written.close()
    return written


def gappy() -> list[bytearray]:
    """Return batches as compaction leaves them: 5-9, 20-24 (three records), 40, 100-149."""
    return [
        make_batch(5, base_offset=5),
        make_batch(3, base_offset=20, last_offset_delta=4),
        make_batch(1, base_offset=40),
        make_batch(make_rows(50, size=500), base_offset=100),
        make_batch(1, base_offset=150),
    ]


def test_locate_finds_the_first_batch_that_reaches_the_offset(
    tmp_path: Path, case: tuple[int, str]
) -> None:
    """Inside a batch, in a gap inside the segment, below the first and above the last."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    starts = [sum(map(len, batches[:n])) for n in range(len(batches))]
    lasts = [9, 24, 40, 149, 150]

    for offset in [0, 5, 7, 9, 10, 19, 20, 24, 25, 39, 40, 41, 99, 100, 149, 150, 151, 10**6]:
        hits = [n for n in range(5) if lasts[n] >= offset]
        found = segment.locate(offset)
        if not hits:
            assert found is None
            continue
        assert found is not None
        assert found.position == starts[hits[0]]
        assert found.header.last_offset == lasts[hits[0]]


def test_locate_from_a_known_position(tmp_path: Path, case: tuple[int, str]) -> None:
    """A reader that knows where a batch begins needs no index."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    third = len(batches[0]) + len(batches[1])

    found = segment.locate(100, third)

    assert found is not None
    assert found.position == third + len(batches[2])


def test_locate_in_an_empty_segment(tmp_path: Path, case: tuple[int, str]) -> None:
    """There is nothing to find."""
    segment = build(tmp_path, case, [])

    assert segment.locate(0) is None
    assert segment.next_offset() == 0


def test_an_empty_segment_costs_no_call(tmp_path: Path, disk: Disk) -> None:
    """A fetch from a gap that compaction has left walks over hundreds of them on the loop."""
    segment = build(tmp_path, (0, "at rest"), [])
    before = len(disk.calls)

    assert segment.find(0) == -1
    assert disk.calls[before:] == []


def test_batches_larger_than_every_read(tmp_path: Path, case: tuple[int, str]) -> None:
    """A batch may be larger than what a lookup or a scan reads at once."""
    batches = [
        make_batch(make_rows(3, size=size), base_offset=3 * n)
        for n, size in enumerate([10, 100_000, 10, 30_000, 10, 3_000, 10])
    ]
    assert len(batches[1]) > batch_walk.SCAN_CHUNK
    segment = build(tmp_path, case, batches)
    starts = [sum(map(len, batches[:n])) for n in range(len(batches))]

    for n, start in enumerate(starts):
        found = segment.locate(3 * n + 1)
        assert found is not None
        assert found.position == start
    assert [each.position for each in segment.batches()] == starts
    assert segment.next_offset() == 21


def test_torn_tail_is_not_seen(tmp_path: Path) -> None:
    """A batch that is not wholly there is no error while reading."""
    segment = build(tmp_path, (0, "at rest"), [make_batch(2), make_batch(2, base_offset=2)])
    log = segment.log_path
    log.write_bytes(log.read_bytes()[:-1])

    reopened = load_segment(tmp_path)

    assert [each.header.base_offset for each in reopened.batches()] == [0]
    assert reopened.locate(2) is None
    assert reopened.next_offset() == 2


@pytest.mark.parametrize(
    ("at", "value"), [(8, b"\0\0\0\0"), (8, b"\xff\xff\xff\xf0"), (16, b"\1"), (16, b"\3")]
)
def test_damage_is_an_error_that_names_the_place(tmp_path: Path, at: int, value: bytes) -> None:
    """A length below a header's, or another magic: CORRUPT_MESSAGE, never an endless walk."""
    first = make_batch(2)
    segment = build(tmp_path, (1 << 30, "at rest"), [first, make_batch(2, base_offset=2)])
    data = bytearray(segment.log_path.read_bytes())
    start = len(first) + at
    data[start : start + len(value)] = value
    segment.log_path.write_bytes(data)

    with pytest.raises(CorruptMessage, match=f"position {len(first)}"):
        list(segment.batches())


@pytest.mark.parametrize("value", [b"\0\0\0\0", b"\x80\0\0\0"])
def test_lookups_stop_at_damage(tmp_path: Path, value: bytes) -> None:
    """Neither lookup goes on behind a length that cannot be."""
    batches = [make_batch(2, base_offset=2 * n) for n in range(4)]
    segment = build(tmp_path, (1 << 30, "at rest"), batches)
    size = len(batches[0])
    data = bytearray(segment.log_path.read_bytes())
    data[size + 8 : size + 12] = value
    segment.log_path.write_bytes(data)

    with pytest.raises(CorruptMessage, match=f"position {size}"):
        segment.locate(6)
    with pytest.raises(CorruptMessage, match=f"position {size}"):
        segment.cut(0, 2 * size, 4 * size, at_least_one=True)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("at_least_one", [True, False])
def test_batch_that_ends_behind_the_segment_is_damage(
    tmp_path: Path, at: int, at_least_one: bool
) -> None:
    """An answer that promised its bytes could not be sent to its end."""
    batches = [make_batch(2, base_offset=2 * n) for n in range(4)]
    size = len(batches[0])
    segment = build(tmp_path, (1 << 30, "at rest"), batches)
    data = bytearray(segment.log_path.read_bytes())
    data[at * size + 8 : at * size + 12] = (4 * size).to_bytes(4, "big")
    segment.log_path.write_bytes(data)

    with pytest.raises(CorruptMessage, match=f"ends inside the batch at position {at * size}"):
        segment.cut(0, 4 * size, 4 * size, at_least_one=at_least_one)


def test_batches_before_one_that_ends_behind_the_segment_are_read(tmp_path: Path) -> None:
    """A reader whose room ends within the damaged batch gets those before it, then the error."""
    batches = [make_batch(2, base_offset=2 * n) for n in range(4)]
    size = len(batches[0])
    segment = build(tmp_path, (1 << 30, "at rest"), batches)
    data = bytearray(segment.log_path.read_bytes())
    data[2 * size + 8 : 2 * size + 12] = (4 * size).to_bytes(4, "big")
    segment.log_path.write_bytes(data)

    assert segment.cut(0, 3 * size, 4 * size, at_least_one=True) == Cut(2 * size, 4)
    with pytest.raises(CorruptMessage, match=f"ends inside the batch at position {2 * size}"):
        segment.cut(2 * size, size, 4 * size, at_least_one=True)


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each read return seven bytes at most, also to compiled code."""
    pread, preadv = seam.pread, seam.preadv
    monkeypatch.setattr(seam, "pread", lambda fd, size, at: pread(fd, min(size, 7), at))
    monkeypatch.setattr(
        seam, "preadv", lambda fd, parts, at, *flags: preadv(fd, [parts[0][:7]], at, *flags)
    )
    monkeypatch.setattr(seam.route, "through", seam)


def test_reads_go_on_where_they_ended(
    tmp_path: Path, case: tuple[int, str], few_bytes: None
) -> None:
    """A read that returns fewer bytes than were asked for is no end of the file."""
    batches = [make_batch(2, base_offset=2 * n) for n in range(4)]
    segment = build(tmp_path, case, batches)
    size = len(batches[0])

    for offset in range(8):
        located = segment.locate(offset)
        assert located is not None
        assert located.position == offset // 2 * size
    assert [each.position for each in segment.batches()] == [0, size, 2 * size, 3 * size]
    assert segment.cut(size, 2 * size, 4 * size, at_least_one=True) == Cut(3 * size, 6)
    assert segment.read(size, size) == batches[1]
    assert scan(segment).end == 4 * size


def test_disk_that_fails_within_a_read_is_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bad sector: the part before it is returned first, so that a start would cut the log."""
    segment = build(tmp_path, (4096, "at rest"), [make_batch(2, base_offset=2 * n) for n in (0, 1)])
    bad = segment.size - 10
    pread, preadv = seam.pread, seam.preadv

    def room(size: int, position: int) -> int:
        if position >= bad:
            raise OSError(errno.EIO, "Input/output error")
        return min(size, bad - position)

    monkeypatch.setattr(seam, "pread", lambda fd, size, at: pread(fd, room(size, at), at))
    monkeypatch.setattr(
        seam,
        "preadv",
        lambda fd, parts, at: preadv(fd, [parts[0][: room(len(parts[0]), at)]], at),
    )

    with pytest.raises(OSError, match="Input/output"):
        scan(segment)
    with pytest.raises(OSError, match="Input/output"):
        list(segment.batches())


def scan(segment: LogSegment) -> Scan:
    """Scan the log as a start does."""
    with files.opened(segment.log_path) as fd:
        return scan_log(fd, segment.size, 0, 4096)


def test_cut_keeps_whole_batches(tmp_path: Path, case: tuple[int, str]) -> None:
    """For every start and size the answer is that of adding sizes up."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    bounds = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]
    following = [5, 20, 40, 100, 150, 151]
    last = [4, *(BatchHeader.read(batch).last_offset for batch in batches)]

    for n, start in enumerate(bounds[:-1]):
        for end in bounds[n + 1 :]:
            for max_bytes in {end - start - 1, end - start, end - start + 1}:
                for limit in (end, bounds[-1]):
                    fits = [b for b in bounds if b >= start and b <= min(start + max_bytes, limit)]
                    cut = segment.cut(start, max_bytes, limit, at_least_one=False)
                    assert cut.end == fits[-1]
                    if cut.end < limit or limit == bounds[-1]:
                        expected = following[bounds.index(cut.end)]
                        assert last[bounds.index(cut.end)] < cut.next_offset <= expected


def test_cut_gives_a_first_batch_that_is_too_large(tmp_path: Path, case: tuple[int, str]) -> None:
    """Under the rule of at least one message a reader always gets on."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    start = sum(map(len, batches[:3]))

    assert segment.cut(start, 1, segment.size, at_least_one=True) == Cut(
        start + len(batches[3]), 150
    )
    assert segment.cut(start, 1, segment.size, at_least_one=False).end == start


def test_lookups_are_those_of_a_list(tmp_path: Path, case: tuple[int, str]) -> None:
    """For every offset, start, size and limit."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    bounds = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]
    lasts = [BatchHeader.read(batch).last_offset for batch in batches]
    fd = segment.file().fileno()

    for offset in range(160):
        reaching = [bound for bound, last in zip(bounds, lasts, strict=False) if last >= offset]
        assert lookup.find_position(fd, 0, segment.size, offset) == [*reaching, -1][0]
    for n, start in enumerate(bounds[:-1]):
        for limit in bounds[n + 1 :]:
            for size in (0, 1, 200, 1000, limit - start, limit - start + 1):
                fits = [each for each in bounds if start <= each <= min(start + size, limit)]
                for least in (True, False):
                    end, _ = lookup.find_cut(segment, start, size, limit, least)
                    assert end == (bounds[n + 1] if least and fits == [start] else fits[-1])


def test_an_index_is_searched_by_either_column() -> None:
    """Below the first entry it is the segment's start."""
    entries = bytearray(b"".join(pack(">ii", 10 * n, 1000 * n) for n in range(1, 50)))

    for key in (-1, 0, 9, 10, 11, 245, 490, 10**9):
        position = 1000 * min(max(key // 10, 0), 49)
        assert lookup.position_before(entries, key, 0) == position
        assert lookup.position_before(entries, 100 * key, 4) == position
    times = b"".join(pack(">qi", n << 40, n) for n in range(9))
    for key in (-1, 0, 1, 1 << 40, 5 << 40, (5 << 40) - 1, 1 << 60):
        count = sum(n << 40 <= key for n in range(9))
        assert lookup.count_up_to(times, 12, key, 8, 0) == count


def test_reader_follows_renamed_files(tmp_path: Path) -> None:
    """A segment that is being renamed is found under the old or the new name."""
    segment = build(tmp_path, (0, "at rest"), gappy())
    segment.files.change_suffix(".deleted")

    assert segment.locate(100) is not None


@pytest.mark.parametrize(
    ("call", "look"),
    [
        ("open_file", lambda old: files.read_at(old.open_to_read(files.LOG).fileno(), 9, 0)),
        ("read_bytes", lambda old: old.read(files.LOG)),
        ("find_size", lambda old: b"old"[: old.size(files.LOG)]),
        ("stat", lambda old: b"old" if old.modified_ms == 3 else b"new"),
    ],
)
def test_a_name_that_another_segment_takes_meanwhile(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    look: Callable[[SegmentFiles], bytes],
) -> None:
    """The swap is through between the look at the name and the call: the file is the old one."""
    old = SegmentFiles(tmp_path, 0, "", OpenFiles())
    new = SegmentFiles(tmp_path, 0, files.SWAP, OpenFiles())
    old.log_path.write_bytes(b"old")
    new.log_path.write_bytes(b"n")
    os.utime(old.log_path, ns=(0, 3_000_000))
    owner = seam if call == "stat" else files
    called = getattr(owner, call)

    def swap_first(path: str) -> object:
        if new.suffix:
            old.change_suffix(files.DELETED)
            new.change_suffix("")
        return called(path)

    monkeypatch.setattr(owner, call, swap_first)

    assert look(old) == b"old"


def test_the_time_of_a_segment_that_is_half_renamed(tmp_path: Path, disk: Disk) -> None:
    """Its ``.log`` has the new name, its indexes the old one, and retention sees when it ended."""
    segment = build(tmp_path, (0, "at rest"), gappy())
    before = segment.files.modified_ns
    disk.fail("rename", errno.ENOSPC, files.INDEX)
    with pytest.raises(OSError, match="No space"):
        segment.files.change_suffix(files.DELETED)

    assert segment.files.modified_ns == before


def test_upper_offset_is_above_all_before_the_position(
    tmp_path: Path, case: tuple[int, str]
) -> None:
    """The first entry at or after a position; its offset is no less than any before it."""
    batches = gappy()
    segment = build(tmp_path, case, batches)
    bounds = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]

    for position, last in zip(bounds[1:], [9, 24, 40, 149, 150], strict=True):
        upper = segment.upper_offset(position)
        assert upper is None or upper > last


class TestTimestamps:
    def test_first_record_by_offset_at_or_after_the_time(
        self, tmp_path: Path, case: tuple[int, str]
    ) -> None:
        """Times may be unordered: the answer is the first by offset, whatever comes later."""
        times = [100, 300, 200, 300, 50, 400]
        batches = [
            make_batch(base_offset=n, timestamp=t, leader_epoch=3) for n, t in enumerate(times)
        ]
        segment = build(tmp_path, case, batches)

        for wanted in range(0, 410, 10):
            for start in range(7):
                hits = [n for n, t in enumerate(times) if t >= wanted and n >= start]
                expected = (times[hits[0]], hits[0], 3) if hits else None
                assert segment.find_timestamp(wanted, start) == expected

    def test_record_inside_a_batch(self, tmp_path: Path, case: tuple[int, str]) -> None:
        """The record's own offset, though the index has the batch's last one (KAFKA-16310)."""
        batches = [
            make_batch(10, base_offset=10 * n, timestamp=1000 * n, step_ms=10, codec=n % 5)
            for n in range(6)
        ]
        segment = build(tmp_path, case, batches)

        assert segment.find_timestamp(2035, 0) == (2040, 24, -1)
        assert segment.find_timestamp(2095, 0) == (3000, 30, -1)
        assert segment.find_timestamp(2000, 27) == (2070, 27, -1)
        assert segment.find_timestamp(5091, 0) is None

    def test_equal_times_give_the_first(self, tmp_path: Path, case: tuple[int, str]) -> None:
        """The earliest of equals."""
        batches = [make_batch(base_offset=n, timestamp=7) for n in range(5)]
        segment = build(tmp_path, case, batches)

        assert segment.find_timestamp(7, 0) == (7, 0, -1)

    def test_append_time_counts_for_all_records(self, tmp_path: Path) -> None:
        """Under LogAppendTime every record has the batch's time, its own does not count."""
        batch = make_batch(3, timestamp=5, flags=LOG_APPEND_TIME, max_timestamp=9000, step_ms=0)
        segment = build(tmp_path, (0, "active"), [batch])

        assert segment.find_timestamp(9000, 0) == (9000, 0, -1)

    def test_emptied_batch_is_passed_over(self, tmp_path: Path) -> None:
        """The cleaner leaves batches without records; they have a time but no record."""
        emptied = make_batch([], last_offset_delta=4, max_timestamp=50)
        segment = build(tmp_path, (0, "active"), [emptied, make_batch(base_offset=5, timestamp=60)])

        assert segment.find_timestamp(40, 0) == (60, 5, -1)


class TestDamage:
    """Damage that `find_damage` sees without reading the log."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """Return the folder of a sound segment."""
        written = make_segment(tmp_path, TopicConfig(index_interval_bytes=0))
        append_next(written, [make_batch(3, timestamp=n + 1) for n in range(5)])
        written.append_aborted(AbortedTransaction(1, 0, 3, 4))
        written.close()
        assert written.find_damage() is None
        return tmp_path

    @pytest.mark.parametrize("kind", [".index", ".timeindex"])
    def test_missing(self, folder: Path, kind: str) -> None:
        """Kafka leaves a missing time index empty; we rebuild it."""
        (folder / f"00000000000000000000{kind}").unlink()

        assert load_segment(folder).find_damage() == f"{kind} is missing"

    @pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
    def test_torn(self, folder: Path, kind: str) -> None:
        """A length that is no multiple of an entry."""
        path = folder / f"00000000000000000000{kind}"
        path.write_bytes(path.read_bytes()[:-1])

        assert f"{kind}: its length" in str(load_segment(folder).find_damage())

    @pytest.mark.parametrize("kind", [".index", ".timeindex"])
    def test_tail_of_zeros(self, folder: Path, kind: str) -> None:
        """The rest of a preallocation that a Kafka that crashed leaves (KAFKA-10207)."""
        path = folder / f"00000000000000000000{kind}"
        path.write_bytes(path.read_bytes() + bytes(24 * 100))

        assert f"{kind}: its last entry" in str(load_segment(folder).find_damage())

    def test_entry_that_names_no_batch(self, folder: Path) -> None:
        """The batch of the last entry is looked at."""
        path = folder / "00000000000000000000.index"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)

        assert ".index: no batch" in str(load_segment(folder).find_damage())

    def test_empty_time_index(self, folder: Path) -> None:
        """Of a segment whose first batch has a time."""
        (folder / "00000000000000000000.timeindex").write_bytes(b"")

        assert "it is empty but" in str(load_segment(folder).find_damage())

    def test_log_shorter_than_its_index(self, folder: Path) -> None:
        """The log lost its tail, the index did not."""
        path = folder / "00000000000000000000.log"
        path.write_bytes(path.read_bytes()[:200])

        assert "outside the log" in str(load_segment(folder).find_damage())
