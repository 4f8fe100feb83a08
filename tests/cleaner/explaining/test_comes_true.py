"""Sentences of `explain` about real logs, one by one, and that the cleaner then does just so.

A partition that is said to be eligible is cleaned in the next round, any other is not; one that is
said to become eligible at some time is cleaned in the round at that time and in none before.
"""

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from siltstone.cleaner.explaining.explain import PartitionView, explain
from siltstone.cleaner.explaining.explanation import Explanation, OpenTransaction, Rule
from siltstone.config.describe import find_place
from siltstone.config.layers import Layers
from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.storage.log.log import Log
from siltstone.storage.producers.checks import Origin
from tests.support.appending import append_unchecked
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.cleaner import CleanerHome
from tests.support.logs import validated

MINUTE = 60_000
HOUR = 60 * MINUTE
NEVER = TopicConfig().max_compaction_lag_ms
LAYERS = Layers()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CleanerHome]:
    """Logs with a cleaner thread whose rounds are made by hand."""
    home = CleanerHome(tmp_path)
    yield home
    home.close()


def look(home: CleanerHome, log: Log) -> Explanation:
    """Explain a log as the broker does."""
    manager = home.manager
    open_ones = itertools.starmap(OpenTransaction, log.producers.open_transactions.items())
    return explain(
        PartitionView(
            snapshot=manager.snapshot(log),
            now_ms=home.clock.now_ms(),
            find_place=partial(find_place, LAYERS, {}),
            state=manager.states.get(log.topic_partition),
            failure=manager.failure(log.topic_partition),
            is_requested=manager.is_requested(log.topic_partition),
            last_pass=home.services.figures.last.get(log.topic_partition),
            transaction=next(open_ones, None),
            offline=log.directory.failure,
        )
    )


def not_compacted(home: CleanerHome) -> Log:
    """A topic that is only deleted."""
    log = home.create(cleanup_policy=("delete",), retention_ms=-1)
    home.fill(log)
    return log


def empty(home: CleanerHome) -> Log:
    """A new topic."""
    return home.create()


def active_segment_only(home: CleanerHome) -> Log:
    """Nothing has been closed yet."""
    log = home.create()
    append_unchecked(log, [(b"a", b"1"), (b"a", b"2")])
    return log


def all_clean(home: CleanerHome) -> Log:
    """A pass has been made, and nothing was written since."""
    log = home.create()
    home.fill(log)
    assert home.thread.step()
    return log


def dirty(home: CleanerHome) -> Log:
    """Three closed segments that nobody has cleaned."""
    log = home.create()
    home.fill(log)
    return log


def too_clean(home: CleanerHome, max_compaction_lag_ms: int = NEVER) -> Log:
    """One segment more than the pass has cleaned, which is less than half of it."""
    log = home.create(max_compaction_lag_ms=max_compaction_lag_ms)
    home.fill(log, rows=200)
    assert home.thread.step()
    home.fill(log, 1, rows=5)
    return log


def too_clean_for_now(home: CleanerHome) -> Log:
    """The same, with a time that the records may be dirty."""
    return too_clean(home, max_compaction_lag_ms=HOUR)


def overdue(home: CleanerHome) -> Log:
    """The same, and the time has passed."""
    log = too_clean(home, max_compaction_lag_ms=HOUR)
    home.clock.advance(HOUR)
    return log


def young(home: CleanerHome) -> Log:
    """The newest record of the first segment is a minute old, and has to be an hour old."""
    log = home.create(min_compaction_lag_ms=HOUR)
    home.fill(log, timestamp=TIMESTAMP)
    return log


def transaction_open(home: CleanerHome) -> Log:
    """The first record that is not clean belongs to a transaction that nobody ends."""
    log = home.create()
    batch = make_batch([(b"a", b"1")], flags=TRANSACTIONAL, producer_id=9, producer_epoch=0)
    log.append(validated(batch), Origin.REPLICATION)
    log.roll()
    home.fill(log)
    return log


def paused(home: CleanerHome) -> Log:
    """Somebody works on the files."""
    log = dirty(home)
    home.manager.states.abort_and_pause(log.topic_partition)
    return log


def in_work(home: CleanerHome) -> Log:
    """Another thread has taken it."""
    log = dirty(home)
    assert home.manager.take(log)
    return log


def damaged(home: CleanerHome) -> Log:
    """A pass met a damaged batch."""
    log = dirty(home)
    path = log.segments[1].log_path
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(data)
    assert home.thread.step()
    return log


def asked_for(home: CleanerHome) -> Log:
    """Somebody wants a pass of what is too clean for one."""
    log = too_clean(home)
    home.manager.request(log.topic_partition)
    return log


def map_full(home: CleanerHome) -> Log:
    """The last pass ended where the map was full."""
    log = home.create(min_cleanable_dirty_ratio=0.01)
    home.thread.settings = home.settings_with(dedupe_buffer_bytes=24 * 25)
    for number in range(40):
        append_unchecked(log, [(b"%d-%d" % (number, row), b"v") for row in range(10)])
    log.roll()
    home.settle()
    assert home.thread.step()
    return log


def tombstones_expired(home: CleanerHome) -> Log:
    """A pass gave a tombstone its horizon, which is reached, and nothing makes a pass due."""
    log = home.create(delete_retention_ms=HOUR)
    append_unchecked(log, [(b"a", None), (b"b", b"1")])
    log.roll()
    home.settle()
    assert home.thread.step()
    home.clock.advance(2 * HOUR)
    return log


def offline(home: CleanerHome) -> Log:
    """The disk has failed for good."""
    log = dirty(home)
    log.directory.fail(OSError(5, "Input/output error"), for_good=True)
    return log


SITUATIONS: list[tuple[Callable[[CleanerHome], Log], Rule, bool, bool]] = [
    # rule, whether it may be cleaned now, whether time alone will have it cleaned
    (not_compacted, Rule.NOT_COMPACTED, False, False),
    (empty, Rule.EMPTY, False, False),
    (active_segment_only, Rule.ACTIVE_ONLY, False, False),
    (all_clean, Rule.ALL_CLEAN, False, False),
    (dirty, Rule.RATIO_ABOVE, True, False),
    (too_clean, Rule.RATIO_BELOW, False, False),
    (too_clean_for_now, Rule.RATIO_BELOW, False, True),
    (overdue, Rule.MAX_LAG, True, False),
    (young, Rule.YOUNG_SEGMENT, False, True),
    (transaction_open, Rule.OPEN_TRANSACTION, False, False),
    (paused, Rule.PAUSED, False, False),
    (in_work, Rule.IN_PROGRESS, False, False),
    (damaged, Rule.FAILED, False, True),
    (asked_for, Rule.REQUESTED, True, False),
    (map_full, Rule.MAP_TOO_SMALL, True, False),
    (tombstones_expired, Rule.TOMBSTONES_WAIT, False, False),
    (offline, Rule.OFFLINE, False, False),
]


@pytest.mark.parametrize(
    ("situation", "rule", "is_eligible", "comes_by_time"),
    [pytest.param(*each, id=each[0].__name__.replace("_", "-")) for each in SITUATIONS],
)
def test_reason_is_true(
    home: CleanerHome,
    situation: Callable[[CleanerHome], Log],
    rule: Rule,
    is_eligible: bool,
    comes_by_time: bool,
) -> None:
    """The rule is the one that decides, and the cleaner does what follows from it."""
    log = situation(home)
    now_ms = home.clock.now_ms()

    found = look(home, log)

    assert found.finding.rule is rule
    assert found.is_eligible is is_eligible
    later = found.next_eligible_ms
    assert (later is not None and later > now_ms) is comes_by_time
    if comes_by_time:
        assert later is not None
        home.clock.advance(later - 1 - now_ms)
        assert home.thread.step() is False
        home.clock.advance(1)
        assert look(home, log).is_eligible
        assert home.thread.step() is True
    else:
        assert home.thread.step() is is_eligible
