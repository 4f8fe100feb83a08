"""Which log is taken next, what is remembered of it, and which caller comes first."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.cleaner import selection
from siltstone.cleaner.manager import GrabbedLog
from siltstone.cleaner.selection import CleanableLog, LogSnapshot
from siltstone.cleaner.set_aside import FIRST_PAUSE_SECONDS
from siltstone.cleaner.states import State
from siltstone.config.topic import TopicConfig
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP, make_producer_batch
from tests.support.cleaner import CompactedLogs, aborted
from tests.support.logs import validated


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CompactedLogs]:
    """No log yet."""
    logs = CompactedLogs(tmp_path)
    yield logs
    logs.close()


def taken(home: CompactedLogs) -> GrabbedLog:
    """Return the log that is taken, of which there has to be one."""
    work = home.manager.grab_filthiest()
    assert work is not None
    return work


def test_filthiest_log_is_taken(home: CompactedLogs) -> None:
    """The one with the greatest share of new bytes, and nobody else gets it meanwhile."""
    clean, filthy = home.create("clean"), home.create("filthy")
    home.fill(clean)
    home.manager.done(taken(home), 30)
    home.fill(clean, 4)
    home.fill(filthy)

    work = taken(home)

    assert work.log is filthy
    assert (work.cleanable.first_dirty_offset, work.cleanable.first_uncleanable_offset) == (0, 30)
    assert home.manager.states.get(work.topic_partition) is State.IN_PROGRESS
    assert taken(home).log is clean
    assert home.manager.grab_filthiest() is None


def test_end_of_a_pass_is_checkpointed(home: CompactedLogs) -> None:
    """In Kafka's file; the log is then clean until there is more."""
    home.fill(home.create())

    home.manager.done(taken(home), 30)

    assert home.checkpoint() == "0\n1\norders 0 30\n"
    assert home.manager.grab_filthiest() is None


def test_checkpoint_outlives_a_restart(home: CompactedLogs) -> None:
    """The next start goes on behind what is clean."""
    home.fill(home.create())
    home.manager.done(taken(home), 30)
    home.restart()
    log = home.logs.logs[TopicPartition("orders", 0)]
    home.fill(log, 4)

    assert taken(home).cleanable.first_dirty_offset == 30


def test_log_of_another_policy_is_left_alone(home: CompactedLogs) -> None:
    """Without compact nothing is cleaned."""
    home.fill(home.create(cleanup_policy=("delete",)))

    assert home.manager.grab_filthiest() is None


def test_aborted_pass_moves_no_checkpoint(home: CompactedLogs) -> None:
    """Even if the worker comes to its end without having noticed."""
    home.fill(home.create())
    work = taken(home)
    with aborted(home.manager.states, work.topic_partition):
        home.manager.done(work, 30)

    assert home.checkpoint() == ""
    assert taken(home).cleanable.first_dirty_offset == 0


def test_log_given_back_is_as_before(home: CompactedLogs) -> None:
    """An aborted pass leaves nothing behind."""
    home.fill(home.create())

    home.manager.release(taken(home).log)

    assert home.checkpoint() == ""
    assert taken(home).cleanable.first_dirty_offset == 0


def test_failed_log_is_set_aside_and_others_go_on(home: CompactedLogs) -> None:
    """The reason is kept, the pause doubles with each failure in a row."""
    bad, good = home.create("bad"), home.create("good")
    home.fill(bad, 5)
    home.fill(good)
    home.manager.fail(taken(home), ValueError("no batch"))

    assert home.manager.failure(bad.topic_partition) is not None
    home.manager.done(taken(home), 30)
    assert home.manager.grab_filthiest() is None
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    home.manager.fail(taken(home), ValueError("no batch"))
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    assert home.manager.grab_filthiest() is None
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    assert taken(home).log is bad


def test_failure_is_told(home: CompactedLogs) -> None:
    """Cause, reason, how often and when again."""
    log = home.create()
    home.fill(log)
    now = home.clock.now_ms()

    home.manager.fail(taken(home), ValueError("no batch"))

    failure = home.manager.failures()[log.topic_partition]
    assert (failure.cause, failure.reason, failure.attempts) == ("ValueError", "no batch", 1)
    assert (failure.first_ms, failure.retry_ms) == (now, now + FIRST_PAUSE_SECONDS * 1000)


def test_success_ends_a_failure(home: CompactedLogs) -> None:
    """Nothing is remembered of what was repaired."""
    log = home.create()
    home.fill(log)
    home.manager.fail(taken(home), ValueError("no batch"))
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)

    home.manager.done(taken(home), 30)

    assert home.manager.failure(log.topic_partition) is None


@pytest.mark.parametrize("by_request", [True, False])
def test_failed_log_is_taken_back_at_once(home: CompactedLogs, by_request: bool) -> None:
    """When somebody asks or its settings change: no restart is needed (KAFKA-19895)."""
    log = home.create()
    home.fill(log)
    home.manager.fail(taken(home), ValueError("no batch"))
    assert home.manager.grab_filthiest() is None

    if by_request:
        home.manager.request(log.topic_partition)
    else:
        home.manager.take_back(log.topic_partition)

    assert taken(home).log is log


def test_pass_that_was_asked_for_is_tried_again(home: CompactedLogs) -> None:
    """Although nobody else would make it, and as it was asked for; not before its time."""
    log = home.create(min_compaction_lag_ms=3_600_000)
    home.fill(log, timestamp=home.clock.now_ms())
    home.manager.request(log.topic_partition, is_forced=True)

    home.manager.fail(taken(home), OSError(28, "No space left on device"))

    assert home.manager.is_requested(log.topic_partition)
    assert home.manager.grab_filthiest() is None
    home.clock.advance(FIRST_PAUSE_SECONDS * 1000)
    work = taken(home)
    assert (work.log, work.is_requested, work.is_forced) == (log, True, True)
    home.manager.done(work, 30)
    assert not home.manager.is_requested(log.topic_partition)


def test_log_that_cannot_be_looked_at_is_set_aside(home: CompactedLogs) -> None:
    """A missing file stops its own partition only."""
    bad, good = home.create("bad", min_compaction_lag_ms=1), home.create("good")
    home.fill(bad)
    home.fill(good)
    home.restart()
    bad = home.logs.logs[bad.topic_partition]
    for path in bad.path.glob("*"):
        path.unlink()

    assert taken(home).log.topic_partition == good.topic_partition
    failure = home.manager.failure(bad.topic_partition)
    assert failure is not None
    assert failure.cause == "FileNotFoundError"


def test_request_comes_first_and_ignores_the_ratio(home: CompactedLogs) -> None:
    """Asked for by hand, a log that is hardly dirty is cleaned before a filthy one."""
    asked, filthy = home.create("asked", min_cleanable_dirty_ratio=1.0), home.create("filthy")
    home.fill(asked)
    home.fill(filthy)
    home.manager.request(asked.topic_partition)

    work = taken(home)

    assert (work.log, work.is_requested) == (asked, True)
    assert not home.manager.is_requested(asked.topic_partition)
    assert taken(home).log is filthy


def test_request_obeys_the_min_lag_unless_forced(home: CompactedLogs) -> None:
    """`min.compaction.lag.ms` is a promise to readers: only --force breaks it."""
    log = home.create(min_compaction_lag_ms=3_600_000)
    home.fill(log)
    home.manager.request(log.topic_partition)
    assert home.manager.grab_filthiest() is None
    assert not home.manager.is_requested(log.topic_partition)

    home.manager.request(log.topic_partition, is_forced=True)

    assert taken(home).cleanable.first_uncleanable_offset == 30


def test_request_waits_for_who_works_on_the_log(home: CompactedLogs) -> None:
    """It is served when the log is free again."""
    log = home.create()
    home.fill(log)
    work = taken(home)
    home.manager.request(log.topic_partition)
    assert home.manager.grab_filthiest() is None
    home.fill(log, 1)

    home.manager.done(work, 30)

    assert taken(home).is_requested


@pytest.mark.parametrize("is_forced", [True, False])
def test_request_that_comes_while_the_log_is_looked_at(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch, is_forced: bool
) -> None:
    """It is not taken with the one before it, which is served from the state of then."""
    log = home.create(min_compaction_lag_ms=3_600_000)
    home.fill(log)
    home.manager.request(log.topic_partition, is_forced=True)
    find = selection.find_cleanable

    def ask_meanwhile(snapshot: LogSnapshot, now_ms: int) -> CleanableLog:
        monkeypatch.undo()
        home.manager.request(log.topic_partition, is_forced=is_forced)
        return find(snapshot, now_ms)

    monkeypatch.setattr(selection, "find_cleanable", ask_meanwhile)
    work = taken(home)

    assert (work.is_requested, work.is_forced) == (True, True)
    assert home.manager.is_requested(log.topic_partition)


def test_request_shows_until_its_log_is_taken(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `siltstone clean --wait` would take it for served while its log is looked at."""
    log = home.create()
    home.fill(log)
    home.manager.request(log.topic_partition)
    seen: list[bool] = []
    find = selection.find_cleanable

    def look_meanwhile(snapshot: LogSnapshot, now_ms: int) -> CleanableLog:
        seen.append(home.manager.is_requested(log.topic_partition))
        return find(snapshot, now_ms)

    monkeypatch.setattr(selection, "find_cleanable", look_meanwhile)
    taken(home)

    assert seen == [True]
    assert not home.manager.is_requested(log.topic_partition)


def test_request_whose_log_somebody_takes_first_stays(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is served when the log is free again, whatever took it in between."""
    log = home.create()
    home.fill(log)
    home.manager.request(log.topic_partition)
    find = selection.find_cleanable

    def take_meanwhile(snapshot: LogSnapshot, now_ms: int) -> CleanableLog:
        monkeypatch.undo()
        assert home.manager.take(log)
        return find(snapshot, now_ms)

    monkeypatch.setattr(selection, "find_cleanable", take_meanwhile)
    assert home.manager.grab_filthiest() is None
    home.manager.release(log)

    assert taken(home).is_requested


def test_request_for_a_log_that_is_not_there_goes(home: CompactedLogs) -> None:
    """A topic may be deleted meanwhile."""
    home.manager.request(TopicPartition("gone", 0))

    assert home.manager.grab_filthiest() is None
    assert not home.manager.is_requested(TopicPartition("gone", 0))


def test_checkpoint_below_the_log_start_is_written_anew(home: CompactedLogs) -> None:
    """Retention went past it (KAFKA-6266): once, then it is right."""
    log = home.create(cleanup_policy=("compact", "delete"), min_cleanable_dirty_ratio=0.0)
    home.fill(log)
    home.manager.done(taken(home), 5)
    log.delete_records(25)

    work = taken(home)

    assert work.cleanable.first_dirty_offset == 25
    assert home.checkpoint() == "0\n1\norders 0 25\n"


def test_checkpoint_above_the_log_end_is_written_anew(home: CompactedLogs) -> None:
    """After a crash that took the end away everything is dirty again."""
    log = home.create()
    home.fill(log)
    home.manager.done(taken(home), 1000)

    work = taken(home)

    assert work.cleanable.first_dirty_offset == 0
    assert home.checkpoint() == "0\n1\norders 0 0\n"


def test_open_transaction_is_left_alone(home: CompactedLogs) -> None:
    """Nothing from its first batch on is cleaned."""
    log = home.create()
    home.fill(log)
    batch = make_producer_batch(0, 5)
    batch[22] |= 0x10  # transactional
    log.append(validated(batch))
    log.roll()
    home.fill(log)

    assert taken(home).cleanable.first_uncleanable_offset == 30


def test_deleted_partition_is_forgotten(home: CompactedLogs) -> None:
    """Checkpoint, failure, pause and request go with it."""
    log = home.create()
    home.fill(log)
    home.manager.done(taken(home), 30)
    home.manager.states.abort_and_pause(log.topic_partition)
    home.manager.request(log.topic_partition)
    home.logs.delete(log.topic_partition)

    home.manager.forget(log.topic_partition)

    assert home.checkpoint() == "0\n0\n"
    again = home.create()
    home.fill(again)
    assert taken(home).log is again


def test_checkpoint_drops_partitions_that_are_gone(home: CompactedLogs) -> None:
    """A write that failed at deletion is made good by the next."""
    gone, log = home.create("gone"), home.create("here")
    for each in (gone, log):
        home.fill(each)
        home.manager.done(taken(home), 10)
    home.logs.delete(gone.topic_partition)

    home.manager.done(taken(home), 30)

    assert home.checkpoint() == "0\n1\nhere 0 30\n"


def test_log_whose_policy_changes_while_it_is_taken_is_given_back(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change of the policy either sees the state or is seen."""
    log = home.create()
    home.fill(log)
    take = home.manager.states.take

    def change(topic_partition: TopicPartition) -> bool:
        log.config = dataclasses.replace(log.config, cleanup_policy=("delete",))
        return take(topic_partition)

    monkeypatch.setattr(home.manager.states, "take", change)

    assert home.manager.grab_filthiest() is None
    assert home.manager.states.get(log.topic_partition) is State.NONE


def test_log_that_another_thread_has_just_cleaned_is_given_back(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look from before the other's checkpoint does not count any more."""
    log = home.create()
    home.fill(log)
    other = taken(home)
    home.manager.release(log)
    rank = selection.rank

    def cleaned_meanwhile(found: list[CleanableLog]) -> list[CleanableLog]:
        assert home.manager.take(log)
        home.manager.done(other, 30)
        return rank(found)

    monkeypatch.setattr(selection, "rank", cleaned_meanwhile)

    assert home.manager.grab_filthiest() is None


def test_last_selection_is_kept_for_the_gauges(home: CompactedLogs) -> None:
    """The greatest ratio among all dirty logs, eligible or not, and the greatest delay."""
    lazy = home.create("lazy", min_cleanable_dirty_ratio=1.0)
    late = home.create("late", max_compaction_lag_ms=10_000, min_cleanable_dirty_ratio=1.0)
    home.fill(lazy)
    home.fill(late, timestamp=TIMESTAMP - 50_000)

    assert taken(home).log is late

    last = home.manager.last_selection
    assert (last.now_ms, last.max_dirty_ratio) == (home.clock.now_ms(), 1.0)
    # The first batch's newest record is the one that counts; ten records, 1 ms apart.
    assert last.max_delay_ms == 100_000 - 9


def test_offline_directory_is_passed_over(home: CompactedLogs) -> None:
    """Its logs can neither be read nor written."""
    log = home.create()
    home.fill(log)
    log.directory.failure = "Input/output error"

    assert home.manager.grab_filthiest() is None
    log.directory.failure = None


def test_checkpoints_are_per_directory(tmp_path: Path) -> None:
    """Each file names the partitions of its own disk."""
    home = CompactedLogs(tmp_path, directories=2)
    logs = [home.create("one"), home.create("two")]
    for log in logs:
        home.fill(log)
    for _ in logs:
        home.manager.done(taken(home), 30)

    assert sorted(home.checkpoint(number) for number in (0, 1)) == [
        "0\n1\none 0 30\n",
        "0\n1\ntwo 0 30\n",
    ]
    home.close()


def test_settings_are_those_of_the_moment(home: CompactedLogs) -> None:
    """A topic that becomes compacted is taken with all that it holds."""
    log = home.create(cleanup_policy=("delete",))
    append_unchecked(log, [(b"k", b"v")])
    log.roll()
    assert home.manager.grab_filthiest() is None

    log.reconfigure(TopicConfig(cleanup_policy=("compact",)))

    assert taken(home).log is log


def test_ranking_is_kept_for_a_while(home: CompactedLogs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking at thousands of logs takes time: the next pass goes by the same look."""
    logs = [home.create(f"t{number}") for number in range(3)]
    for log in logs:
        home.fill(log, 2)
    looks = []
    compacted_logs = home.manager.compacted_logs

    def slow_look() -> Iterator[Log]:
        looks.append(home.clock.now_ms())
        home.clock.advance(1000)
        return compacted_logs()

    monkeypatch.setattr(home.manager, "compacted_logs", slow_look)

    home.manager.done(taken(home), 20)
    home.manager.done(taken(home), 20)
    assert len(looks) == 1
    home.clock.advance(10_000)
    home.manager.done(taken(home), 20)
    assert len(looks) == 2
    assert home.manager.grab_filthiest() is None
    assert len(looks) == 3


def test_ranked_log_is_looked_at_again_before_it_is_taken(
    home: CompactedLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change since the look counts: here another policy."""
    logs = [home.create(f"t{number}") for number in range(2)]
    for log in logs:
        home.fill(log, 2)
    compacted_logs = home.manager.compacted_logs

    def slow_look() -> Iterator[Log]:
        home.clock.advance(1000)
        return compacted_logs()

    monkeypatch.setattr(home.manager, "compacted_logs", slow_look)
    home.manager.done(taken(home), 20)
    other = logs[1]
    home.reconfigure(other, min_cleanable_dirty_ratio=1.0)

    assert home.manager.grab_filthiest() is None
