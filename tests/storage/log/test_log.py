"""Appending to a log: offsets, rolls, producers, failures, flushes."""

from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import NotLeaderOrFollower, OutOfOrderSequence
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc
from siltstone.protocol.records.build import ABORT, build_marker
from siltstone.storage.log.end import Appends
from siltstone.storage.producers.checks import Origin
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.invariants import check_log
from tests.support.logs import LogFolder, bytes_of, offsets_in, validated

BATCH_BYTES = len(make_batch([(b"k", b"v" * 10)]))


def test_append_gives_offsets_in_order(tmp_path: Path) -> None:
    """Each batch begins where the one before ended, and the answer says where it lies."""
    folder = LogFolder(tmp_path)

    first, second = folder.append(3), folder.append(2)

    assert (first.base_offset, first.last_offset) == (0, 2)
    assert (second.base_offset, second.last_offset) == (3, 4)
    assert not first.duplicate
    assert folder.log.log_end_offset == folder.log.high_watermark == 5
    assert folder.log.end.records_in == 5
    assert [header.base_offset for header in check_log(folder.log)] == [0, 3]


def test_append_stamps_epoch_and_keeps_the_checksum(tmp_path: Path) -> None:
    """Base offset and leader epoch are written into the client's bytes; the CRC still holds."""
    folder = LogFolder(tmp_path)
    folder.append()
    folder.append()

    data = bytes_of(folder.log, 1)
    header = BatchHeader.read(data)

    assert (header.base_offset, header.leader_epoch) == (1, 0)
    assert has_valid_crc(memoryview(data), header.crc)


def test_append_time_is_passed_on(tmp_path: Path) -> None:
    """The time that validation stamped for LogAppendTime is in the answer."""
    folder = LogFolder(tmp_path)

    result = folder.log.append(validated(make_batch(), log_append_time_ms=77))

    assert result.log_append_time_ms == 77


@pytest.mark.parametrize(
    ("later_ms", "segments"), [(100, 1), (101, 2), (-5_000, 1)], ids=["equal", "more", "older"]
)
def test_roll_by_record_time(tmp_path: Path, later_ms: int, segments: int) -> None:
    """A segment rolls when a batch is more than segment.ms later than its first one."""
    folder = LogFolder(tmp_path, TopicConfig(segment_ms=100))
    folder.append()

    folder.append(timestamp=TIMESTAMP + later_ms)

    assert len(folder.log.segments) == segments


def test_wall_clock_rolls_only_without_timestamps(tmp_path: Path) -> None:
    """Silence rolls nothing, unless the first batch has no time of its own."""
    folder = LogFolder(tmp_path, TopicConfig(segment_ms=100))
    folder.append(timestamp=-1, step_ms=0)
    folder.clock.advance(101)

    folder.append(timestamp=-1, step_ms=0)

    assert len(folder.log.segments) == 2


def test_roll_flushes_the_old_segment_in_the_background(tmp_path: Path) -> None:
    """After a roll the recovery point moves to the new base, and a snapshot lies there."""
    folder = LogFolder(tmp_path)
    folder.append(3)

    folder.log.roll()
    before = folder.log.recovery_point
    folder.settle()

    assert (before, folder.log.recovery_point) == (0, 3)
    assert (folder.path / "00000000000000000003.snapshot").read_bytes().hex() == (
        "000148674bc700000000"
    )
    check_log(folder.log)


def test_roll_of_an_empty_segment_does_nothing(tmp_path: Path) -> None:
    """There is no second segment with the base of an empty one (KAFKA-6388)."""
    folder = LogFolder(tmp_path)

    folder.log.roll()

    assert len(folder.log.segments) == 1


def test_a_repeated_batch_is_answered_and_not_written(tmp_path: Path) -> None:
    """Each of the last five batches of a producer is known again, with its first offsets."""
    folder = LogFolder(tmp_path)
    for sequence in range(0, 12, 2):
        folder.append(2, producer_id=7, producer_epoch=0, base_sequence=sequence)

    again = folder.append(2, producer_id=7, producer_epoch=0, base_sequence=2)

    assert again.duplicate
    assert (again.base_offset, again.last_offset) == (2, 3)
    assert folder.log.log_end_offset == 12
    with pytest.raises(OutOfOrderSequence):
        folder.append(2, producer_id=7, producer_epoch=0, base_sequence=0)


def test_a_refused_batch_changes_nothing_but_may_roll(tmp_path: Path) -> None:
    """As in Kafka the roll comes before the producer's check."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=2 * BATCH_BYTES))
    for sequence in range(2):
        folder.append(producer_id=7, producer_epoch=0, base_sequence=sequence)

    with pytest.raises(OutOfOrderSequence):
        folder.append(producer_id=7, producer_epoch=0, base_sequence=9)

    assert folder.log.log_end_offset == 2
    assert [segment.size for segment in folder.log.segments] == [2 * BATCH_BYTES, 0]
    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=2).base_offset == 2


@pytest.mark.parametrize("restart", ["clean", "crash"])
def test_the_last_batch_is_known_after_a_restart(tmp_path: Path, restart: str) -> None:
    """The snapshot keeps one batch per producer; an older one that comes again is out of order."""
    folder = LogFolder(tmp_path)
    for sequence in range(3):
        folder.append(producer_id=7, producer_epoch=0, base_sequence=sequence)
    if restart == "clean":
        folder.close()
    folder.reopen(is_clean=restart == "clean")

    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=2).base_offset == 2
    assert folder.append(producer_id=7, producer_epoch=0, base_sequence=3).base_offset == 3


def test_expired_producers_are_forgotten(tmp_path: Path) -> None:
    """After producer.id.expiration.ms of silence any sequence may come first."""
    folder = LogFolder(tmp_path)
    folder.append(producer_id=7, producer_epoch=0, base_sequence=0)

    folder.log.remove_expired_producers(TIMESTAMP + 86_400_000)

    assert not folder.append(producer_id=7, producer_epoch=0, base_sequence=40).duplicate


def test_flush_due_follows_flush_messages(tmp_path: Path) -> None:
    """The append that reaches flush.messages unflushed records asks for a flush."""
    folder = LogFolder(tmp_path, TopicConfig(flush_messages=3))

    due = [folder.append().flush_due for _ in range(3)]
    folder.log.flush()

    assert due == [False, False, True]
    assert folder.log.recovery_point == 3
    assert not folder.append().flush_due


@pytest.mark.parametrize(("flush_messages", "due"), [(1, True), (3, False)])
def test_a_repeated_batch_waits_as_the_first_did(
    tmp_path: Path, flush_messages: int, due: bool
) -> None:
    """Sent again before the flush it asks for one, too; what is on the disk asks for none."""
    folder = LogFolder(tmp_path, TopicConfig(flush_messages=flush_messages))
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}

    first, again = folder.append(2, **fields), folder.append(2, **fields)
    folder.log.flush()
    flushed = folder.append(2, **fields)
    for _ in range(3):
        folder.append()
    older = folder.append(2, **fields)

    assert (first.flush_due, again.flush_due) == (due, due)
    assert (flushed.flush_due, older.flush_due) == (False, False)
    assert again.duplicate
    assert older.duplicate


def test_flush_up_to_an_offset(tmp_path: Path) -> None:
    """The recovery point goes as far as asked, no further, and never back."""
    folder = LogFolder(tmp_path)
    folder.append(5)

    points = []
    for upto in (2, 1, 9):
        folder.log.flush(upto)
        points.append(folder.log.recovery_point)

    assert points == [2, 2, 5]


def test_write_back_starts_after_enough_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel is asked to write what was appended since the last time, and only that."""
    appends = Appends()
    appends.write_back_bytes = 2 * BATCH_BYTES
    folder = LogFolder(tmp_path, appends=appends)
    ranges: list[tuple[int, int]] = []
    monkeypatch.setattr(
        "siltstone.storage.files.start_write_back",
        lambda _, position, size: ranges.append((position, size)),
    )

    for _ in range(5):
        folder.append()
    folder.settle()

    assert ranges == [(0, 2 * BATCH_BYTES), (2 * BATCH_BYTES, 2 * BATCH_BYTES)]


def test_reconfigure_takes_effect_with_the_next_append(tmp_path: Path) -> None:
    """A smaller segment.bytes rolls the next batch."""
    folder = LogFolder(tmp_path)
    folder.append()

    folder.log.reconfigure(TopicConfig(segment_bytes=BATCH_BYTES))
    folder.append()

    assert len(folder.log.segments) == 2


def test_a_closed_log_refuses(tmp_path: Path) -> None:
    """After close nothing is served any more, and closing again does nothing."""
    folder = LogFolder(tmp_path)
    folder.append()
    folder.close()
    folder.log.close()

    with pytest.raises(NotLeaderOrFollower):
        folder.append()
    with pytest.raises(NotLeaderOrFollower):
        folder.log.read(0, 100, 1)


def test_an_aborted_transaction_is_listed_to_its_readers(tmp_path: Path) -> None:
    """The LSO waits for the marker; an abort is then found by every fetch that overlaps it."""
    folder = LogFolder(tmp_path)
    folder.append()
    folder.append(2, producer_id=9, producer_epoch=0, base_sequence=0, flags=0x10)
    open_at = folder.log.last_stable_offset
    bound = folder.log.read(0, 1 << 20, open_at)
    marker = build_marker(0, TIMESTAMP, ABORT, 0, producer_id=9, producer_epoch=0)
    folder.log.append(validated(marker), Origin.COORDINATOR)

    assert (open_at, folder.log.last_stable_offset) == (1, 4)
    assert bound is not None
    assert (bound.next_offset, len(bound.slice)) == (1, BATCH_BYTES)
    assert folder.log.aborted_transactions(0, 4) == [(9, 1)]
    assert folder.log.aborted_transactions(0, 1) == []
    assert folder.log.aborted_transactions(2, 3) == [(9, 1)]
    folder.close()
    assert folder.reopen(is_clean=True).aborted_transactions(0, 4) == [(9, 1)]
    assert folder.reopen().aborted_transactions(0, 4) == [(9, 1)]
    assert offsets_in(bytes_of(folder.log, 0)) == [0, 1, 3]


def test_an_abort_in_a_later_segment_is_listed(tmp_path: Path) -> None:
    """The marker's segment has the entry; a fetch of the data reads the segment before it."""
    folder = LogFolder(tmp_path)
    folder.append(2, producer_id=9, producer_epoch=0, base_sequence=0, flags=0x10)
    folder.log.roll()
    marker = build_marker(0, TIMESTAMP, ABORT, 0, producer_id=9, producer_epoch=0)
    folder.log.append(validated(marker), Origin.COORDINATOR)

    assert len(folder.log.segments) == 2
    assert folder.log.aborted_transactions(0, 2) == [(9, 0)]
