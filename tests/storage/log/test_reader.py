"""Reading a partition folder without a broker."""

import gc
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import CONTROL, TRANSACTIONAL
from siltstone.protocol.errors import OffsetOutOfRange
from siltstone.storage.log.reader import PartitionReader
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import make_batch
from tests.support.segments import append, make_segment, open_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three segments: offsets 0-19, 20-29 (a gap to 39), 40-49."""
    path = tmp_path / "a-b-7"
    path.mkdir()
    for base, batches in ((0, (0, 10)), (20, (20,)), (40, (40,))):
        segment = make_segment(path, TopicConfig(index_interval_bytes=0), base_offset=base)
        for offset in batches:
            append(segment, make_batch(10, base_offset=offset, codec=offset // 10 % 5))
        segment.close()
    return path


def offsets(reader: PartitionReader, start: int = 0, end: int | None = None) -> list[int]:
    """Return the offsets of the records in a range."""
    return [record.offset for record in reader.records(start, end)]


ALL = [*range(30), *range(40, 50)]


def test_name_tells_the_partition(folder: Path) -> None:
    """The folder's name is the partition's."""
    assert PartitionReader(folder).topic_partition == TopicPartition("a-b", 7)


@pytest.mark.parametrize("start", [0, 5, 19, 20, 29, 30, 35, 40, 49, 50])
@pytest.mark.parametrize("end", [None, 3, 20, 25, 40, 45, 99])
def test_ranges(folder: Path, start: int, end: int | None) -> None:
    """From one offset to below another, over segments and gaps."""
    expected = [n for n in ALL if n >= start and (end is None or n < end)]

    assert offsets(PartitionReader(folder), start, end) == expected


def test_ends(folder: Path) -> None:
    """The first segment's base, and one past the last batch."""
    reader = PartitionReader(folder)

    assert (reader.start_offset, reader.next_offset()) == (0, 50)


def test_files_are_closed_with_the_reader(folder: Path) -> None:
    """Else a command that reads one partition after the other has the files of all of them open."""
    reader = PartitionReader(folder)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        offsets(reader)
        held = open_files(folder)
        del reader
        left = open_files(folder)
    finally:
        if was_enabled:
            gc.enable()

    assert held
    assert not left


def test_empty_folder(tmp_path: Path) -> None:
    """There is nothing in it."""
    path = tmp_path / "t-0"
    path.mkdir()
    reader = PartitionReader(path)

    assert (reader.start_offset, reader.next_offset(), offsets(reader)) == (0, 0, [])


def test_markers_are_no_records(folder: Path) -> None:
    """Control batches are batches but hold no data."""
    segment = make_segment(folder, base_offset=60)
    append(segment, make_batch(base_offset=60, flags=CONTROL | TRANSACTIONAL))
    segment.close()
    reader = PartitionReader(folder)

    assert offsets(reader) == ALL
    assert [batch.header.base_offset for batch in reader.batches(50)] == [60]


def test_appended_batches_are_seen_after_a_refresh(folder: Path) -> None:
    """A snapshot of sizes, so a batch that is being written is not seen half."""
    reader = PartitionReader(folder)
    segment = make_segment(folder, base_offset=60)
    append(segment, make_batch(base_offset=60))

    assert offsets(reader, 50) == []
    reader.refresh()
    assert offsets(reader, 50) == [60]


def test_cleaned_segments_are_followed(folder: Path) -> None:
    """While we read the first segment the cleaner merges the second into it."""
    reader = PartitionReader(folder)
    batches = reader.batches()
    seen = [next(batches).header.base_offset]
    merged = make_segment(folder, base_offset=0)
    for offset in (10, 20):
        append(merged, make_batch(10, base_offset=offset))
    merged.close()
    for path in folder.glob("*20.*"):
        path.unlink()

    seen += [batch.header.base_offset for batch in batches]

    assert sorted(set(seen)) == [0, 10, 20, 40]


def test_files_that_always_vanish(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is an end to looking again."""
    reader = PartitionReader(folder)
    monkeypatch.setattr(reader, "refresh", lambda: None)
    for path in folder.glob("*.log"):
        path.unlink()

    with pytest.raises(OffsetOutOfRange, match="begin again"):
        offsets(reader)


def test_nothing_is_written(folder: Path) -> None:
    """Not even a missing index."""
    (folder / "00000000000000000020.index").unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}

    assert offsets(PartitionReader(folder)) == ALL

    assert {path: path.read_bytes() for path in folder.iterdir()} == before
