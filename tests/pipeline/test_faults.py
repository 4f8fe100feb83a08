"""Files that are damaged or change between planning and reading: right rows, or one sentence."""

import random
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from siltstone.pipeline.client.watch import Watch
from siltstone.pipeline.errors import CorruptLog, DataLost, SnapshotExpired, SourceUnavailable
from siltstone.pipeline.planning.split import Split
from siltstone.pipeline.reading.scanned import Scanned
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.storage import files
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from tests.support.archives import Archive, damage, positions, read_splits
from tests.support.batches import make_batch
from tests.support.clock import FakeClock


def log_of(folder: Path, base_offset: int = 0) -> Path:
    """Return the path of a segment's log."""
    return folder / files.segment_file_name(base_offset)


def offsets(splits: list[Split], scanned: Scanned | None = None) -> list[int]:
    """Return the offsets that splits read."""
    found: list[int] = read_splits(splits, ("offset", "value"), scanned=scanned)[
        "offset"
    ].to_pylist()
    return found


def test_a_flipped_byte_names_file_and_position(archive: Archive) -> None:
    """A wrong checksum fails the read with the place, the offsets and what can be done."""
    folder = archive.fill_plain(100)
    third = positions(folder)[2]
    damage(log_of(folder), third + HEADER_SIZE + 5)

    with pytest.raises(CorruptLog) as caught:
        offsets(archive.plan())

    assert str(caught.value) == (
        f"{log_of(folder)} at position {third}: its checksum is wrong (offsets 20 and on of t-0); "
        "onCorrupt=skip goes on without it"
    )


@pytest.mark.parametrize("byte", [8, 9, 11, 16, 17, 23, 57, HEADER_SIZE, HEADER_SIZE + 40])
def test_a_bad_batch_is_skipped(archive: Archive, byte: int) -> None:
    """Wherever a batch is hit, its neighbours are read."""
    folder = archive.fill_plain(100)
    damage(log_of(folder), positions(folder)[2] + byte)
    scanned = Scanned()

    splits = archive.plan(onCorrupt="skip")
    found = offsets(splits, scanned)

    assert found == [*range(20), *range(30, 100)]
    assert scanned.corrupt == 1


def test_a_log_that_was_cut_is_data_loss(archive: Archive) -> None:
    """A file that is shorter than it was has lost what was promised."""
    folder = archive.fill_plain(100)
    splits = archive.plan()
    log = log_of(folder)
    log.write_bytes(log.read_bytes()[: positions(folder)[5]])

    with pytest.raises(DataLost, match="t-0 was cut or made again since the read was planned"):
        offsets(splits)


def test_a_topic_made_again_is_another_topic(archive: Archive) -> None:
    """The same name with another topic id is refused before a record is read."""
    folder = archive.fill_plain(100)
    splits = archive.plan()
    shutil.rmtree(folder)
    archive.fill_plain(200, topic_id=8)

    with pytest.raises(DataLost, match="topic t was deleted and made again since"):
        offsets(splits)


def test_a_folder_that_is_gone(archive: Archive) -> None:
    """A deleted topic is one sentence, and so is a missing log directory."""
    folder = archive.fill_plain(10)
    splits = archive.plan()
    shutil.rmtree(folder)

    with pytest.raises(SnapshotExpired, match="are gone since the read was planned"):
        offsets(splits)
    shutil.rmtree(archive.root)
    with pytest.raises(SourceUnavailable, match="name a log directory that exists"):
        archive.plan()


def test_a_broken_topic_id_is_no_obstacle(archive: Archive) -> None:
    """Without a readable partition.metadata the log can still be read."""
    folder = archive.fill_plain(10)
    PartitionMetadata(topic_id=UUID(int=1)).write(folder)
    (folder / files.PARTITION_METADATA).write_bytes(b"\xff\xff")

    assert offsets(archive.plan()) == list(range(10))


def test_a_slow_read_of_a_compacted_topic_without_a_pin_is_refused(archive: Archive) -> None:
    """When tombstones may be gone, a deleted key could come back: the read ends instead."""
    archive.fill_plain(10)
    (archive.root / files.CLEANER_OFFSETS).write_text("0\n1\nt 0 5\n")
    clock = FakeClock()
    (split,) = archive.plan()
    rules = replace(split.rules, deadline_ms=clock.now_ms() + 43_200_000)
    watch = Watch(replace(split, rules=rules), clock)
    watch.look()
    clock.advance(43_200_001)

    with pytest.raises(SnapshotExpired, match="a deleted key could come back"):
        watch.look()


@pytest.mark.parametrize("seed", range(40))
def test_any_damage_is_found_or_harmless(archive: Archive, seed: int) -> None:
    """A random byte before the last batch changed: the same rows as before, or an error."""
    rng = random.Random(seed)
    folder = archive.fill([[make_batch(5, codec=seed % 5) for _ in range(20)]], interval=0)
    columns = ("offset", "key", "value", "timestampMs")
    before = archive.read(columns).to_pylist()
    damage(log_of(folder), rng.randrange(positions(folder)[-1]), rng.randrange(256))

    with suppress(CorruptLog):
        assert archive.read(columns).to_pylist() == before
