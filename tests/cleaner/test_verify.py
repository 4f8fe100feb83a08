"""Folders of compacted logs at rest: what is wrong is found, what is right is not blamed."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from siltstone.cleaner.history.history import read_history
from siltstone.cleaner.history.receipts import crc_of
from siltstone.cleaner.verify import verify_partition
from siltstone.storage import files
from siltstone.storage.dump.whole_partition import Known, Report
from siltstone.storage.log.log import Log
from tests.support.appending import append_unchecked
from tests.support.batches import Row, make_batch
from tests.support.cleaner import CleanerHome

CHECKPOINT = 32


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    """A cleaner, and one log that it has cleaned: 30 records of ten keys, then two of those."""
    home = CleanerHome(tmp_path)
    log = home.create()
    home.fill(log, 3)
    append_unchecked(log, [(b"k1", None), (b"k2", b"other")])
    log.roll()
    home.settle()
    assert home.thread.step()
    append_unchecked(log, [(b"k3", b"beyond")])
    home.settle()
    yield home
    home.close()


def path_of(home: CleanerHome) -> Path:
    """Return the folder of the only log."""
    return log_of(home).path


def log_of(home: CleanerHome) -> Log:
    """Return the only log."""
    return next(iter(home.logs.logs.values()))


def verified(
    home: CleanerHome, checkpoint: int | None = CHECKPOINT, *, recovery_point: int = 0
) -> Report:
    """Verify the log's folder with its history."""
    events = read_history(home.paths[0])
    return verify_partition(path_of(home), checkpoint, events, Known(recovery_point=recovery_point))


def cleaned_file(home: CleanerHome) -> Path:
    """Return the file that the pass has made."""
    return path_of(home) / "00000000000000000000.log"


def rewrite(path: Path, *batches: bytearray) -> None:
    """Give a file other batches, each with a right checksum."""
    path.write_bytes(b"".join(batches))


def test_cleaned_log_is_fine(home: CleanerHome) -> None:
    """Rules, receipt, and every survivor against the files it came from."""
    report = verified(home)

    assert report.faults == []
    assert (report.records, report.keys) == (11, 10)
    assert re.search(
        r"files that are as the receipt of .+ says: 1$", "\n".join(report.notes), re.MULTILINE
    )
    assert "10 survivors are as they were in 4 of 4 replaced files" in report.notes


def test_replaced_files_may_be_gone(home: CleanerHome) -> None:
    """After file.delete.delay.ms the rest is verified without them."""
    for path in path_of(home).glob(f"*{files.DELETED}"):
        path.unlink()

    report = verified(home)

    assert report.faults == []
    assert not any("replaced files" in note for note in report.notes)


def test_second_pass_is_verified_against_its_own_inputs(home: CleanerHome) -> None:
    """A `.deleted` file of an earlier pass with the same name is not taken for it."""
    home.fill(log_of(home), 2)
    home.thread.step()
    home.settle()

    report = verified(home, 53)

    assert report.faults == []
    assert report.keys == 10


def test_key_below_the_checkpoint_twice(home: CleanerHome) -> None:
    """The rule of compaction; the key itself is not shown."""
    batches = [make_batch([(b"secret", b"v")], base_offset=each) for each in (0, 5)]
    rewrite(cleaned_file(home), *batches)

    report = verify_partition(path_of(home), CHECKPOINT, [])

    assert report.faults == ["one key is below the checkpoint 32 twice, at offsets 0 and 5"]


def test_record_without_a_key_below_the_checkpoint(home: CleanerHome) -> None:
    """The cleaner drops it wherever it went."""
    rewrite(cleaned_file(home), make_batch([(None, b"v")]))

    report = verify_partition(path_of(home), CHECKPOINT, [])

    assert report.faults == ["offset 0, below the checkpoint, has no key"]


def test_offsets_that_go_back(home: CleanerHome) -> None:
    """A batch in the wrong place is named with file and position."""
    first = make_batch([(b"a", b"v")], base_offset=5)
    rewrite(cleaned_file(home), first, make_batch([(b"b", b"v")], base_offset=3))

    (fault,) = verify_partition(path_of(home), CHECKPOINT, []).faults

    assert fault == f"{cleaned_file(home).name} position {len(first)}: offset 3 is not above 5"


def test_damaged_batch(home: CleanerHome) -> None:
    """The checksum of the batch, and that of the file, tell it."""
    data = bytearray(cleaned_file(home).read_bytes())
    data[-1] ^= 1
    cleaned_file(home).write_bytes(data)

    faults = verified(home).faults

    assert any("the checksum is wrong" in fault for fault in faults)
    assert any("is not what the receipt" in fault for fault in faults)


def test_torn_file(home: CleanerHome) -> None:
    """Bytes that are no batch are named by their position."""
    cleaned_file(home).write_bytes(cleaned_file(home).read_bytes() + b"x" * 100)

    assert any("no batch begins there" in fault for fault in verified(home).faults)


def test_file_that_was_exchanged(home: CleanerHome) -> None:
    """Sound batches, but not those of the pass."""
    rewrite(cleaned_file(home), make_batch([(b"k", b"v")]))

    (fault,) = verified(home).faults

    assert fault.startswith("00000000000000000000.log is not what the receipt of ")


def test_pass_that_was_cut_short_explains_another_file(home: CleanerHome) -> None:
    """A crash after a swap leaves files without a receipt: that is no fault."""
    events = [*read_history(home.paths[0]), {"event": "begin", "outcome": "begun"}]
    rewrite(cleaned_file(home), make_batch([(b"k", b"v")]))

    report = verify_partition(path_of(home), CHECKPOINT, events)

    assert report.faults == []
    assert any("a later pass was cut short" in note for note in report.notes)


def test_file_that_retention_took(home: CleanerHome) -> None:
    """It is said, and nothing can be compared any more."""
    log = log_of(home)
    log.reconfigure(replace(log.config, cleanup_policy=("compact", "delete"), retention_bytes=1))
    log.apply_retention(home.clock.now_ms())
    home.settle()
    assert not cleaned_file(home).exists()

    report = verified(home)

    assert report.faults == []
    assert any("has gone: retention" in note for note in report.notes)


def test_file_that_somebody_took(home: CleanerHome) -> None:
    """The log begins below it, so that no retention has taken it."""
    cleaned_file(home).unlink()

    (fault,) = verified(home).faults

    assert fault.startswith("00000000000000000000.log of the receipt of ")
    assert fault.endswith(" is missing")


def test_end_that_is_lost(home: CleanerHome) -> None:
    """No receipt names the active segment; the recovery point tells how far it went."""
    log = log_of(home)
    log.flush()
    active = path_of(home) / "00000000000000000032.log"
    assert verified(home, recovery_point=log.recovery_point).faults == []
    active.write_bytes(b"")

    report = verified(home, recovery_point=log.recovery_point)

    assert report.faults == ["it ends at offset 32, but was on the disk up to 33"]


def receipt_of(home: CleanerHome) -> dict[str, Any]:
    """Return the last event, whose receipt says what the cleaned file is now."""
    event = list(read_history(home.paths[0]))[-1]
    output = event["receipt"]["groups"][0]["outputs"][0]
    output["size"] = cleaned_file(home).stat().st_size
    output["crc32c"] = crc_of(cleaned_file(home))
    return event


def test_survivor_that_was_altered(home: CleanerHome) -> None:
    """A pass with a mistake would write a right receipt: the replaced files tell."""
    rewrite(cleaned_file(home), make_batch([(b"k2", b"falsified")], base_offset=31))

    faults = verify_partition(path_of(home), CHECKPOINT, [receipt_of(home)]).faults

    assert "the record at offset 31 was altered" in faults
    assert any("the keys below offset 32 are not those" in fault for fault in faults)
    assert any("the last value of a key, at offset 2" in fault for fault in faults)


def test_survivor_that_is_not_the_newest(home: CleanerHome) -> None:
    """An old value in the place of a new one."""
    rows: list[Row] = [(b"k%d" % each, b"value") for each in range(10)]
    rewrite(cleaned_file(home), make_batch(rows, base_offset=10))

    faults = verify_partition(path_of(home), CHECKPOINT, [receipt_of(home)]).faults

    assert "offset 12 is not the newest of its key, which was at 31" in faults


def test_survivor_out_of_nowhere(home: CleanerHome) -> None:
    """An offset that no input had."""
    for path in path_of(home).glob("*.log.deleted"):
        path.unlink()
    made_of = path_of(home) / "00000000000000000000.log.deleted"
    rewrite(made_of, make_batch([(b"k0", b"v")]))
    event = receipt_of(home)
    event["receipt"]["groups"][0]["inputs"] = [
        {
            "name": "00000000000000000000.log",
            "size": made_of.stat().st_size,
            "crc32c": crc_of(made_of),
        }
    ]

    faults = verify_partition(path_of(home), CHECKPOINT, [event]).faults

    assert "offset 20 is in no file that it was made of" in faults


def test_log_without_a_receipt(home: CleanerHome) -> None:
    """Cleaned by Apache Kafka, or before the history began: the rules count all the same."""
    report = verify_partition(path_of(home), CHECKPOINT, [])

    assert report.faults == []
    assert report.notes == ["the history has no receipt of it"]


def test_log_that_was_never_cleaned(home: CleanerHome) -> None:
    """Without a checkpoint a key may occur as often as it was written."""
    log = home.create("fresh")
    home.fill(log, 2)

    report = verify_partition(log.path, None, [])

    assert (report.faults, report.records) == ([], 20)


def test_checkpoint_above_the_end(home: CleanerHome) -> None:
    """A log that was cut: the next selection starts from the beginning."""
    assert "the checkpoint 99 is above the end, 33" in verified(home, 99).notes
