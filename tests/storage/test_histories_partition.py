"""Faults that the random histories excuse in a partition, and others."""

from pathlib import Path
from random import Random

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.build import COMMIT, build_marker
from siltstone.storage import files
from siltstone.storage.producers.checks import Origin
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.histories.partition import Found, Partition, split
from tests.support.logs import LogFolder, validated


def _partition(folder: LogFolder) -> Partition:
    """Return what a partition with the batches of a log must hold."""
    log = folder.log
    partition = Partition(log.topic_partition, log.topic_id, folder.config)
    for segment in log.segments:
        for batch in split(segment.read(0, segment.size)):
            partition.known.append(batch)
            partition.end = batch.last + 1
    partition.start = log.log_start_offset
    return partition


@pytest.fixture
def trimmed(tmp_path: Path) -> LogFolder:
    """A batch below the log start offset in a segment of its own, and one above."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=len(make_batch([(b"k", b"v" * 10)]))))
    folder.append()
    folder.append()
    folder.log.delete_records(1)
    return folder


@pytest.mark.parametrize(
    ("lost_power", "policy", "is_excused"),
    [(True, "delete", True), (False, "delete", False), (False, "compact", True)],
)
def test_a_batch_below_the_start_is_missing(
    trimmed: LogFolder, *, lost_power: bool, policy: str, is_excused: bool
) -> None:
    """A power failure, or the end of a pass of the cleaner, may take it; a kill takes nothing."""
    trimmed.config = TopicConfig(segment_bytes=300, cleanup_policy=(policy,))
    partition = _partition(trimmed)
    trimmed.checkpoint()
    (trimmed.path / files.segment_file_name(0, files.LOG)).write_bytes(b"")
    log = trimmed.reopen()
    partition.absorb(log, lost_power=lost_power)

    assert [each.base_offset for each in log.segments] == [0, 1]
    if is_excused:
        partition.judge(log, Random(0))
    else:
        with pytest.raises(Found, match="the files"):
            partition.judge(log, Random(0))


@pytest.mark.parametrize("lost_power", [True, False])
def test_a_batch_above_the_start_is_missing(trimmed: LogFolder, *, lost_power: bool) -> None:
    """Nothing excuses it, if it was flushed."""
    partition = _partition(trimmed)
    partition.sure = partition.end
    trimmed.checkpoint()
    (trimmed.path / files.segment_file_name(1, files.LOG)).write_bytes(b"")
    log = trimmed.reopen()

    with pytest.raises(Found, match=r"a batch is lost|an offset is given out again"):
        partition.absorb(log, lost_power=lost_power)


@pytest.mark.parametrize(("start", "expected"), [(1, 0), (0, 1)])
def test_the_sequence_behind_a_marker(tmp_path: Path, start: int, expected: int) -> None:
    """A producer of which a start finds the marker alone goes on with 0."""
    folder = LogFolder(tmp_path)
    folder.append(producer_id=9, producer_epoch=0, base_sequence=0, flags=0x10)
    folder.log.roll()
    marker = build_marker(0, TIMESTAMP, COMMIT, 0, producer_id=9, producer_epoch=0)
    folder.log.append(validated(marker), Origin.COORDINATOR)
    folder.settle()
    partition = _partition(folder)
    folder.log.delete_records(start)
    folder.log.apply_retention(TIMESTAMP)
    folder.settle()
    folder.checkpoint()
    partition.start = folder.log.log_start_offset
    partition.producer(9).sequence = 1
    partition.absorb(folder.reopen(), lost_power=False)

    assert partition.producers[9].sequence == expected
    folder.append(producer_id=9, producer_epoch=0, base_sequence=expected, flags=0x10)
    assert folder.log.log_end_offset == 3
