"""The two sparse indexes, in memory and in files."""

import struct
from pathlib import Path

import pytest

from siltstone.storage import files
from siltstone.storage.segment.damage import offset_index_damage, time_index_damage
from siltstone.storage.segment.index import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    ActiveIndexes,
    Entries,
    FileEntries,
    MemoryEntries,
    OffsetEntry,
    OffsetIndex,
    TimeEntry,
    TimeIndex,
)
from siltstone.storage.segment.open_file import SegmentFile

BASE = 100


def entries_in(place: str, directory: Path, size: int, data: bytes) -> Entries:
    """Return entries in memory or in a file."""
    if place == "memory":
        return MemoryEntries(size, data)
    path = directory / f"entries-{size}"
    path.write_bytes(data)
    return FileEntries(size, SegmentFile(files.open_file(path)))


@pytest.fixture(params=["memory", "file"])
def place(request: pytest.FixtureRequest) -> str:
    """Run a test on both."""
    return str(request.param)


def offset_index(place: str, directory: Path, count: int) -> OffsetIndex:
    """Return an index of (110, 1000), (120, 2000) and so on."""
    data = b"".join(OFFSET_ENTRY.pack(10 * n, 1000 * n) for n in range(1, count + 1))
    return OffsetIndex(BASE, entries_in(place, directory, OFFSET_ENTRY.size, data))


def test_entry_is_two_big_endian_ints() -> None:
    """An offset entry is relative offset and position; a time entry timestamp and offset."""
    indexes = ActiveIndexes(BASE)

    indexes.add(120, 4242)
    indexes.add_time(1_700_000_000_000, 120)

    assert indexes.offsets.unwritten().hex() == "0000001400001092"
    assert indexes.times.unwritten().hex() == "0000018bcfe5680000000014"


@pytest.mark.parametrize("count", [0, 1, 2, 511, 512, 513, 3000])
def test_floor_equals_a_linear_search(place: str, tmp_path: Path, count: int) -> None:
    """The largest entry at or below the offset; below the first one, the segment's start."""
    index = offset_index(place, tmp_path, count)
    entries = [OffsetEntry(BASE, 0)] + [index[n] for n in range(count)]

    for offset in {99, 100, 109, 110, 111, BASE + 10 * count - 1, BASE + 10 * count, 10**6}:
        below = [entry for entry in entries if entry.offset <= offset]
        assert index.floor(offset) == (below[-1] if below else entries[0])


def test_positions_are_found_both_ways(place: str, tmp_path: Path) -> None:
    """Floor: the last batch that begins at or before; ceiling: the first at or after."""
    index = offset_index(place, tmp_path, 2000)

    assert index.floor_position(999) == (BASE, 0)
    assert index.floor_position(1000) == (110, 1000)
    assert index.floor_position(1_999_999) == (BASE + 19990, 1_999_000)
    assert index.ceiling_position(1001) == (120, 2000)
    assert index.ceiling_position(2000) == (120, 2000)
    assert index.ceiling_position(2_000_001) is None


def test_time_floor(place: str, tmp_path: Path) -> None:
    """The last entry at or below the time, none below the first."""
    data = b"".join(TIME_ENTRY.pack(5 * n, n) for n in range(1, 1001))
    index = TimeIndex(BASE, entries_in(place, tmp_path, TIME_ENTRY.size, data))

    assert index.floor(4) is None
    assert index.floor(5) == TimeEntry(5, 101)
    assert index.floor(4999) == TimeEntry(4995, 1099)
    assert index.floor(10**12) == index.last() == TimeEntry(5000, 1100)


def test_time_entry_needs_a_later_time() -> None:
    """An equal or earlier timestamp adds nothing: entries increase strictly."""
    indexes = ActiveIndexes(BASE)

    for timestamp in (7, 7, 6, 8):
        indexes.add_time(timestamp, 105)

    assert [indexes.time_index()[n].timestamp for n in range(2)] == [7, 8]
    assert len(indexes.times) == 2


def test_time_zero_counts_and_none_does_not() -> None:
    """A record of 1970 has a timestamp, one of -1 has none."""
    indexes = ActiveIndexes(BASE)

    indexes.add_time(-1, 100)
    indexes.add_time(0, 101)

    assert indexes.time_index().last() == TimeEntry(0, 101)


def test_time_index_keeps_room_for_the_last_entry() -> None:
    """It is full one entry early, the offset index at its limit."""
    indexes = ActiveIndexes(BASE)
    index_bytes = 48  # 6 offset entries or 4 time entries

    fullness = []
    for n in range(1, 4):
        indexes.add_time(n, BASE + n)
        fullness.append(indexes.is_full(index_bytes))

    assert fullness == [False, False, True]


def test_offset_index_is_full_at_its_limit() -> None:
    """Entries are counted in whole ones: 17 bytes hold two."""
    indexes = ActiveIndexes(BASE)
    indexes.add(101, 1)

    assert not indexes.is_full(39)
    indexes.add(102, 2)
    indexes.add(103, 3)
    indexes.add(104, 4)
    assert indexes.is_full(39)


def test_offset_out_of_range_is_an_error() -> None:
    """A relative offset is a signed 32-bit number; the log rolls before it overflows."""
    with pytest.raises(struct.error):
        ActiveIndexes(0).add(2**31, 0)


@pytest.mark.parametrize(
    ("last", "damage"),
    [
        ((20, 2000), None),
        ((0, 2000), "its last entry is 100 at 2000"),
        ((20, 0), "its last entry is 120 at 0"),
        ((-5, 2000), "its last entry is 95"),
        ((20, 5000), "outside the log"),
    ],
)
def test_offset_index_damage(last: tuple[int, int], damage: str | None) -> None:
    """A tail of zeros or an entry outside the log is noticed at first sight."""
    data = OFFSET_ENTRY.pack(10, 1000) + OFFSET_ENTRY.pack(*last)

    found = offset_index_damage(OffsetIndex(BASE, MemoryEntries(8, data)), 5000)

    assert (found is None) if damage is None else (damage in (found or ""))


@pytest.mark.parametrize(
    ("last", "is_damaged"),
    [((8, 20), False), ((7, 20), True), ((0, 0), True), ((8, 5), True), ((8, 10), False)],
)
def test_time_index_damage(last: tuple[int, int], is_damaged: bool) -> None:
    """Times that do not increase, or offsets that go back, are noticed at first sight."""
    data = TIME_ENTRY.pack(7, 10) + TIME_ENTRY.pack(*last)

    found = time_index_damage(TimeIndex(BASE, MemoryEntries(12, data)))

    assert (found is not None) == is_damaged


def test_a_sample_ends_where_its_reader_does() -> None:
    """Its batches begin before a size and end before an offset; there are 4,096 at most."""
    indexes = ActiveIndexes(BASE)
    for number in range(10_000):
        indexes.add(BASE + number, number * 10)
        indexes.add_time(number, BASE + number)

    few = indexes.sample(50, BASE + 5)
    many = indexes.sample(100_000, BASE + 10_000)

    offsets = list(OFFSET_ENTRY.iter_unpack(few[files.INDEX]))
    assert offsets == [(number, number * 10) for number in range(5)]
    assert list(TIME_ENTRY.iter_unpack(few[files.TIME_INDEX])) == [(n, n) for n in range(5)]
    sampled = list(OFFSET_ENTRY.iter_unpack(many[files.INDEX]))
    assert sampled == [(number, number * 10) for number in range(0, 10_000, 3)]


def test_a_sample_has_what_files_lack_alone() -> None:
    """An index whose file has every entry is not among it."""
    indexes = ActiveIndexes(BASE, offsets=OFFSET_ENTRY.pack(3, 70))
    indexes.add_time(1, BASE + 3)

    assert indexes.sample(100, BASE + 4) == {files.TIME_INDEX: TIME_ENTRY.pack(1, 3)}
