"""Bits that flip in files at rest: what is noticed, what is repaired, what is never served."""

import logging
import struct
from contextlib import suppress
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import CorruptMessage
from siltstone.storage import files
from siltstone.storage.dump import any_file as dump
from siltstone.storage.dump.line import Fault
from siltstone.storage.log.log import Log
from siltstone.storage.segment.segment import LogSegment
from tests.support.batches import TIMESTAMP
from tests.support.logs import LogFolder, bytes_of, offsets_in

CONFIG = TopicConfig(segment_bytes=2_000, index_interval_bytes=0)
COUNT = 60


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    """A log of sixty batches in several segments, after a restart."""
    folder = LogFolder(tmp_path, CONFIG)
    for number in range(COUNT):
        folder.append(timestamp=TIMESTAMP + number * 1000)
    folder.close()
    folder.reopen(is_clean=True)
    return folder


def damage(segment: LogSegment, kind: str, at: int, layout: str, value: int) -> None:
    """Overwrite a number in a file of a segment."""
    path = segment.files.path(kind)
    data = bytearray(path.read_bytes())
    struct.pack_into(layout, data, at, value)
    path.write_bytes(data)


def first_offsets(log: Log) -> list[int]:
    """Return the base offset of the batch that a read of each offset begins with."""
    found = []
    for offset in range(COUNT):
        read = log.read(offset, 1, COUNT)
        assert read is not None
        found += offsets_in(read.segment.read(read.slice.position, read.slice.size))
    return found


@pytest.mark.parametrize(
    ("at", "value"),
    [(4, -5), (4, 17), (4, 2**31 - 1), (12, 0x7FFF), (8, 0), (8, 2**31 - 1), (68, 5), (64, -1)],
)
@pytest.mark.parametrize("number", [0, -1], ids=["closed", "active"])
def test_damaged_offset_index(
    folder: LogFolder, number: int, at: int, value: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Every batch is found all the same; one line says which file; the next start rebuilds it."""
    segment = folder.log.segments[number]
    damage(segment, files.INDEX, at, ">i", value)
    caplog.set_level(logging.ERROR)
    if number:
        folder.reopen(is_clean=True)
        folder.append()

    assert first_offsets(folder.log) == list(range(COUNT))
    assert len(caplog.messages) <= 1
    assert all(segment.files.path(files.INDEX).name in line for line in caplog.messages)
    folder.close()
    log = folder.reopen(is_clean=True)
    assert first_offsets(log) == list(range(COUNT))
    if caplog.messages:
        assert all(each.find_damage() is None for each in log.segments)


def test_damaged_time_index_deletes_nothing(folder: LogFolder) -> None:
    """Retention by time goes by the batches when the index does not agree with them."""
    segment = folder.log.segments[0]
    size = segment.files.path(files.TIME_INDEX).stat().st_size
    damage(segment, files.TIME_INDEX, size - 12, ">q", 5)
    folder.log.reconfigure(TopicConfig(segment_bytes=2_000, retention_ms=3_600_000))

    assert folder.log.apply_retention(TIMESTAMP + 3_000_000) == 0
    assert segment.max_timestamp > TIMESTAMP


@pytest.mark.parametrize("value", [0, 5, 2**62])
def test_damaged_time_index_finds_the_record(folder: LogFolder, value: int) -> None:
    """A lookup by time does not skip records because an entry says so."""
    damage(folder.log.segments[0], files.TIME_INDEX, 0, ">q", value)
    damage(folder.log.segments[0], files.TIME_INDEX, 20, ">i", 9)
    found = folder.log.find_offset_by_timestamp(TIMESTAMP + 1000, COUNT)

    assert found is not None
    assert found.offset == 1


@pytest.mark.parametrize(("at", "layout", "value"), [(8, ">i", 3), (16, ">b", 7)])
def test_damaged_header_in_a_closed_segment(
    folder: LogFolder, at: int, layout: str, value: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A read that comes upon it is refused and told once; what is behind it is still served."""
    segment = folder.log.segments[0]
    second = segment.locate(1)
    assert second is not None
    damage(segment, files.LOG, second.position + at, layout, value)
    for _ in range(3):
        with pytest.raises(CorruptMessage, match=f"position {second.position}"):
            folder.log.read(1, 1, COUNT)

    assert offsets_in(bytes_of(folder.log, 2)) == list(range(2, COUNT))
    assert segment.files.path(files.INDEX).exists()
    assert len(caplog.messages) == 1
    assert str(segment.log_path) in caplog.messages[0]
    assert f"position {second.position}" in caplog.messages[0]


@pytest.mark.parametrize("value", [-(2**63), -1, 2**32, 2**63 - 1])
def test_damaged_offset_of_the_latest_batch(folder: LogFolder, value: int) -> None:
    """It is no place to look at: what the index says is all there is to go by."""
    for number in (COUNT, 0, 0):
        folder.append(timestamp=TIMESTAMP + number * 1000)
    segment = folder.log.segments[-1]
    latest = segment.locate(COUNT)
    assert latest is not None
    folder.close()
    damage(segment, files.LOG, latest.position, ">q", value)
    log = folder.reopen(is_clean=True)

    with suppress(CorruptMessage):
        assert log.find_max_timestamp(COUNT + 3) is None
    assert log.segments[-1].max_timestamp == TIMESTAMP + COUNT * 1000


def test_damaged_records_in_a_closed_segment(folder: LogFolder) -> None:
    """The checksum is the consumer's to check, as with Apache Kafka; the dump names the place."""
    segment = folder.log.segments[0]
    second = segment.locate(1)
    assert second is not None
    damage(segment, files.LOG, second.position + 65, ">b", 99)
    faults = [str(line) for line in dump.dump_file(segment.log_path) if isinstance(line, Fault)]

    assert faults == [f"FAULT wrong checksum of the batch at position {second.position}"]
