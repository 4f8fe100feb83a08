"""Why a partition is or is not cleaned next, by the cleaner's own rules.

This module decides nothing: `cleaner.selection` decides, and this module names the rule that
decided. If several rules keep a log back, it names the one without which the log would be eligible.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from siltstone.cleaner import selection
from siltstone.cleaner.explaining.explanation import (
    Explanation,
    Finding,
    OpenTransaction,
    Rule,
    SettingUsed,
    moment,
)
from siltstone.cleaner.explaining.last_pass import Pass
from siltstone.cleaner.selection import CleanableLog, Limit, LogSnapshot
from siltstone.cleaner.set_aside import Failure
from siltstone.cleaner.states import State
from siltstone.config.describe import Place

_NEVER: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """All that an explanation needs, as of one moment.

    ``find_place`` returns where a setting of the topic comes from. ``cleaner_off`` is the setting
    that switches the cleaner off. ``offline`` is the failure of the log directory.
    """

    snapshot: LogSnapshot
    now_ms: int
    find_place: Callable[[str], Place]
    state: State = State.NONE
    failure: Failure | None = None
    is_requested: bool = False
    last_pass: Pass | None = None
    transaction: OpenTransaction | None = None
    cleaner_off: SettingUsed | None = None
    offline: str | None = None
    progress: str | None = None

    def setting(self, name: str, value: object) -> SettingUsed:
        """Return a topic setting with its place."""
        return SettingUsed(name, _text(value), self.find_place(name))


def explain(view: PartitionView) -> Explanation:
    """Return the rule that decides about a partition. May read a few bytes of its segments."""
    snapshot = view.snapshot
    cleanable = None
    next_ms = None
    if snapshot.config.is_compacted:
        cleanable = selection.find_cleanable(snapshot, view.now_ms)
        next_ms = selection.find_next_eligible(snapshot, view.now_ms)
    finding = _find_obstacle(view) or _find_selection(view, cleanable)
    if finding.rule in _WITHOUT_END:
        next_ms = None
    elif view.failure is not None and (next_ms is not None or view.is_requested):
        next_ms = max(next_ms or 0, view.failure.retry_ms)
    is_due = next_ms is not None and next_ms <= view.now_ms
    return Explanation(
        topic_partition=snapshot.topic_partition,
        finding=finding,
        is_eligible=finding.rule is Rule.REQUESTED
        or (is_due and finding.rule is not Rule.IN_PROGRESS),
        cleanable=cleanable,
        log_start_offset=snapshot.log_start_offset,
        last_stable_offset=snapshot.last_stable_offset,
        log_end_offset=snapshot.log_end_offset,
        next_eligible_ms=next_ms,
    )


_WITHOUT_END = {Rule.NOT_COMPACTED, Rule.CLEANER_OFF, Rule.OFFLINE, Rule.PAUSED, Rule.ABORTING}


def _find_obstacle(view: PartitionView) -> Finding | None:
    """Return the rule that decides before selection looks at the log; None without such a rule."""
    config = view.snapshot.config
    if view.offline is not None:
        return Finding(Rule.OFFLINE, f"its log directory is offline: {view.offline}")
    if not config.is_compacted:
        policy = view.setting("cleanup.policy", ",".join(config.cleanup_policy))
        return Finding(
            Rule.NOT_COMPACTED, f"{policy} does not have compact: no key is looked at", policy
        )
    if view.cleaner_off is not None:
        return Finding(
            Rule.CLEANER_OFF, f"the cleaner is switched off by {view.cleaner_off}", view.cleaner_off
        )
    return _find_state(view) or _find_failure(view)


def _find_state(view: PartitionView) -> Finding | None:
    if view.state is State.PAUSED:
        return Finding(Rule.PAUSED, "cleaning is paused while the partition's files are changed")
    if view.state is State.ABORTED:
        return Finding(Rule.ABORTING, "a pass is being ended: other work needs the partition")
    if view.state is State.IN_PROGRESS:
        return Finding(Rule.IN_PROGRESS, f"a cleaner works on it now{_after(view.progress)}")
    return None


def _find_failure(view: PartitionView) -> Finding | None:
    failure = view.failure
    if failure is not None and failure.retry_ms > view.now_ms:
        return Finding(
            Rule.FAILED,
            f"the last pass failed ({failure.cause}: {failure.reason}; attempts so far: "
            f"{failure.attempts}); it is tried again at {moment(failure.retry_ms)}, or at once "
            "when its settings change or siltstone clean asks",
        )
    if view.is_requested:
        return Finding(
            Rule.REQUESTED, "a pass was asked for; it begins when a cleaner thread is free"
        )
    return None


def _find_selection(view: PartitionView, cleanable: CleanableLog | None) -> Finding:
    """Return which rule of the selection decides."""
    if cleanable is None:
        raise ValueError("a log that is not compacted is not selected")
    more = _find_rest_of_small_map(view, cleanable)
    if more is not None:
        return more
    if cleanable.must_clean:
        lag = view.setting("max.compaction.lag.ms", view.snapshot.config.max_compaction_lag_ms)
        return Finding(
            Rule.MAX_LAG,
            f"its oldest dirty batch is {cleanable.delay_ms} ms older than {lag} allows",
            lag,
        )
    if cleanable.is_eligible:
        ratio = view.setting("min.cleanable.dirty.ratio", cleanable.threshold)
        return Finding(
            Rule.RATIO_ABOVE, f"its dirty ratio is {cleanable.ratio:.4g}, more than {ratio}", ratio
        )
    held = _find_limit(view, cleanable)
    return held or _with_tombstones(view, _find_lack(view, cleanable))


def _find_rest_of_small_map(view: PartitionView, cleanable: CleanableLog) -> Finding | None:
    last = view.last_pass
    if last is None or not last.map_full or last.end_offset != cleanable.first_dirty_offset:
        return None
    if not cleanable.cleanable_bytes:
        return None
    if cleanable.is_eligible:
        outlook = "the next pass goes on there"
    else:
        ratio = view.setting("min.cleanable.dirty.ratio", cleanable.threshold)
        outlook = f"the dirty ratio of the rest is {cleanable.ratio:.4g}, not more than {ratio}"
    return Finding(
        Rule.MAP_TOO_SMALL,
        f"the last pass ended at offset {last.end_offset} because the offset map was full with "
        f"{last.map_keys} keys; {outlook}; log.cleaner.dedupe.buffer.size makes it larger",
    )


def _find_limit(view: PartitionView, cleanable: CleanableLog) -> Finding | None:
    """Return the limit without which the log would be eligible, or would have cleanable bytes."""
    snapshot = view.snapshot

    def decides(without: LogSnapshot) -> bool:
        other = selection.find_cleanable(without, view.now_ms)
        return other.is_eligible or bool(other.cleanable_bytes and not cleanable.cleanable_bytes)

    if cleanable.limit is Limit.OPEN_TRANSACTION:
        decided = snapshot._replace(last_stable_offset=snapshot.log_end_offset)
        return _transaction(view) if decides(decided) else None
    if cleanable.limit is Limit.YOUNG_SEGMENT:
        return _young(view, cleanable) if decides(selection.without_min_lag(snapshot)) else None
    return None


def _transaction(view: PartitionView) -> Finding:
    offset = view.snapshot.last_stable_offset
    open_since = view.transaction
    whose = f"of producer {open_since.producer_id} " if open_since else ""
    return Finding(
        Rule.OPEN_TRANSACTION,
        f"a transaction {whose}is open since offset {offset}: nothing from there on is cleaned "
        "until it is committed or aborted",
        transaction=open_since,
    )


def _young(view: PartitionView, cleanable: CleanableLog) -> Finding:
    segment = cleanable.young_segment
    if segment is None:
        raise ValueError("no young segment is the limit")
    lag_ms = view.snapshot.config.min_compaction_lag_ms
    lag = view.setting("min.compaction.lag.ms", lag_ms)
    newest = segment.largest_timestamp
    dated = ", which is in the future" if newest > view.now_ms else ""
    return Finding(
        Rule.YOUNG_SEGMENT,
        f"segment {segment.base_offset} holds a record of {moment(newest)}{dated}; with {lag} it "
        f"and all after it stay as they are until {moment(newest + lag_ms)}",
        lag,
        segment.base_offset,
    )


def _find_lack(view: PartitionView, cleanable: CleanableLog) -> Finding:
    """Return what the log lacks to be eligible if no limit keeps it back."""
    snapshot = view.snapshot
    active = snapshot.segments[-1]
    if cleanable.cleanable_bytes:
        ratio = view.setting("min.cleanable.dirty.ratio", cleanable.threshold)
        return Finding(
            Rule.RATIO_BELOW,
            f"its dirty ratio is {cleanable.ratio:.4g}, not more than {ratio}{_lacking(cleanable)}",
            ratio,
        )
    if not cleanable.clean_bytes and not cleanable.uncleanable_bytes:
        return Finding(Rule.EMPTY, "there is nothing in it")
    if cleanable.first_dirty_offset < snapshot.log_end_offset and active.size:
        return _active(view)
    return Finding(Rule.ALL_CLEAN, f"it is clean up to its end, {snapshot.log_end_offset}")


def _active(view: PartitionView) -> Finding:
    config = view.snapshot.config
    active = view.snapshot.segments[-1]
    by_lag = config.max_compaction_lag_ms < config.segment_ms
    roll_ms = min(config.max_compaction_lag_ms, config.segment_ms)
    time = view.setting("max.compaction.lag.ms" if by_lag else "segment.ms", roll_ms)
    size = view.setting("segment.bytes", config.segment_bytes)
    first = active.first_batch_timestamp
    due = f"dated after {moment(first + roll_ms)} ({time})" if first > 0 else f"by {time}"
    return Finding(
        Rule.ACTIVE_ONLY,
        f"all that is dirty is in the active segment {active.base_offset}, which is never cleaned; "
        f"it is closed by the next record {due} or beyond {size}",
        time,
        active.base_offset,
    )


def _with_tombstones(view: PartitionView, finding: Finding) -> Finding:
    """Add a sentence if tombstones only wait for a pass."""
    last = view.last_pass
    if last is None or last.next_horizon_ms is None or last.next_horizon_ms > view.now_ms:
        return finding
    return finding._replace(
        rule=Rule.TOMBSTONES_WAIT,
        sentence="tombstones or transaction markers may go since "
        f"{moment(last.next_horizon_ms)}, but only a pass removes them, and {finding.sentence}; "
        "siltstone clean asks for one",
    )


def _lacking(cleanable: CleanableLog) -> str:
    """Return in words how many more bytes the log needs to exceed the dirty ratio."""
    threshold = cleanable.threshold
    if threshold >= _NEVER:
        return ", and no ratio can be"
    total = cleanable.clean_bytes + cleanable.cleanable_bytes
    lacking = (threshold * total - cleanable.cleanable_bytes) / (1 - threshold)
    return f"; {int(lacking) + 1} more bytes in closed segments exceed it"


def _after(progress: str | None) -> str:
    return "" if progress is None else f": {progress}"


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
