"""Clean, cleanable and other parts of a log, and which log is cleaned next."""

from typing import Any

import pytest

from siltstone.cleaner.selection import (
    CleanableLog,
    Correction,
    Limit,
    LogSnapshot,
    find_cleanable,
    find_next_eligible,
    is_worth_a_look,
    rank,
    without_min_lag,
)
from siltstone.config.topic import FOREVER
from tests.support.cleaning import NOW, FakeSegment, four, snapshot


def test_new_log_is_dirty_up_to_the_active_segment() -> None:
    """Without a checkpoint cleaning begins at the log start offset."""
    found = find_cleanable(snapshot(*four()), NOW)

    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 30)
    assert (found.clean_bytes, found.cleanable_bytes, found.uncleanable_bytes) == (0, 300, 100)
    assert (found.ratio, found.limit) == (1.0, Limit.ACTIVE_SEGMENT)


def test_checkpoint_parts_clean_from_cleanable() -> None:
    """The active segment is in neither sum of the ratio."""
    found = find_cleanable(snapshot(*four(), checkpoint=20), NOW)

    assert (found.clean_bytes, found.cleanable_bytes, found.uncleanable_bytes) == (200, 100, 100)
    assert found.ratio == pytest.approx(1 / 3)


def test_segment_that_the_first_dirty_offset_cuts_counts_twice() -> None:
    """It is clean and cleanable as a whole, as in Kafka."""
    found = find_cleanable(snapshot(*four(), checkpoint=15), NOW)

    assert (found.clean_bytes, found.cleanable_bytes) == (200, 200)


def test_checkpoint_below_the_log_start_is_corrected() -> None:
    """Retention or DeleteRecords went past it: normal for compact,delete."""
    found = find_cleanable(snapshot(*four(), checkpoint=5, log_start_offset=12), NOW)

    assert found.first_dirty_offset == 12
    assert found.correction is Correction.BELOW_LOG_START


def test_checkpoint_above_the_log_end_starts_anew() -> None:
    """The log was cut by a crash: all of it is dirty again."""
    found = find_cleanable(snapshot(*four(), checkpoint=41), NOW)

    assert found.first_dirty_offset == 0
    assert found.correction is Correction.ABOVE_LOG_END
    assert find_cleanable(snapshot(*four(), checkpoint=40), NOW).correction is None


def test_open_transaction_ends_the_cleanable_part() -> None:
    """The last stable offset bounds it, down to the base of its segment (KAFKA-13194)."""
    found = find_cleanable(snapshot(*four(), last_stable_offset=25), NOW)

    assert (found.first_uncleanable_offset, found.cleanable_bytes) == (20, 200)
    assert found.limit is Limit.OPEN_TRANSACTION


def test_young_segment_ends_the_cleanable_part() -> None:
    """A segment counts by its youngest record, and all after it are out as well."""
    segments = four()
    segments[1].largest_timestamp = NOW - 999

    found = find_cleanable(snapshot(*segments, min_compaction_lag_ms=1000), NOW)

    assert found.first_uncleanable_offset == 10
    assert (found.limit, found.young_segment) == (Limit.YOUNG_SEGMENT, segments[1])


def test_record_as_old_as_the_lag_is_old_enough() -> None:
    """Uncleanable means younger: a timestamp greater than now - lag."""
    segments = four(largest_timestamp=NOW - 1000)

    found = find_cleanable(snapshot(*segments, min_compaction_lag_ms=1000), NOW)

    assert (found.first_uncleanable_offset, found.limit) == (30, Limit.ACTIVE_SEGMENT)


def test_the_lowest_limit_counts() -> None:
    """A young segment below an open transaction is the limit."""
    segments = four(largest_timestamp=NOW)

    found = find_cleanable(
        snapshot(*segments, last_stable_offset=20, min_compaction_lag_ms=1000), NOW
    )

    assert (found.first_uncleanable_offset, found.limit) == (0, Limit.YOUNG_SEGMENT)


@pytest.mark.parametrize("checkpoint", [30, 35, 40])
def test_nothing_is_cleanable_from_the_active_segment_on(checkpoint: int) -> None:
    """An empty range yields no segments, not an error (KAFKA-9826)."""
    found = find_cleanable(snapshot(*four(), checkpoint=checkpoint), NOW)

    assert (found.cleanable_bytes, found.ratio, found.is_eligible) == (0, 0.0, False)


def test_ratio_has_to_be_greater_than_the_threshold() -> None:
    """Exactly half is not enough for 0.5."""
    half = snapshot(*four(), FakeSegment(40), checkpoint=20)

    assert find_cleanable(half, NOW).ratio == 0.5
    assert not find_cleanable(half, NOW).is_eligible
    assert find_cleanable(snapshot(*four(), FakeSegment(40), checkpoint=10), NOW).is_eligible


def test_max_lag_forces_a_pass() -> None:
    """The oldest dirty batch decides, the ratio does not."""
    segments = four()
    segments[2].first_batch_timestamp = NOW - 5000
    found = find_cleanable(snapshot(*segments, checkpoint=20, max_compaction_lag_ms=4000), NOW)

    assert (found.delay_ms, found.must_clean, found.is_eligible) == (1000, True, True)


def test_max_lag_does_not_force_what_cannot_be_cleaned() -> None:
    """A log that an open transaction holds from its start on is left alone."""
    found = find_cleanable(snapshot(*four(), last_stable_offset=0, max_compaction_lag_ms=1000), NOW)

    assert found.delay_ms > 0
    assert not found.is_eligible


def test_batches_without_a_timestamp_do_not_force() -> None:
    """Only a positive time can be too long ago."""
    segments = four(first_batch_timestamp=-1)

    assert find_cleanable(snapshot(*segments, max_compaction_lag_ms=1), NOW).delay_ms == 0


def test_segments_are_not_read_where_no_rule_asks() -> None:
    """With the default lags neither timestamps nor headers are looked at."""

    class Unread(FakeSegment):
        def __getattribute__(self, name: str) -> Any:
            assert not name.endswith("timestamp")
            return super().__getattribute__(name)

    assert find_cleanable(snapshot(Unread(0), Unread(10)), NOW).is_eligible


def filth(partition: int, checkpoint: int, **config: Any) -> CleanableLog:
    """Return a log of ten segments that is clean up to a checkpoint."""
    segments = [FakeSegment(base) for base in range(0, 110, 10)]
    return find_cleanable(
        snapshot(*segments, checkpoint=checkpoint, partition=partition, **config), NOW
    )


def test_greatest_ratio_wins() -> None:
    """Also over a log that must be cleaned and has a smaller ratio."""
    must = filth(0, 90, max_compaction_lag_ms=1)
    logs = [must, filth(1, 30), filth(2, 10), filth(3, 40)]

    assert must.must_clean
    assert [each.topic_partition.partition for each in rank(logs)] == [2, 1, 3, 0]


def test_first_of_equal_ratios_wins() -> None:
    """Ties are broken by the order of the logs."""
    ranked = rank([filth(3, 20), filth(1, 20), filth(2, 20)])

    assert [each.topic_partition.partition for each in ranked] == [3, 1, 2]


def test_nobody_is_chosen_below_the_threshold() -> None:
    """Logs that are not eligible stay, however many there are."""
    assert rank([filth(0, 60), filth(1, 90)]) == []


def test_forced_pass_ignores_the_min_lag_alone() -> None:
    """An open transaction stays a limit."""
    young = snapshot(
        *four(largest_timestamp=NOW), last_stable_offset=20, min_compaction_lag_ms=1000
    )

    found = find_cleanable(without_min_lag(young), NOW)

    assert (found.first_uncleanable_offset, found.limit) == (20, Limit.OPEN_TRANSACTION)


def test_log_of_one_segment_is_not_looked_at() -> None:
    """Unless its checkpoint may have to be corrected."""
    assert not is_worth_a_look(snapshot(FakeSegment(0)))
    assert is_worth_a_look(snapshot(FakeSegment(0), checkpoint=50))
    assert is_worth_a_look(snapshot(FakeSegment(0), FakeSegment(10)))


def test_next_eligible_is_now_for_who_is() -> None:
    """Nothing has to be waited for."""
    assert find_next_eligible(snapshot(*four()), NOW) == NOW


def test_next_eligible_follows_the_min_lag() -> None:
    """At the moment when enough of the segments are old enough, and not a millisecond before."""
    segments = [FakeSegment(base) for base in range(0, 60, 10)]
    for number, segment in enumerate(segments):
        segment.largest_timestamp = NOW - 100 * (9 - number)
    log = snapshot(*segments, checkpoint=20, min_compaction_lag_ms=5000)

    moment = find_next_eligible(log, NOW)

    # Segments 0 and 10 are clean: it takes 20, 30 and 40 to be more than half.
    assert moment == segments[4].largest_timestamp + 5000
    assert find_cleanable(log, moment).is_eligible
    assert not find_cleanable(log, moment - 1).is_eligible


def test_next_eligible_follows_the_max_lag() -> None:
    """The first dirty batch becomes too old, one millisecond after its lag."""
    segments = four()
    segments[2].first_batch_timestamp = NOW - 100
    log = snapshot(*segments, checkpoint=20, max_compaction_lag_ms=1000)

    moment = find_next_eligible(log, NOW)

    assert moment == NOW + 901
    assert find_cleanable(log, moment).is_eligible
    assert not find_cleanable(log, moment - 1).is_eligible


@pytest.mark.parametrize(
    "log",
    [
        snapshot(*four(), checkpoint=20),
        snapshot(*four(), checkpoint=30, max_compaction_lag_ms=1000),
        snapshot(*four(), last_stable_offset=0, min_compaction_lag_ms=1000),
        snapshot(FakeSegment(0), min_compaction_lag_ms=FOREVER, max_compaction_lag_ms=FOREVER),
        snapshot(*four(largest_timestamp=FOREVER), min_compaction_lag_ms=1000),
    ],
)
def test_next_eligible_is_never_where_time_does_not_help(log: LogSnapshot) -> None:
    """Too little, only the active segment, an open transaction, a time that never comes."""
    assert find_next_eligible(log, NOW) is None
