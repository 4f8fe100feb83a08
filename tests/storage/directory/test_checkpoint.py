"""Checkpoints and the other small text files, byte for byte."""

import logging
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.storage import files
from siltstone.storage.directory import clean_shutdown
from siltstone.storage.directory.checkpoint import MalformedCheckpoint, OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.topic_partition import TopicPartition
from tests.support.faults import Kill, Killed
from tests.support.power import PowerDisk

OFFSETS = {TopicPartition("user-profiles", 0): 1500, TopicPartition("user-profiles", 1): 0}


def test_offset_checkpoint_is_kafkas_file(tmp_path: Path) -> None:
    """Version, count, one line per partition (OffsetCheckpointFile)."""
    OffsetCheckpoint(tmp_path).write(OFFSETS)

    text = (tmp_path / "recovery-point-offset-checkpoint").read_bytes()
    assert text == b"0\n2\nuser-profiles 0 1500\nuser-profiles 1 0\n"


def test_offset_checkpoint_round_trip(tmp_path: Path) -> None:
    """A written checkpoint is read, whatever is in the file before."""
    checkpoint = OffsetCheckpoint(tmp_path, files.LOG_START_OFFSETS)
    checkpoint.write({TopicPartition("old", 0): 1})

    checkpoint.write(OFFSETS)

    assert checkpoint.read() == OFFSETS


def test_words_may_be_apart_and_the_end_open(tmp_path: Path) -> None:
    """Kafka splits at runs of whitespace and needs no last line feed."""
    (tmp_path / files.RECOVERY_POINTS).write_text("0\n1\n a\t 7   42")

    assert OffsetCheckpoint(tmp_path).read() == {TopicPartition("a", 7): 42}


@pytest.mark.parametrize("content", [None, b""])
def test_missing_or_empty_checkpoint_has_no_entries(tmp_path: Path, content: bytes | None) -> None:
    """Kafka creates checkpoints empty."""
    if content is not None:
        (tmp_path / files.RECOVERY_POINTS).write_bytes(content)

    assert OffsetCheckpoint(tmp_path).read() == {}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"1\n0\n", "line 1: version 1"),
        (b"x\n0\n", "line 1: no version"),
        (b"0\n", "line 2: no count"),
        (b"0\n2\na 0 1\n", "1 entries where line 2 says 2"),
        (b"0\n1\na 0 1\nb 0 1\n", "2 entries where line 2 says 1"),
        (b"0\n1\na 0\n", "line 3: not 3 words"),
        (b"0\n1\na b 1\n", "line 3: invalid literal"),
        (b"\xff\xfe", "not text"),
        (bytes(20), "line 1"),
    ],
)
def test_damaged_checkpoint_is_named(tmp_path: Path, content: bytes, fault: str) -> None:
    """The message says which file and line; recovery then goes on without it, with a warning."""
    (tmp_path / files.RECOVERY_POINTS).write_bytes(content)
    checkpoint = OffsetCheckpoint(tmp_path)

    with pytest.raises(MalformedCheckpoint, match=fault):
        checkpoint.read()


def test_damaged_checkpoint_may_count_as_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without recovery points everything is recovered, which is safe; the log says why."""
    (tmp_path / files.RECOVERY_POINTS).write_bytes(b"junk")

    with caplog.at_level(logging.WARNING):
        assert OffsetCheckpoint(tmp_path).read_or_empty() == {}

    assert "recovery-point-offset-checkpoint" in caplog.text


def test_partition_metadata_is_kafkas_file(tmp_path: Path) -> None:
    """Two lines, no line feed at the end (PartitionMetadataFile)."""
    text = b"version: 0\ntopic_id: 7SqBHxP6QkKw0mJ9cU5sYg"
    path = tmp_path / "partition.metadata"
    path.write_bytes(text)

    metadata = PartitionMetadata.read(tmp_path)

    assert metadata is not None
    path.unlink()
    metadata.write(tmp_path)
    assert path.read_bytes() == text


def test_folder_without_metadata(tmp_path: Path) -> None:
    """A folder of an old Kafka has none."""
    assert PartitionMetadata.read(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: short",
        "version: -1\ntopic_id: 7SqBHxP6QkKw0mJ9cU5sYg",
        "version: 0\ntopic_id: 7SqBHxP6QkKw0mJ9cU5sYg\nmore: 1",
    ],
)
def test_damaged_partition_metadata_is_refused(tmp_path: Path, text: str) -> None:
    """No id, an id of zeros, or anything else beside the two lines is no metadata."""
    (tmp_path / files.PARTITION_METADATA).write_text(text)

    with pytest.raises(MalformedCheckpoint, match=r"partition\.metadata"):
        PartitionMetadata.read(tmp_path)


def test_newer_version_of_metadata_is_accepted(tmp_path: Path) -> None:
    """Kafka accepts every version from 0 on."""
    PartitionMetadata(topic_id=UUID(int=7), version=1).write(tmp_path)

    assert PartitionMetadata.read(tmp_path) == PartitionMetadata(topic_id=UUID(int=7), version=1)


def test_meta_properties_is_kafkas_file(tmp_path: Path) -> None:
    """Java properties with the time in the second comment line, as Java prints it."""
    meta = MetaProperties(
        cluster_id="pQ3vT0m8RrqKcX1yLw5aZg", node_id=1, directory_id="Wj0Gk5bTQ4eCwYxJ8sM3rA"
    )

    meta.write(tmp_path, now_ms=1_736_157_600_000)

    assert (tmp_path / "meta.properties").read_text() == (
        "#\n#Mon Jan 06 10:00:00 UTC 2025\nversion=1\ncluster.id=pQ3vT0m8RrqKcX1yLw5aZg\n"
        "node.id=1\ndirectory.id=Wj0Gk5bTQ4eCwYxJ8sM3rA\n"
    )
    assert MetaProperties.read(tmp_path) == meta


def test_meta_properties_in_another_order(tmp_path: Path) -> None:
    """Java orders properties as it likes, and older brokers had no directory id."""
    (tmp_path / files.META_PROPERTIES).write_text("! x\nnode.id = 4\ncluster.id=c\n\nversion=1\n")

    assert MetaProperties.read(tmp_path) == MetaProperties(
        cluster_id="c", node_id=4, directory_id=""
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("version=0\nbroker.id=1\n", "version=0 is not 1"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\ncluster.id=c\nnode.id=x\n", "node.id is not a number"),
        ("", "version= is not 1"),
    ],
)
def test_damaged_meta_properties_are_refused(tmp_path: Path, text: str, fault: str) -> None:
    """A directory whose owner is not known is not touched."""
    (tmp_path / files.META_PROPERTIES).write_text(text)

    with pytest.raises(MalformedCheckpoint, match=fault):
        MetaProperties.read(tmp_path)


def test_new_directory_has_no_meta_properties(tmp_path: Path) -> None:
    """No file, no identity yet."""
    assert MetaProperties.read(tmp_path) is None


def test_clean_shutdown_counts_once(tmp_path: Path) -> None:
    """The mark is gone before any log is loaded (KAFKA-10471)."""
    clean_shutdown.mark(tmp_path)

    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert clean_shutdown.take(tmp_path)
    assert not clean_shutdown.take(tmp_path)


def test_a_mark_that_a_killed_start_has_taken_does_not_come_back(
    tmp_path: Path, power_disk: PowerDisk
) -> None:
    """The next start finds none, and still makes sure that a power failure brings none back."""
    clean_shutdown.mark(tmp_path)
    power_disk.faults.append(Kill("fsync"))
    with pytest.raises(Killed):
        clean_shutdown.take(tmp_path)
    power_disk.mend()
    clean_shutdown.take(tmp_path)
    power_disk.cut_power()

    assert not clean_shutdown.take(tmp_path)
