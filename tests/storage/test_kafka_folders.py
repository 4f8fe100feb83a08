"""Folders that Apache Kafka wrote (tests/data): we read them and rebuild the same files."""

import shutil
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.storage import files
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.dump import any_file as dump
from siltstone.storage.dump.log_file import Wanted
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.log.reader import PartitionReader
from siltstone.storage.producers import snapshot as producer_snapshot
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition

DATA = Path(__file__).parents[1] / "data"
CONFIG = TopicConfig(index_interval_bytes=512)
"""The settings that the folders were written with."""


@pytest.fixture(params=["mixed-0", "transactions-0"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of a folder."""
    return Path(shutil.copytree(DATA / request.param, tmp_path / request.param))


def contents(folder: Path) -> dict[str, bytes]:
    """Return all files by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def segments(folder: Path) -> list[LogSegment]:
    """Return the segments."""
    return [
        LogSegment(folder, each.base_offset, CONFIG, now_ms=0, open_files=OpenFiles()).load()
        for each in PartitionReader(folder).segments
    ]


def test_nothing_is_wrong_with_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither for the dump, records included, nor for the checks at the start."""
    assert dump.run([folder], Wanted(deep=True)) == 0
    assert "FAULT" not in capsys.readouterr().out
    assert [each.find_damage() for each in segments(folder)] == [None] * len(segments(folder))


def test_recovery_rebuilds_kafkas_indexes(folder: Path) -> None:
    """Byte for byte: offset, time and transaction indexes, leader epochs."""
    before = contents(folder)
    for name in before:
        if name.endswith((files.INDEX, files.TIME_INDEX, files.TRANSACTION_INDEX)):
            (folder / name).unlink()
    epochs = LeaderEpochs(folder)
    producers = ProducerStateManager(folder, TopicPartition("t", 0))

    for segment in segments(folder):
        assert segment.recover(producers, epochs.note) == 0
    epochs.flush()

    assert contents(folder) == before


def test_replay_gives_kafkas_snapshots(folder: Path) -> None:
    """The producers at the start of each segment, and at the end, are those Kafka saw."""
    producers = ProducerStateManager(folder, TopicPartition("t", 0))
    for segment in segments(folder):
        segment.recover(producers)
        path = folder / files.segment_file_name(segment.next_offset(), files.SNAPSHOT)
        theirs = producer_snapshot.decode(path.read_bytes())
        ours = producers.producers
        for producer_id, entry in theirs.items():
            assert producer_snapshot.encode([(producer_id, entry)]) == (
                producer_snapshot.encode([(producer_id, ours[producer_id])])
            )


def test_records_are_all_there(folder: Path) -> None:
    """Offsets without a gap but for markers."""
    reader = PartitionReader(folder)
    markers = {batch.header.base_offset for batch in reader.batches() if batch.header.is_control}

    offsets = [record.offset for record in reader.records()]

    assert sorted({*offsets, *markers}) == list(range(reader.next_offset()))


def test_topic_id_is_read_and_written_back(folder: Path) -> None:
    """partition.metadata comes out as it went in."""
    path = folder / files.PARTITION_METADATA
    before = path.read_bytes()

    metadata = PartitionMetadata.read(folder)
    assert metadata is not None
    metadata.write(folder)

    # Kafka's own file ends without a line feed, like ours
    assert path.read_bytes() == before
