"""The true reason why a partition is or is not compacted, situation by situation."""

from dataclasses import replace
from typing import Any

import pytest

from siltstone.cleaner.explaining.explain import PartitionView, explain
from siltstone.cleaner.explaining.explanation import Explanation, OpenTransaction, Rule, SettingUsed
from siltstone.cleaner.explaining.last_pass import Pass
from siltstone.cleaner.selection import LogSnapshot
from siltstone.cleaner.set_aside import Failure
from siltstone.cleaner.states import State
from siltstone.config.describe import Place, find_broker_place, find_place
from siltstone.config.layers import Given, Layers, Source
from tests.support.cleaning import DAY, NOW, FakeSegment, four, snapshot

LAYERS = Layers(
    static={
        "log.cleaner.min.cleanable.ratio": Given("0.3", "server.yaml line 4"),
        "log.cleaner.enable": Given("false", "--set"),
    }
)
LAST = Pass(
    started_ms=NOW - DAY,
    seconds=1.0,
    first_dirty_offset=0,
    end_offset=20,
    bytes_read=100,
    bytes_written=50,
    records_dropped=5,
    map_full=False,
    map_keys=1000,
    next_horizon_ms=None,
)


def view(log: LogSnapshot, overrides: dict[str, str] | None = None, **facts: Any) -> PartitionView:
    """Return a partition whose settings come from `LAYERS` and the topic."""
    return PartitionView(
        snapshot=log,
        now_ms=NOW,
        find_place=lambda name: find_place(LAYERS, overrides or {}, name),
        **facts,
    )


def decided(explanation: Explanation) -> tuple[Rule, bool]:
    """Return the rule, and whether the cleaner may take the log now."""
    return explanation.finding.rule, explanation.is_eligible


CLEAN = snapshot(*four(), checkpoint=30)
DIRTY = snapshot(*four())


def test_policy_without_compact() -> None:
    """A topic that is only deleted is not compacted, and the setting is named with its place."""
    config = replace(DIRTY.config, cleanup_policy=("delete",))

    found = explain(view(DIRTY._replace(config=config)))

    assert decided(found) == (Rule.NOT_COMPACTED, False)
    assert found.cleanable is None
    assert "cleanup.policy=delete (default)" in found.finding.sentence


def test_cleaner_switched_off() -> None:
    """`log.cleaner.enable=false` is named with its place; time does not help."""
    name = "log.cleaner.enable"
    off = SettingUsed(name, "false", find_broker_place(LAYERS, name))

    found = explain(view(DIRTY, cleaner_off=off))

    assert decided(found) == (Rule.CLEANER_OFF, False)
    assert "log.cleaner.enable=false (--set)" in found.finding.sentence
    assert found.next_eligible_ms is None


def test_directory_offline() -> None:
    """A failed disk comes before every other reason."""
    found = explain(view(DIRTY, offline="Input/output error", state=State.PAUSED))

    assert decided(found) == (Rule.OFFLINE, False)
    assert "Input/output error" in found.finding.sentence


def test_paused() -> None:
    """Somebody else changes the files; even a filthy log is not eligible."""
    assert decided(explain(view(DIRTY, state=State.PAUSED))) == (Rule.PAUSED, False)


def test_being_aborted() -> None:
    """A pass that somebody waits for to end."""
    assert decided(explain(view(DIRTY, state=State.ABORTED))) == (Rule.ABORTING, False)


def test_in_progress() -> None:
    """A thread is at it; how far it is, is told."""
    found = explain(view(DIRTY, state=State.IN_PROGRESS, progress="copy, 40 % of 300 bytes"))

    assert decided(found) == (Rule.IN_PROGRESS, False)
    assert "copy, 40 %" in found.finding.sentence


def test_failed() -> None:
    """The cause, how often, and when it is tried again."""
    failure = Failure(
        cause="CorruptSegment",
        reason="00.log position 61",
        first_ms=NOW - 1000,
        last_ms=NOW,
        attempts=2,
        retry_ms=NOW + 30_000,
    )

    found = explain(view(DIRTY, failure=failure))

    assert decided(found) == (Rule.FAILED, False)
    assert found.next_eligible_ms == NOW + 30_000
    assert "CorruptSegment: 00.log position 61" in found.finding.sentence


def test_failed_as_somebody_had_asked() -> None:
    """Nothing but the request makes it eligible: it is tried again all the same, and then."""
    failure = Failure("OSError", "disk full", NOW, NOW, 1, NOW + 15_000)

    found = explain(view(CLEAN, failure=failure, is_requested=True))

    assert decided(found) == (Rule.FAILED, False)
    assert found.next_eligible_ms == NOW + 15_000


def test_failed_and_due_again() -> None:
    """When the pause has passed the log is like any other."""
    failure = Failure("OSError", "disk full", NOW - 20_000, NOW - 20_000, 1, NOW - 5000)

    assert decided(explain(view(DIRTY, failure=failure))) == (Rule.RATIO_ABOVE, True)


def test_requested() -> None:
    """Somebody asked, and no thread has begun."""
    assert decided(explain(view(CLEAN, is_requested=True))) == (Rule.REQUESTED, True)


def test_max_lag_forces() -> None:
    """Below the ratio, but too old: the setting and by how much."""
    log = snapshot(*four(), checkpoint=20, max_compaction_lag_ms=DAY - 5)

    found = explain(view(log, {"max.compaction.lag.ms": str(DAY - 5)}))

    assert decided(found) == (Rule.MAX_LAG, True)
    assert "5 ms older than max.compaction.lag.ms=86399995 (topic)" in found.finding.sentence


def test_ratio_above() -> None:
    """Dirty enough; the ratio came from the broker's own synonym in the file."""
    log = snapshot(*four(), checkpoint=10, min_cleanable_dirty_ratio=0.3)

    found = explain(view(log))

    assert decided(found) == (Rule.RATIO_ABOVE, True)
    assert found.next_eligible_ms == NOW
    assert found.finding.setting == SettingUsed(
        "min.cleanable.dirty.ratio",
        "0.3",
        Place("log.cleaner.min.cleanable.ratio", Source.STATIC, "server.yaml line 4"),
    )


def test_all_of_it_is_a_ratio_of_one() -> None:
    """Of the ratio, not "1 of it"."""
    found = explain(view(snapshot(*four(), checkpoint=0, min_cleanable_dirty_ratio=0.3)))

    assert found.finding.sentence.startswith("its dirty ratio is 1, more than")


def test_ratio_below() -> None:
    """Not dirty enough, and how many bytes would be."""
    found = explain(view(snapshot(*four(), checkpoint=20), {"min.cleanable.dirty.ratio": "0.5"}))

    assert decided(found) == (Rule.RATIO_BELOW, False)
    assert "its dirty ratio is 0.3333, not more than min.cleanable.dirty.ratio=0.5 (topic)" in (
        found.finding.sentence
    )
    assert "; 101 more bytes in closed segments" in found.finding.sentence
    assert found.next_eligible_ms is None


def test_ratio_of_one_is_never_exceeded() -> None:
    """With 1 only max.compaction.lag.ms makes a log eligible."""
    log = snapshot(*four(), min_cleanable_dirty_ratio=1.0)

    assert "and no ratio can be" in explain(view(log)).finding.sentence


def test_ratio_below_until_max_lag() -> None:
    """The reason that makes it eligible by itself is named."""
    log = snapshot(*four(), checkpoint=20, max_compaction_lag_ms=2 * DAY)

    found = explain(view(log))

    assert found.finding.rule is Rule.RATIO_BELOW
    assert found.next_eligible_ms == NOW + DAY + 1


def test_map_too_small() -> None:
    """The last pass ended where the map was full, and the rest waits for the next."""
    log = snapshot(*four(), checkpoint=10)
    last = LAST._replace(map_full=True, end_offset=10)

    found = explain(view(log, last_pass=last))

    assert decided(found) == (Rule.MAP_TOO_SMALL, True)
    assert "full with 1000 keys" in found.finding.sentence


def test_map_too_small_and_rest_below_the_ratio() -> None:
    """The rest may be too little for the ratio: then it stays, because of both."""
    last = LAST._replace(map_full=True)

    found = explain(view(snapshot(*four(), checkpoint=20), last_pass=last))

    assert decided(found) == (Rule.MAP_TOO_SMALL, False)
    assert "the dirty ratio of the rest is 0.3333" in found.finding.sentence


def test_empty() -> None:
    """There is nothing to clean in a new partition."""
    assert decided(explain(view(snapshot(FakeSegment(0, size=0))))) == (Rule.EMPTY, False)


def test_active_segment_only() -> None:
    """All that is dirty is being written: what closes the segment is told."""
    active = FakeSegment(30, first_batch_timestamp=NOW)
    log = snapshot(*four()[:3], active, checkpoint=30, segment_ms=60_000)

    found = explain(view(log, {"segment.ms": "60000"}))

    assert decided(found) == (Rule.ACTIVE_ONLY, False)
    assert found.finding.segment == 30
    assert "segment.ms=60000 (topic)" in found.finding.sentence
    assert "2023-11-14 22:14:20 UTC" in found.finding.sentence


def test_active_segment_closed_by_max_lag() -> None:
    """The smaller of the two times is the one that is named."""
    log = snapshot(FakeSegment(0), max_compaction_lag_ms=1000)

    found = explain(view(log))

    assert found.finding.setting is not None
    assert found.finding.setting.name == "max.compaction.lag.ms"


def test_open_transaction() -> None:
    """Whose it is and since which offset; time alone does not end it."""
    log = snapshot(*four(), last_stable_offset=15, checkpoint=10)

    found = explain(view(log, transaction=OpenTransaction(4000, 15)))

    assert decided(found) == (Rule.OPEN_TRANSACTION, False)
    assert found.finding.transaction == OpenTransaction(4000, 15)
    assert "producer 4000 is open since offset 15" in found.finding.sentence


def test_young_segment() -> None:
    """Which segment, how young, by which setting and until when."""
    segments = four()
    segments[1].largest_timestamp = NOW - 400
    log = snapshot(*segments, checkpoint=10, min_compaction_lag_ms=1000)

    found = explain(view(log, {"min.compaction.lag.ms": "1000"}))

    assert decided(found) == (Rule.YOUNG_SEGMENT, False)
    assert found.finding.segment == 10
    assert found.next_eligible_ms == NOW + 600
    assert "min.compaction.lag.ms=1000 (topic)" in found.finding.sentence


def test_record_dated_in_the_future() -> None:
    """One wrong clock holds its segment and all after it: that is said."""
    segments = four()
    segments[0].largest_timestamp = NOW + DAY
    log = snapshot(*segments, min_compaction_lag_ms=1000)

    found = explain(view(log))

    assert found.finding.rule is Rule.YOUNG_SEGMENT
    assert "in the future" in found.finding.sentence
    assert found.next_eligible_ms == NOW + DAY + 1000


def test_limit_that_does_not_matter_is_not_blamed() -> None:
    """A log too clean even without its open transaction waits for the ratio."""
    segments = [FakeSegment(base) for base in range(0, 110, 10)]
    log = snapshot(*segments, checkpoint=70, last_stable_offset=95)

    assert explain(view(log)).finding.rule is Rule.RATIO_BELOW


@pytest.mark.parametrize("checkpoint", [20, 30])
def test_expired_tombstones_wait_for_a_pass(checkpoint: int) -> None:
    """A tombstone that may go stays as long as nothing else makes the log eligible."""
    last = LAST._replace(end_offset=checkpoint, next_horizon_ms=NOW - 1)

    found = explain(view(snapshot(*four(), checkpoint=checkpoint), last_pass=last))

    assert decided(found) == (Rule.TOMBSTONES_WAIT, False)
    assert "siltstone clean" in found.finding.sentence


def test_tombstones_before_their_horizon_do_not_wait() -> None:
    """They have to stay."""
    last = LAST._replace(next_horizon_ms=NOW + 1)

    assert explain(view(CLEAN, last_pass=last)).finding.rule is Rule.ACTIVE_ONLY


def test_all_clean() -> None:
    """Clean up to the end, the active segment being empty."""
    log = snapshot(*four()[:3], FakeSegment(30, size=0), checkpoint=30)._replace(log_end_offset=30)

    assert decided(explain(view(log))) == (Rule.ALL_CLEAN, False)


def test_json_holds_the_decision_and_every_number() -> None:
    """A program gets codes and numbers, a person the sentence."""
    answer = explain(view(snapshot(*four(), checkpoint=20))).as_json()

    assert answer.pop("because").startswith("its dirty ratio is 0.3333")
    assert answer == {
        "topic": "orders",
        "partition": 0,
        "rule": "ratio-below",
        "eligible": False,
        "next_eligible_ms": None,
        "setting": {
            "name": "min.cleanable.dirty.ratio",
            "value": "0.5",
            "source": "STATIC",
            "set_as": "log.cleaner.min.cleanable.ratio",
            "where": "server.yaml line 4",
        },
        "log_start_offset": 0,
        "last_stable_offset": 40,
        "log_end_offset": 40,
        "first_dirty_offset": 20,
        "first_uncleanable_offset": 30,
        "clean_bytes": 200,
        "cleanable_bytes": 100,
        "uncleanable_bytes": 100,
        "dirty_ratio": 0.333333,
        "min_cleanable_dirty_ratio": 0.5,
        "max_lag_exceeded_ms": 0,
    }
