"""Batches of a turn that wait to be written together: what is written, seen and counted.

The bytes and indexes of batches that waited are those of batches that were written one by one.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage.appending.values import NotWrittenError
from tests.support.batches import TIMESTAMP, make_batch, make_producer_batch
from tests.support.faults import Disk, install
from tests.support.logs import LogFolder, bytes_of, offsets_in, validated

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from siltstone.storage.log.log import Log

NOW = TIMESTAMP + 60_000


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[LogFolder]:
    """A partition whose next batches wait."""
    made = LogFolder(tmp_path)
    made.services.appends.is_open = True
    yield made
    if made.directory.failure is None:
        made.close()


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """The disk below it."""
    return install(monkeypatch)


def take(log: Log, batch: bytearray) -> int:
    """Append a batch as a client's request does."""
    return log.end.take(log, memoryview(batch), NOW)


def in_files(folder: LogFolder) -> dict[str, bytes]:
    """Return what the folder holds, by names."""
    return {each.name: each.read_bytes() for each in folder.path.iterdir()}


def test_nothing_is_seen_before_it_is_written(folder: LogFolder, disk: Disk) -> None:
    """Batches have their offsets, and then appear by one write."""
    log = folder.log
    first = take(log, make_batch(2))
    folder.services.appends.write()
    disk.calls.clear()

    assert [first, *(take(log, make_batch(3)) for _ in range(3))] == [0, 2, 5, 8]
    assert (log.log_end_offset, log.view[0]) == (2, 2)
    assert disk.names("pwrite") == []

    folder.services.appends.write()
    assert (log.log_end_offset, log.view[0]) == (11, 11)
    assert disk.names("pwrite") == ["pwrite 00000000000000000000.log"]
    assert (log.end.batches_in, log.end.records_in) == (4, 11)


def test_without_others_behind_it_a_batch_does_not_wait(folder: LogFolder) -> None:
    """Nor one of a log that is to be flushed before an answer."""
    folder.services.appends.is_open = False
    assert take(folder.log, make_batch()) == 0
    assert folder.log.log_end_offset == 1

    folder.services.appends.is_open = True
    folder.log.reconfigure(TopicConfig(flush_messages=1))
    assert take(folder.log, make_batch()) == 1
    assert folder.log.log_end_offset == 2


def test_another_append_comes_behind_those_that_wait(folder: LogFolder) -> None:
    """It writes them first."""
    take(folder.log, make_batch(2))

    assert folder.log.append(validated(make_batch())).base_offset == 2
    assert folder.log.log_end_offset == 3
    assert folder.services.appends.logs == []


def test_a_producer_may_send_several(folder: LogFolder) -> None:
    """Its sequence goes on while they wait, and all of them are known afterwards."""
    log = folder.log
    log.append(validated(make_producer_batch(0, 2)))

    assert [take(log, make_producer_batch(sequence, 2)) for sequence in (2, 4, 8)] == [2, 4, -1]
    folder.services.appends.write()
    entry = log.producers.producers[4000]
    assert entry.next_sequence == 6
    assert [each.first_sequence for each in entry.batches] == [0, 2, 4]
    assert log.append(validated(make_producer_batch(2, 2))).duplicate


def test_a_failed_write_leaves_nothing(folder: LogFolder, disk: Disk) -> None:
    """No batch of it counts, and its producers may send the same again."""
    log = folder.log
    log.append(validated(make_producer_batch(0)))
    before = bytes_of(log, 0)
    disk.fail("pwrite", times=1)
    for sequence in (1, 2, 3):
        take(log, make_producer_batch(sequence))

    with pytest.raises(NotWrittenError, match="log directory"):
        folder.services.appends.write()
    assert (log.log_end_offset, bytes_of(log, 0)) == (1, before)
    assert log.producers.producers[4000].next_sequence == 1
    with pytest.raises(KafkaStorageError):
        take(log, make_producer_batch(1))


def test_what_was_written_before_a_failure_stays(tmp_path: Path, disk: Disk) -> None:
    """Batches of other logs, and of this one in an earlier write, are there."""
    folder = LogFolder(tmp_path, TopicConfig(index_interval_bytes=0))
    log, appends = folder.log, folder.services.appends
    log.append(validated(make_producer_batch(0)))
    appends.is_open = True
    disk.fail("pwrite", after=1, times=1)  # an entry for each batch: no two in a write
    told = []

    class Watcher:
        def log_changed(self) -> None:
            told.append(log.log_end_offset)

        def log_gone(self) -> None:
            raise AssertionError

    log.end.watchers[Watcher()] = None
    for sequence in (1, 2, 3):
        take(log, make_producer_batch(sequence))
    with pytest.raises(NotWrittenError):
        appends.write()

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
    appends.is_open = True
    take(log, make_batch())
    disk.fail("pread")

    with pytest.raises(NotWrittenError, match="Input/output error"):
        appends.write()
    disk.mend()
    assert (log.log_end_offset, appends.logs) == (1, [])
    assert take(log, make_batch()) == 1
    appends.write()
    assert log.log_end_offset == 2


class Owner:
    """A connection that notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def not_written(self, error: NotWrittenError) -> None:
        """Note why."""
        self.told.append(str(error))


@pytest.mark.parametrize("is_failing", [False, True])
def test_owners_learn_of_a_failure_alone(folder: LogFolder, disk: Disk, is_failing: bool) -> None:
    """Those whose batches waited, each once; a later one has nothing to do with it."""
    appends = folder.services.appends
    first, second, later = Owner(), Owner(), Owner()
    for owner in (first, first, second):
        appends.owner = owner
        take(folder.log, make_batch())
    appends.owner = None
    if is_failing:
        disk.fail("pwrite", times=1)
    appends.write()
    disk.mend()
    appends.owner = later
    appends.write()

    assert [len(each.told) for each in (first, second, later)] == [is_failing, is_failing, 0]


@pytest.mark.parametrize("failing", [0, 1])
def test_a_failure_of_one_log_is_no_other_s(tmp_path: Path, disk: Disk, failing: int) -> None:
    """The batches in other directories are written, and their owners are told nothing."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    folders = [LogFolder(tmp_path / "one")]
    appends = folders[0].services.appends
    folders.append(LogFolder(tmp_path / "other", appends=appends))
    appends.is_open = True
    owners = [Owner(), Owner()]
    for appends.owner, each in zip(owners, folders, strict=True):
        take(each.log, make_batch())
    disk.fail("pwrite", path=f"{folders[failing].path.parent.name}/", times=1)
    appends.owner = owners[1 - failing]
    appends.write()

    assert [len(each.told) for each in owners] == [1 - failing, failing]
    assert [each.log.log_end_offset for each in folders] == [failing, 1 - failing]


def test_a_batch_that_may_not_wait_is_written_behind_those_that_do(folder: LogFolder) -> None:
    """One of a large frame, say, whose memory is somebody else's as soon as it is answered."""
    log, appends = folder.log, folder.services.appends
    take(log, make_batch(2))
    appends.is_open = False
    batch = make_batch(3)
    base_offset = take(log, batch)
    batch[:] = bytes(len(batch))

    assert base_offset == 2
    assert log.log_end_offset == 5
    assert offsets_in(bytes_of(log, 0)) == [0, 2]


def test_who_appends_behind_them_is_told_by_the_disk(folder: LogFolder, disk: Disk) -> None:
    """A marker of a transaction, say, that a timer writes: a storage error, as without them."""
    appends = folder.services.appends
    appends.owner = owner = Owner()
    take(folder.log, make_batch())
    appends.owner = None
    appends.is_open = False
    disk.fail("pwrite", times=1)

    with pytest.raises(KafkaStorageError):
        folder.log.append(validated(make_batch()))
    assert len(owner.told) == 1


def test_who_appends_in_the_same_request_learns_of_them(folder: LogFolder, disk: Disk) -> None:
    """An earlier batch of it may be among those that are not written: nothing is answered."""
    folder.services.appends.owner = Owner()
    take(folder.log, make_batch())
    disk.fail("pwrite", times=1)

    with pytest.raises(NotWrittenError):
        folder.log.append(validated(make_batch()))


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
            folders[0].services.appends.is_open = chance.random() < 0.9
            offsets = [take(each.log, bytearray(batch)) for each in folders]
            assert offsets[0] == offsets[1] >= 0
        folders[0].services.appends.write()
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
