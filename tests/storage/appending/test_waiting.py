"""Batches of a round that wait to be written together: what is written, seen and counted.

The bytes and indexes of batches that waited are those of batches that were written one by one, and
what came of each stands in it.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaError, KafkaStorageError, OutOfOrderSequence
from siltstone.storage.appending.batch import ValidatedBatch
from tests.support.batches import TIMESTAMP, make_batch, make_producer_batch
from tests.support.faults import Disk, install
from tests.support.logs import LogFolder, append_waiting, bytes_of, offsets_in, validated


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    """A partition."""
    made = LogFolder(tmp_path)
    yield made
    if made.directory.failure is None:
        made.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk below it."""
    return install(monkeypatch)


def offsets(batches: list[ValidatedBatch]) -> list[int]:
    """Return where batches were written."""
    assert [each.error for each in batches] == [None] * len(batches)
    return [each.base_offset for each in batches]


def codes(batches: list[ValidatedBatch]) -> list[str | None]:
    """Return the names of the errors that came of batches."""
    return [None if each.error is None else type(each.error).__name__ for each in batches]


def in_files(folder: LogFolder) -> dict[str, bytes]:
    """Return what the folder holds, by names."""
    return {each.name: each.read_bytes() for each in folder.path.iterdir()}


def test_nothing_is_seen_before_it_is_written(folder: LogFolder, disk: Disk) -> None:
    """Nothing has come of batches that wait; then they appear by one write."""
    log = folder.log
    first = append_waiting(log, make_batch(2))
    folder.services.appends.write()
    disk.calls.clear()
    batches = [append_waiting(log, make_batch(3)) for _ in range(3)]

    assert all(each.is_awaited for each in batches)
    assert (log.log_end_offset, log.view[0]) == (2, 2)
    assert disk.names("pwrite") == []

    folder.services.appends.write()
    assert offsets([first, *batches]) == [0, 2, 5, 8]
    assert (log.log_end_offset, log.view[0]) == (11, 11)
    assert disk.names("pwrite") == ["pwrite 00000000000000000000.log"]
    assert (log.end.batches_in, log.end.records_in) == (4, 11)


def test_one_that_is_to_be_flushed_does_not_wait(folder: LogFolder) -> None:
    """Nor one for which nobody writes later."""
    assert append_waiting(folder.log, make_batch(), may_wait=False).base_offset == 0
    assert folder.log.log_end_offset == 1

    folder.log.reconfigure(TopicConfig(flush_messages=1))
    batch = append_waiting(folder.log, make_batch())
    assert (batch.base_offset, batch.flush_due) == (1, True)
    assert folder.log.log_end_offset == 2


def test_another_append_comes_behind_those_that_wait(folder: LogFolder) -> None:
    """It writes them, too."""
    waiting = append_waiting(folder.log, make_batch(2))

    assert folder.log.append(validated(make_batch())).base_offset == 2
    assert offsets([waiting]) == [0]
    assert folder.log.log_end_offset == 3
    assert folder.services.appends.logs == []


def test_a_producer_may_send_several(folder: LogFolder) -> None:
    """Its sequence goes on while they wait, and all of them are known afterwards."""
    log = folder.log
    log.append(validated(make_producer_batch(0, 2)))
    batches = [append_waiting(log, make_producer_batch(sequence, 2)) for sequence in (2, 4)]

    assert all(each.is_awaited for each in batches)
    skipping, repeating = [append_waiting(log, make_producer_batch(each, 2)) for each in (8, 4)]
    assert isinstance(skipping.error, OutOfOrderSequence)
    assert (repeating.duplicate, repeating.base_offset) == (True, 4)
    assert offsets(batches) == [2, 4]
    entry = log.producers.producers[4000]
    assert entry.next_sequence == 6
    assert [each.first_sequence for each in entry.batches] == [0, 2, 4]
    assert log.append(validated(make_producer_batch(2, 2))).duplicate


def test_a_failed_write_leaves_nothing(folder: LogFolder, disk: Disk) -> None:
    """No batch of it counts, each has the error, and its producer may send the same again."""
    log = folder.log
    log.append(validated(make_producer_batch(0)))
    before = bytes_of(log, 0)
    disk.fail("pwrite", times=1)
    batches = [append_waiting(log, make_producer_batch(sequence)) for sequence in (1, 2, 3)]
    folder.services.appends.write()

    assert codes(batches) == ["KafkaStorageError"] * 3
    assert all("log directory" in str(each.error) for each in batches)
    assert (log.log_end_offset, bytes_of(log, 0)) == (1, before)
    assert log.producers.producers[4000].next_sequence == 1
    assert codes([append_waiting(log, make_producer_batch(1))]) == ["KafkaStorageError"]


def test_what_was_written_before_a_failure_stays(tmp_path: Path, disk: Disk) -> None:
    """Those of an earlier write of the same log have their offsets, and are seen."""
    folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
    log, appends = folder.log, folder.services.appends
    log.append(validated(make_producer_batch(0)))
    disk.fail("pwrite", after=1, times=1)  # an entry for each batch: no two in a write
    told = []

    class Watcher:
        def log_changed(self) -> None:
            told.append(log.log_end_offset)

        def log_gone(self) -> None:
            raise AssertionError

    log.end.watchers[Watcher()] = None
    batches = [append_waiting(log, make_producer_batch(sequence)) for sequence in (1, 2, 3)]
    appends.write()

    assert codes(batches) == [None, "KafkaStorageError", "KafkaStorageError"]
    assert batches[0].base_offset == 1
    assert log.log_end_offset == 2
    assert told == [2]
    assert log.producers.producers[4000].next_sequence == 2
    assert appends.logs == []


def test_a_segment_that_cannot_be_read_takes_nothing(tmp_path: Path, disk: Disk) -> None:
    """Whether it must roll is not known then: its client learns so, and nothing waits any more."""
    folder = LogFolder(tmp_path)
    folder.append()
    folder.close()
    log = folder.reopen(is_clean=True)
    appends = folder.services.appends
    batch = append_waiting(log, make_batch())
    disk.fail("pread")
    appends.write()

    assert isinstance(batch.error, KafkaStorageError)
    assert "Input/output error" in str(batch.error)
    disk.mend()
    assert (log.log_end_offset, appends.logs) == (1, [])
    batch = append_waiting(log, make_batch())
    appends.write()
    assert offsets([batch]) == [1]
    assert log.log_end_offset == 2


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_of_one_log_is_no_other_s(tmp_path: Path, disk: Disk, failing: int) -> None:
    """The batches in other directories are written, in whatever order."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    folders = [LogFolder(tmp_path / "one")]
    appends = folders[0].services.appends
    folders.append(LogFolder(tmp_path / "other", appends=appends))
    batches = [append_waiting(each.log, make_batch()) for each in folders]
    disk.fail("pwrite", path=f"{folders[failing].path.parent.name}/", times=1)
    appends.write()

    assert [isinstance(each.error, KafkaStorageError) for each in batches] == [
        not failing,
        bool(failing),
    ]
    assert [each.log.log_end_offset for each in folders] == [failing, 1 - failing]


def test_a_batch_that_may_not_wait_is_written_behind_those_that_do(folder: LogFolder) -> None:
    """One of a large frame, say, whose memory is somebody else's as soon as it is answered."""
    log = folder.log
    append_waiting(log, make_batch(2))
    data = make_batch(3)
    batch = append_waiting(log, data, may_wait=False)
    data[:] = bytes(len(data))

    assert batch.base_offset == 2
    assert log.log_end_offset == 5
    assert offsets_in(bytes_of(log, 0)) == [0, 2]


def test_an_append_behind_them_is_told_by_the_disk(folder: LogFolder, disk: Disk) -> None:
    """A marker of a transaction, say, that a timer writes: a storage error, as without them."""
    waiting = append_waiting(folder.log, make_batch())
    disk.fail("pwrite", times=1)

    with pytest.raises(KafkaStorageError):
        folder.log.append(validated(make_batch()))
    assert codes([waiting]) == ["KafkaStorageError"]
    assert folder.log.log_end_offset == 0


def test_a_fault_of_ours_is_told_as_well(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No batch is left without an outcome, and the log goes on."""
    waiting = append_waiting(folder.log, make_batch())
    with monkeypatch.context() as patch:
        patch.setattr(type(folder.log.segments[0]), "activate", lambda _: 1 / 0)
        folder.services.appends.write()

    assert codes([waiting]) == ["ZeroDivisionError"]
    assert not isinstance(waiting.error, KafkaError)
    assert append_waiting(folder.log, make_batch(), may_wait=False).base_offset == 0


def test_a_fault_behind_the_write_is_told_as_well(
    folder: LogFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch is in the log, but its producer is not known: it is not answered as done."""
    with monkeypatch.context() as patch:
        patch.setattr(type(folder.log), "note_producer", lambda *_: 1 / 0)
        batch = append_waiting(folder.log, make_producer_batch(0))

    assert codes([batch]) == ["ZeroDivisionError"]
    assert folder.log.log_end_offset == 1


def test_a_watcher_s_fault_is_no_other_log_s(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All that waits is written: its bytes are not kept for longer."""

    class Watcher:
        def log_changed(self) -> None:
            raise ZeroDivisionError

        def log_gone(self) -> None:
            raise AssertionError

    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    folders = [LogFolder(tmp_path / "one")]
    appends = folders[0].services.appends
    folders.append(LogFolder(tmp_path / "other", appends=appends))
    folders[0].log.end.watchers[Watcher()] = None
    batches = [append_waiting(each.log, make_batch()) for each in folders]
    appends.write()

    assert offsets(batches) == [0, 0]
    assert appends.logs == []
    assert caplog.messages == ["watcher failed partition=orders-0"]


@pytest.mark.parametrize("seed", range(6))
def test_files_are_those_of_batches_that_did_not_wait(tmp_path: Path, seed: int) -> None:
    """Also where segments and index entries begin."""
    chance = random.Random(seed)
    config = TopicConfig(
        segment_bytes=chance.choice((600, 4000, 1 << 20)),
        index_interval_bytes=chance.choice((0, 150, 1000, 4096)),
        segment_index_bytes=chance.choice((24, 10 << 20)),
        segment_ms=chance.choice((500, 604_800_000)),
    )
    for name in ("waiting", "alone"):
        (tmp_path / name).mkdir()
    folders = [LogFolder(tmp_path / name, config) for name in ("waiting", "alone")]
    sequences = dict.fromkeys((4000, 4001), 0)
    for producer in sequences:  # known before
        for each in folders:
            each.log.append(validated(make_producer_batch(0, 1, producer_id=producer)))
        sequences[producer] = 1
    for _ in range(15):
        pairs: list[tuple[ValidatedBatch, ValidatedBatch]] = []
        for _ in range(chance.randrange(1, 9)):
            rows, producer = chance.randrange(1, 6), chance.choice((-1, 4000, 4001))
            timestamp = TIMESTAMP + chance.randrange(2000)
            fields = {}
            if producer >= 0:
                fields = {
                    "producer_id": producer,
                    "producer_epoch": 0,
                    "base_sequence": sequences[producer],
                }
                sequences[producer] += rows
            batch = make_batch(rows, timestamp=timestamp, **fields)
            may_wait = chance.random() < 0.9
            pairs += [
                (
                    append_waiting(folders[0].log, bytearray(batch), may_wait=may_wait),
                    append_waiting(folders[1].log, bytearray(batch), may_wait=False),
                )
            ]
        folders[0].services.appends.write()
        assert all(offsets([waited]) == offsets([alone]) for waited, alone in pairs)
        ends, segments = zip(*(each.log.view[:2] for each in folders), strict=True)
        assert ends[0] == ends[1]
        assert len(segments[0]) == len(segments[1])
    kept = [
        {
            key: (each.next_sequence, each.batches)
            for key, each in folder.log.producers.producers.items()
        }
        for folder in folders
    ]
    for each in folders:
        each.close()

    assert kept[0] == kept[1]
    assert in_files(folders[0]) == in_files(folders[1])
