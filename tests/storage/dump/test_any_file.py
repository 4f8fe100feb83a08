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
from siltstone.storage.dump import any_file as dump
from siltstone.storage.dump.log_file import Wanted
from siltstone.storage.log.epochs import LeaderEpochs
from siltstone.storage.producers.state import ProducerStateManager
from siltstone.storage.segment.open_file import OpenFiles
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
    assert "FAULT position 80: offset 3 is not above 5" in out
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
    LogSegment(
        folder, 0, TopicConfig(), now_ms=0, open_files=OpenFiles()
    ).load().files.change_suffix(files.DELETED)

    code, out = run(capsys, folder)

    assert code == 0
    assert "00000000000000000000.index.deleted" in out


@pytest.fixture
def numbered(tmp_path: Path) -> Path:
    """Return a folder of three segments with ten records each, one a batch, a second apart."""
    path = tmp_path / "t-0"
    path.mkdir()
    for base in (0, 10, 20):
        segment = LogSegment(path, base, TopicConfig(), now_ms=0, open_files=OpenFiles()).create()
        for offset in range(base, base + 10):
            append(segment, make_batch(base_offset=offset, timestamp=TIMESTAMP + 1000 * offset))
        segment.close()
    return path


def offsets_in(out: str) -> list[int]:
    """Return the offsets of the batches of a dump."""
    return [
        int(word.partition("=")[2])
        for line in out.splitlines()
        for word in line.split()
        if word.startswith("base_offset=")
    ]


@pytest.mark.parametrize(
    ("words", "offsets", "logs"),
    [
        (("--offsets", "8-11"), range(8, 12), 2),
        (("--offsets", "25-"), range(25, 30), 1),
        (("--offsets", "-3"), range(4), 1),
        (("--offsets", "100-"), range(0), 1),
        (("--since", str(TIMESTAMP + 27_500)), range(28, 30), 3),
        (("--until", str(TIMESTAMP + 1_500)), range(2), 3),
        (("--offsets", "5-25", "--since", str(TIMESTAMP + 24_000)), range(24, 26), 3),
    ],
)
def test_ranges_of_offsets_and_times(
    numbered: Path,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    offsets: range,
    logs: int,
) -> None:
    """Only what is asked for is printed, and only logs that may have it are opened."""
    code, out = run(capsys, *words, "--deep-iteration", numbered)

    assert code == 0
    assert offsets_in(out) == list(offsets)
    assert out.count("| offset=") == len(offsets)
    assert out.count(".log\n") == logs
    assert ".index" not in out


def test_a_range_within_a_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The batch is printed whole, of its records those that are meant."""
    segment = make_segment(tmp_path)
    append(segment, make_batch(10))
    segment.close()

    _, out = run(capsys, "--offsets", "4-5", "--deep-iteration", segment.log_path)

    assert [line.split()[1] for line in out.splitlines() if "| " in line] == [
        "offset=4",
        "offset=5",
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--offsets", "7"), "7 is not FIRST-LAST, as 100-199, 100- or -199"),
        (("--offsets", "a-b"), "a-b is not FIRST-LAST"),
        (("--offsets", "5-1"), "5-1 has none; write the lower offset first"),
        (("--since", "yesterday"), "yesterday is no time; write ms since 1970, or ISO 8601"),
    ],
)
def test_ranges_that_mean_nothing(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    """Wrong usage, in a sentence."""
    with pytest.raises(SystemExit) as stop:
        main(["dump-log", *words, "x"])

    assert stop.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """It is not said to be of another kind."""
    code = main(["dump-log", str(tmp_path / "orders-0")])

    assert code == 1
    assert "FAULT cannot be read: No such file or directory" in capsys.readouterr().out


def test_a_time_span_without_length(capsys: pytest.CaptureFixture[str]) -> None:
    """The later time first: wrong usage."""
    assert main(["dump-log", "--since", "2000", "--until", "1000", "x"]) == 2
    assert "--since is later than --until" in capsys.readouterr().err


class Enough(Exception):  # noqa: N818
    """The test has seen what it wanted."""


def test_follow_goes_over_to_the_next_segment(numbered: Path) -> None:
    """First all batches of before, then each as it comes, half ones when they are whole."""
    seen: list[str] = []
    last = LogSegment(numbered, 20, TopicConfig(), now_ms=0, open_files=OpenFiles()).load()
    next_batch = bytes(make_batch(base_offset=30, timestamp=TIMESTAMP))

    def roll() -> None:
        segment = LogSegment(numbered, 31, TopicConfig(), now_ms=0, open_files=OpenFiles()).create()
        append(segment, make_batch(base_offset=31, timestamp=TIMESTAMP))
        segment.close()

    def grow(data: bytes) -> None:
        with last.log_path.open("ab") as log:
            log.write(data)

    def end() -> None:
        raise Enough

    def step() -> None:
        steps.pop(0)()

    steps = [lambda: grow(next_batch[:40]), lambda: grow(next_batch[40:]), roll, end]
    with pytest.raises(Enough):
        dump.follow(
            numbered,
            Wanted(first_offset=28),
            step,
            lambda path, line: seen.append(f"{path.name} {line}"),
        )

    assert offsets_in("\n".join(seen)) == [28, 29, 30, 31]
    assert seen[-1].startswith("00000000000000000031.log")


def test_follow_of_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A sentence and the exit code; two at once are wrong usage."""
    code, out = run(capsys, "--follow", tmp_path / "00000000000000000000.log")

    assert code == 1
    assert "FAULT [Errno 2] No such file or directory" in out
    assert main(["dump-log", "--follow", "a", "b"]) == 2
