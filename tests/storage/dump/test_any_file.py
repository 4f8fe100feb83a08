"""Files of a log directory as text."""

from pathlib import Path
from uuid import UUID

import pytest

from siltstone.broker.__main__ import main
from siltstone.config.topic import TopicConfig
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage import files
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.directory.meta_properties import MetaProperties
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.segment import LogSegment
from siltstone.storage.topic_partition import TopicPartition
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.segments import append, make_segment
from tests.support.snapshots import take_snapshot

PARTITION = TopicPartition("t", 0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one file of every kind, all sound."""
    path = tmp_path / "t-0"
    path.mkdir()
    segment = make_segment(path, TopicConfig(index_interval_bytes=0))
    ours = {"producer_id": 4000, "producer_epoch": 2}
    append(segment, make_batch([(b"secret-key", b"secret-value")]))
    append(segment, make_batch(3, base_offset=1, codec=4, timestamp=TIMESTAMP + 10))
    append(segment, make_batch(2, base_offset=4, base_sequence=7, flags=0x10, **ours))
    append(segment, build_marker(6, TIMESTAMP + 50, ABORT, 3, **ours))
    producers = ProducerStateManager(path, PARTITION)
    for position, header in segment.batches():
        aborted = producers.replay(header, segment.read(position, header.size))
        if aborted:
            segment.append_aborted(aborted)
    take_snapshot(producers)
    segment.close()
    LeaderEpochs(path).assign(4, 0)
    PartitionMetadata(topic_id=UUID(int=7)).write(path)
    OffsetCheckpoint(path, files.RECOVERY_POINTS).write({PARTITION: 7})
    MetaProperties(cluster_id="c", node_id=1, directory_id="d").write(path, TIMESTAMP)
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed."""
    code = main(["dump-log", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_every_file_of_a_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line of facts per batch, entry, producer or partition, under the file's name."""
    (folder / "stranger.txt").touch()

    code, out = run(capsys, folder)

    assert code == 0
    for expected in (
        "position=0 size=90 base_offset=0 last_offset=0 count=1 leader_epoch=-1 codec=none",
        "codec=zstd",
        "producer_id=4000 producer_epoch=2 base_sequence=7 last_sequence=8 transactional=True",
        "control=True",
        "  offset=3 position=90",
        f"  timestamp={TIMESTAMP + 50} offset=6",
        "producer_id=4000 first_offset=4 last_offset=6 last_stable_offset=7",
        "producer_id=4000 producer_epoch=2 coordinator_epoch=3 transaction_first_offset=-1",
        "epoch=4 start_offset=0",
        "version=0 topic_id=AAAAAAAAAAAAAAAAAAAABw",
        "topic=t partition=0 offset=7",
        "cluster_id=c node_id=1 directory_id=d",
    ):
        assert expected in out
    assert "stranger" not in out
    assert "secret" not in out
    assert "FAULT" not in out


def test_records_without_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Deep iteration tells sizes and the kind of markers, never what is in a record."""
    code, out = run(capsys, "--deep-iteration", folder / "00000000000000000000.log")

    assert code == 0
    assert f"| offset=0 timestamp={TIMESTAMP} key_size=10 value_size=12 headers=0" in out
    assert "| offset=6 marker=ABORT coordinator_epoch=3" in out
    assert "secret" not in out


def test_records_with_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys and values when they are asked for."""
    _, out = run(capsys, "--print-data", folder / "00000000000000000000.log")

    assert "key=b'secret-key' value=b'secret-value'" in out


@pytest.mark.parametrize("kind", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_every_flipped_bit_of_a_segment_is_found(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """In the last byte and near the start: checksums, or the log beside an index, tell."""
    path = next(folder.glob(f"*{kind}"))
    data = path.read_bytes()

    for at in (-1, 1):
        damaged = bytearray(data)
        damaged[at] ^= 0x40
        path.write_bytes(damaged)
        code, out = run(capsys, path)
        assert code == 1, at
        assert "FAULT" in out


@pytest.mark.parametrize(
    "name",
    [files.LEADER_EPOCHS, files.PARTITION_METADATA, files.RECOVERY_POINTS, files.META_PROPERTIES],
)
def test_damaged_text_files(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """The fault names file and line."""
    (folder / name).write_text("7\nx")

    code, out = run(capsys, folder / name)

    assert code == 1
    assert f"FAULT {folder / name}" in out


def test_torn_tail_and_offsets_that_go_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both are named with their position."""
    segment = make_segment(tmp_path)
    for base in (5, 3):
        append(segment, make_batch(base_offset=base))
    segment.close()
    segment.log_path.write_bytes(segment.log_path.read_bytes() + b"x" * 30)

    code, out = run(capsys, segment.log_path)

    assert code == 1
    assert "FAULT offset 3 at position" in out
    assert "FAULT 30 bytes at position" in out


def test_index_without_a_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to hold it against."""
    (folder / "00000000000000000000.log").unlink()

    code, out = run(capsys, folder / "00000000000000000000.index")

    assert code == 1
    assert "no .log beside" in out


def test_strange_or_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence, not a traceback."""
    strange = tmp_path / "notes.txt"
    strange.touch()

    assert run(capsys, strange)[0] == 1
    assert run(capsys, tmp_path / "00000000000000000000.log")[0] == 1
    with pytest.raises(SystemExit, match="2"):
        run(capsys)


def test_files_on_their_way_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Suffixes do not matter: deleted segments can be looked at."""
    LogSegment.load(folder, 0, TopicConfig(), now_ms=0).files.change_suffix(files.DELETED)

    code, out = run(capsys, folder)

    assert code == 0
    assert "00000000000000000000.index.deleted" in out
