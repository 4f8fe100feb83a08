"""`siltstone verify`: every file of every topic, and what is wrong with it."""

import asyncio
import errno
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.cleaner.history import history
from siltstone.protocol.names import OFFSETS_TOPIC
from siltstone.storage import clock, files
from siltstone.storage.directory import clean_shutdown
from siltstone.storage.directory.catalog import FILE_NAME
from siltstone.storage.directory.checkpoint import OffsetCheckpoint
from siltstone.storage.directory.partition_metadata import PartitionMetadata
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append, append_unchecked
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.faults import Disk, Fault, install
from tests.support.services import ServicesOnDisk
from tests.support.side_by_side import batches_of
from tests.support.transactional import (
    commit_offset,
    end,
    following,
    init,
    log_of,
    produce,
)

KAFKAS = Path(__file__).parents[2] / "data"
FIRST = "orders-0/00000000000000000000"
SECRET = b"secret-key"


async def _fill(root: Path) -> None:
    """Fill topics of both policies, with every codec, transactions and offsets of a group."""
    home = ServicesOnDisk(
        root, transaction_state_log_num_partitions="2", offsets_topic_num_partitions="2"
    )
    await home.open()
    topics = home.services.topics
    for name, policy in (("orders", "delete"), ("keyed", "compact"), ("both", "compact,delete")):
        settings = {"cleanup.policy": policy, "index.interval.bytes": "1"}
        await topics.create(name, 2 if name == "orders" else 1, settings)
    await home.services.groups().journal.ensure_created()
    await home.services.transactions().journal.ensure_created()
    orders = log_of(home, 0)
    producer = await init(home)
    for number in range(6):
        append(orders, [(SECRET, b"value")] * 3, codec=number % 5, timestamp=TIMESTAMP + number)
        produce(home, producer, sequence=0)
        commit_offset(home, producer, number)
        producer = following(end(home, producer, commit=number % 2 == 0))
        append(log_of(home, 1), codec=number % 5)
        for name in ("keyed", "both"):
            append_unchecked(
                log_of(home, 0, name), [(b"k%d" % (number % 3), b"v")], codec=number % 5
            )
        if number % 2:
            for log in (orders, log_of(home, 1), log_of(home, 0, "keyed"), log_of(home, 0, "both")):
                log.roll()
    append(orders)
    orders.delete_records(2)
    await home.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory after a clean stop, which tests copy."""
    root = tmp_path_factory.mktemp("verified")
    asyncio.run(_fill(root))
    return root / "data-0"


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    """The log directory of one test."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


def run(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Verify a log directory; return the exit code and the lines."""
    code = main(["verify", *arguments, "--set", f"log.dirs={folder}"])
    return code, capsys.readouterr().out.splitlines()


def test_nothing_is_wrong_after_a_clean_stop(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Topics of every policy, internal ones too, each with its records."""
    code, lines = run(folder, capsys)

    assert code == 0, lines
    assert "orders-0: fine; 25 records, never cleaned" in lines
    assert "keyed-0: fine; 6 records, never cleaned" in lines
    assert {line.partition("-")[0] for line in lines} >= {OFFSETS_TOPIC, "__transaction_state"}
    assert all(": fine; " in line for line in lines)


def flip(data: bytearray) -> bytearray:
    """Change the byte in the middle."""
    data[len(data) // 2] ^= 0x10
    return data


def cut(data: bytearray) -> bytearray:
    """Lose the last bytes."""
    return data[:-3]


def zero(data: bytearray) -> bytearray:
    """Lose the second half to zeros."""
    half = len(data) // 2
    return data[:half] + bytes(len(data) - half)


DAMAGED = [
    f"{FIRST}.log",
    f"{FIRST}.index",
    f"{FIRST}.timeindex",
    f"{FIRST}.txnindex",
    "orders-0/*.snapshot",
    f"orders-0/{files.LEADER_EPOCHS}",
    f"orders-0/{files.PARTITION_METADATA}",
    "keyed-0/*.log",
    "keyed-0/*.index",
    "keyed-0/*.timeindex",
    f"{OFFSETS_TOPIC}-*/*.log",
    "__transaction_state-*/*.log",
    FILE_NAME,
]
"""A file of each kind, of those that are not empty the first."""


@pytest.mark.parametrize(
    ("pattern", "damage"),
    [
        *((pattern, damage) for pattern in DAMAGED for damage in (flip, cut, zero)),
        # A number with another digit is still a number.
        (files.RECOVERY_POINTS, cut),
        (files.RECOVERY_POINTS, zero),
        (files.META_PROPERTIES, zero),
    ],
)
def test_damage_is_named(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    pattern: str,
    damage: Callable[[bytearray], bytearray],
) -> None:
    """The file, what is wrong and what to do; never a key."""
    path = next(each for each in sorted(folder.glob(pattern)) if each.stat().st_size)
    path.write_bytes(damage(bytearray(path.read_bytes())))

    code, lines = run(folder, capsys)

    faults = [line for line in lines if "FAULT " in line]
    assert code == 1
    assert any(path.name in line for line in faults), lines
    assert path.name == FILE_NAME or any(line.startswith("TO DO ") for line in lines)
    assert SECRET.decode() not in "".join(lines)


def test_a_place_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a batch: file and position; and the remedy for its kind of file once."""
    log = folder / f"{FIRST}.log"
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)

    code, lines = run(folder, capsys, "orders-0")

    assert code == 1
    assert lines[0].startswith("orders-0: 1 fault; ")
    assert lines[1:2] == [f"  FAULT {log.name} position 0: the checksum is wrong"]
    assert [line[:11] for line in lines[2:]] == ["TO DO .log:"]


def _txn_byte(position: int) -> Callable[[bytearray], bytearray]:
    def change(data: bytearray) -> bytearray:
        data[position] ^= 1
        return data

    return change


def _with_epoch(data: bytearray, epoch: int) -> bytearray:
    data[12:16] = epoch.to_bytes(4, "big", signed=True)
    return data


def test_offsets_that_moved_since_a_clean_stop(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No checksum covers the offset of a last batch, or the file of log starts."""
    log = max((folder / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    end = int(re.findall(r"orders 0 (\d+)", (folder / files.RECOVERY_POINTS).read_text())[0])
    data[:8] = (end + 7).to_bytes(8, "big")
    log.write_bytes(data)
    (folder / files.LOG_START_OFFSETS).write_text("0\n1\norderz 0 1\n")

    _, lines = run(folder, capsys)

    assert any(f"but ended at {end + 1} when the broker was stopped" in line for line in lines), (
        lines
    )
    assert f"FAULT {folder / files.LOG_START_OFFSETS}: orderz-0 has no folder" in lines


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        (f"{FIRST}.txnindex", _txn_byte(17), "does not begin at"),
        (f"{FIRST}.txnindex", _txn_byte(9), "no marker of producer"),
        (f"{FIRST}.txnindex", _txn_byte(33), "as the last stable offset"),
        (f"{FIRST}.txnindex", lambda _: bytearray(), "is missing"),
        (f"{FIRST}.timeindex", lambda data: data[:-12], "the largest timestamp"),
        (f"{FIRST}.log", _txn_byte(15), "the batch is of leader epoch 1, but"),
        (f"{FIRST}.log", lambda data: _with_epoch(data, -9), "the leader epoch is -9"),
        (f"{FIRST}.log", _txn_byte(7), "offsets 0 to 0 are missing"),
        (f"{FIRST}.log", lambda _: bytearray(), "offsets 0 to "),
    ],
)
def test_what_no_checksum_covers(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    change: Callable[[bytearray], bytearray],
    sentence: str,
) -> None:
    """The files of a partition are compared with each other."""
    path = folder / name
    path.write_bytes(change(bytearray(path.read_bytes())))

    code, lines = run(folder, capsys, "orders")

    assert code == 1
    assert any(sentence in line for line in lines if "FAULT" in line), lines


def test_lost_folder_and_foreign_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The catalogue knows which partitions exist, and which topic a folder belongs to."""
    shutil.rmtree(folder / "keyed-0")
    shutil.copy2(folder / "both-0/partition.metadata", folder / "orders-1/partition.metadata")

    code, lines = run(folder, capsys)

    assert code == 1
    assert any(line.startswith("FAULT keyed-0 has no folder: ") for line in lines)
    assert any("partition.metadata: the folder belongs to topic id" in line for line in lines)


def test_folder_without_logs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of an empty folder it tells what is lost, and goes on with the others."""
    for each in (folder / "orders-1").iterdir():
        each.unlink()

    code, lines = run(folder, capsys)

    assert code == 1
    assert any("it ends at offset 0, but was on the disk up to" in line for line in lines)
    assert "keyed-0: fine; 6 records, never cleaned" in lines


def test_last_record_is_lost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that a clean stop has left has all that was acknowledged."""
    log = max((folder / f"{OFFSETS_TOPIC}-0").glob("*.log"))
    *before, _ = batches_of(log.read_bytes())
    log.write_bytes(b"".join(before))

    code, lines = run(folder, capsys, OFFSETS_TOPIC)

    assert code == 1
    assert "  FAULT it ends at offset 11, but was on the disk up to 12" in lines


@pytest.mark.parametrize("mark", ["", "data", "other"])
def test_partition_in_two_log_directories(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mark: str
) -> None:
    """The one that has taken over is checked; without a mark the next start refuses both."""
    other = tmp_path / "other"
    shutil.copytree(folder / "orders-1", other / "orders-1")
    damaged = folder if mark != "data" else other
    (damaged / f"orders-1/{Path(FIRST).name}.log").write_bytes(bytes(100))
    if mark:
        (tmp_path / mark / f"orders-1/{files.MOVED}").touch()

    code, lines = run(Path(f"{folder},{other}"), capsys)

    twice = f"FAULT partition orders-1 is in two log directories, {folder}/orders-1 and {other}"
    assert any(line.startswith(twice) for line in lines) is (not mark)
    assert any(line.startswith("orders-1: fine; ") for line in lines) is bool(mark)
    assert code == (0 if mark else 1), lines


def test_passes_of_the_directory_that_a_partition_has_left(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It moved away, was cleaned and came back: a receipt from before is not the last."""
    other = tmp_path / "other"
    other.mkdir()
    metadata = PartitionMetadata.read(folder / "keyed-0")
    assert metadata is not None
    output = {"name": f"{Path(FIRST).name}.log", "size": 1, "crc32c": "00000000"}
    before = {
        "event": "pass",
        "topic": "keyed",
        "partition": 0,
        "topic_id": str(metadata.topic_id),
        "started_ms": 1,
        "outcome": "cleaned",
        "end_offset": 1,
        "receipt": {"groups": [{"inputs": [], "outputs": [output]}], "key_digest": "00"},
    }
    since = {**before, "event": "begin", "started_ms": 2, "outcome": "begun"}
    (folder / history.FILE_NAME).write_text(json.dumps(before) + "\n")

    assert run(folder, capsys)[0] == 1
    (other / history.FILE_NAME).write_text(json.dumps(since) + "\n")
    code, lines = run(Path(f"{other},{folder}"), capsys)
    assert code == 0, lines


@pytest.mark.parametrize("name", [f"{FIRST}.log", f"{FIRST}.txnindex", f"{FIRST}.index"])
def test_file_that_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is told with its name, and the rest of the partition is checked."""
    last = max(folder.glob("orders-0/*.log"))
    last.write_bytes(flip(bytearray(last.read_bytes())))
    install(monkeypatch, Disk(faults=[Fault("open", errno.EACCES, path=name)]))

    code, lines = run(folder, capsys)

    assert code == 1
    assert f"  FAULT {Path(name).name}: cannot be read: Permission denied" in lines
    assert any(f"FAULT {last.name} position " in line for line in lines), lines
    assert not any("it ends at offset" in line for line in lines), lines
    assert any(line.startswith("TO DO what cannot be read: ") for line in lines)
    assert "orders-1: fine; 6 records, never cleaned" in lines


def test_journal_that_cannot_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record of a group that is no record of a group; its key is not shown."""
    log = next(each for each in sorted(folder.glob(f"{OFFSETS_TOPIC}-*/*.log")))
    end_offset = OffsetCheckpoint(folder, files.RECOVERY_POINTS).read()[
        TopicPartition(OFFSETS_TOPIC, int(log.parent.name[-1]))
    ]
    junk = make_batch([(b"\0\1" + SECRET, b"junk")], base_offset=end_offset)
    log.write_bytes(log.read_bytes() + junk)

    code, lines = run(folder, capsys, log.parent.name)

    assert code == 1
    assert any(f"cannot read the record at offset {end_offset}" in line for line in lines), lines
    assert SECRET.decode() not in "".join(lines)


def test_end_that_the_next_start_cuts(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After a kill half a batch at the end, and an index that is built again, are no faults."""
    (folder / files.CLEAN_SHUTDOWN).unlink()
    log = max(folder.glob("orders-0/*.log"))
    log.write_bytes(log.read_bytes() + b"half a batch")
    log.with_suffix(files.INDEX).write_bytes(bytes(4096))

    code, lines = run(folder, capsys)

    assert code == 0, lines
    assert any("no batch begins there" in line and "FAULT" not in line for line in lines)
    assert lines[-1].startswith(f"{folder} was not stopped cleanly: ")


def test_answer_for_programs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object: partitions, faults of the log directory, and remedies by kind of file."""
    (folder / files.RECOVERY_POINTS).write_text("7\n")
    (folder / f"{FIRST}.index").write_bytes(b"x")

    code, lines = run(folder, capsys, "--json")

    told = json.loads("\n".join(lines))
    (orders,) = (
        each for each in told["partitions"] if (each["topic"], each["partition"]) == ("orders", 0)
    )
    assert code == 1
    assert orders["faults"] == [f"{FIRST[9:]}.index: 1 bytes behind the last whole entry"]
    assert orders["fault_count"] == 1
    assert [files.RECOVERY_POINTS in each for each in told["faults"]] == [True]
    assert told["remedies"].keys() == {files.INDEX, files.RECOVERY_POINTS}
    assert told["notes"] == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_folders_of_apache_kafka_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, is_clean: bool
) -> None:
    """With their indexes, transactions and snapshots, after a clean stop and after another."""
    for name in ("mixed-0", "transactions-0"):
        shutil.copytree(KAFKAS / name, tmp_path / name)
    if is_clean:
        clean_shutdown.mark(tmp_path)
    ends = {TopicPartition("mixed", 0): 500, TopicPartition("transactions", 0): 33}
    OffsetCheckpoint(tmp_path).write(ends)

    code, lines = run(tmp_path, capsys)

    assert code == 0, lines
    assert lines[:2] == [
        "mixed-0: fine; 500 records, never cleaned",
        "transactions-0: fine; 30 records, never cleaned",
    ]


class Ticking:
    """A clock that goes a second further whenever it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        self._now += 1
        return self._now


def test_progress_is_shown_on_a_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, which goes at the end; without a terminal there is no such line."""
    monkeypatch.setattr(clock, "Clock", Ticking)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    assert main(["verify", "orders", "--set", f"log.dirs={folder}"]) == 0

    shown = capsys.readouterr().err
    assert "\r1 of 2 partitions: orders-0\033[K" in shown
    assert shown.endswith("\r\033[K")
