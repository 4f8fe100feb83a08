"""Chooses the log to clean, and a part of it: pure functions of a snapshot (docs/compaction.md).

     log start      first dirty      first uncleanable    active base    log end
         |--- clean -----|--- cleanable ----|-- uncleanable --|-- active --|

Kafka: LogToClean and LogCleanerManager.cleanableOffsets. Each number is kept together with the rule
that led to it, so that `cleaner.explaining.explain` can name the rule.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from siltstone.config.topic import TopicConfig
from siltstone.storage.segment.readable import ReadableSegment
from siltstone.storage.topic_partition import TopicPartition

_END_OF_TIME = 253_402_300_799_000  # the end of the year 9999; anything later counts as never


class LogSnapshot(NamedTuple):
    """A partition as it was at one moment; ``segments`` end with the active one.

    ``checkpoint`` is the offset in ``cleaner-offset-checkpoint``, or None.
    """

    topic_partition: TopicPartition
    config: TopicConfig
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    segments: Sequence[ReadableSegment]
    checkpoint: int | None


class Limit(Enum):
    """The limit that keeps the cleaner from cleaning higher offsets."""

    ACTIVE_SEGMENT = "active segment"
    OPEN_TRANSACTION = "open transaction"
    YOUNG_SEGMENT = "min.compaction.lag.ms"


class Correction(Enum):
    """The reason why the checkpoint is not used and is corrected."""

    BELOW_LOG_START = "the checkpoint is below the log start offset"
    ABOVE_LOG_END = "the checkpoint is above the log end offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanableLog:
    """The parts of a log, in offsets and bytes.

    ``first_uncleanable_offset`` is exclusive and is the base of a segment; it may be below
    ``first_dirty_offset`` when nothing is cleanable. A segment that contains the first dirty offset
    counts as a whole, both in ``cleanable_bytes`` and in ``clean_bytes``. ``uncleanable_bytes`` has
    the other segments and the active one. ``delay_ms`` is the time by which
    ``max.compaction.lag.ms`` is exceeded, 0 if it is not. ``young_segment`` is the first segment
    with records that are too young, if that is the ``limit``.
    """

    topic_partition: TopicPartition
    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    uncleanable_bytes: int
    threshold: float
    delay_ms: int
    limit: Limit
    correction: Correction | None
    young_segment: ReadableSegment | None

    @property
    def ratio(self) -> float:
        """Return the dirty ratio, 0.0 if there are neither clean nor cleanable bytes."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def must_clean(self) -> bool:
        """Tell whether ``max.compaction.lag.ms`` forces a pass."""
        return self.delay_ms > 0 and self.cleanable_bytes > 0

    @property
    def is_eligible(self) -> bool:
        """Tell whether a cleaner thread may take the log by itself."""
        return self.must_clean or self.ratio > self.threshold

    @property
    def is_worth_a_pass(self) -> bool:
        """Tell whether a pass may change anything: new bytes, or old tombstones."""
        return self.cleanable_bytes > 0 or (
            self.clean_bytes > 0 and self.limit is Limit.ACTIVE_SEGMENT
        )

    @property
    def pass_limit(self) -> int:
        """Return where a pass must end, exclusive: at the first dirty offset with nothing to do."""
        return max(self.first_dirty_offset, self.first_uncleanable_offset)


def find_cleanable(snapshot: LogSnapshot, now_ms: int) -> CleanableLog:
    """Return the parts of a log. May read a few bytes of segments that were not read before."""
    segments = snapshot.segments
    config = snapshot.config
    active_base = segments[-1].base_offset
    first_dirty, correction = _first_dirty(snapshot)
    bases = [segment.base_offset for segment in segments]
    dirty = segments[max(0, bisect_right(bases, first_dirty) - 1) : -1]

    bound, limit = active_base, Limit.ACTIVE_SEGMENT
    if snapshot.last_stable_offset < bound:
        bound, limit = snapshot.last_stable_offset, Limit.OPEN_TRANSACTION
    young = None
    if config.min_compaction_lag_ms > 0:
        young = _find_young(dirty, now_ms - config.min_compaction_lag_ms)
        if young is not None and young.base_offset < bound:
            bound, limit = young.base_offset, Limit.YOUNG_SEGMENT
    # The bound is rounded down to the base of the segment that holds it.
    first_above = bisect_right(bases, max(first_dirty, bound)) - 1
    first_uncleanable = bases[max(0, first_above)]
    upto = bisect_left(bases, first_uncleanable)
    cleanable = segments[max(0, bisect_right(bases, first_dirty) - 1) : upto]
    clean_bytes = sum(each.size for each in segments[: bisect_left(bases, first_dirty)])
    cleanable_bytes = sum(each.size for each in cleanable)
    return CleanableLog(
        topic_partition=snapshot.topic_partition,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=first_uncleanable,
        clean_bytes=clean_bytes,
        cleanable_bytes=cleanable_bytes,
        uncleanable_bytes=sum(each.size for each in segments[upto:]),
        threshold=config.min_cleanable_dirty_ratio,
        delay_ms=_delay(dirty, now_ms - config.max_compaction_lag_ms),
        limit=limit,
        correction=correction,
        young_segment=young if limit is Limit.YOUNG_SEGMENT else None,
    )


def without_min_lag(snapshot: LogSnapshot) -> LogSnapshot:
    """Return the snapshot as if ``min.compaction.lag.ms`` were 0, for a forced pass."""
    return snapshot._replace(config=replace(snapshot.config, min_compaction_lag_ms=0))


def rank(candidates: Iterable[CleanableLog]) -> list[CleanableLog]:
    """Return the eligible logs in the order of cleaning: the greatest ratio first.

    Logs of equal ratio keep their order. As in Kafka, a log with a greater ratio comes before a log
    that ``max.compaction.lag.ms`` forces to be cleaned.
    """
    eligible = [each for each in candidates if each.is_eligible]
    return sorted(eligible, key=lambda each: each.ratio, reverse=True)


def is_worth_a_look(snapshot: LogSnapshot) -> bool:
    """Tell cheaply whether there may be something to clean or a checkpoint to correct.

    Where there are thousands of partitions, most have only one segment, the active one.
    """
    return len(snapshot.segments) > 1 or snapshot.checkpoint is not None


def find_next_eligible(snapshot: LogSnapshot, now_ms: int) -> int | None:
    """Return when the log becomes eligible if only time passes, in ms since the epoch.

    Returns ``now_ms`` if the log is eligible already; None if it needs more records, the end of a
    transaction or a request to become so. As time passes the cleanable part and the delay only
    grow, so bisection finds the moment.
    """
    if find_cleanable(snapshot, now_ms).is_eligible:
        return now_ms
    config = snapshot.config
    first_dirty, _ = _first_dirty(snapshot)
    bases = [segment.base_offset for segment in snapshot.segments]
    dirty = snapshot.segments[max(0, bisect_right(bases, first_dirty) - 1) : -1]
    moments = set()
    if config.min_compaction_lag_ms > 0:
        moments = {each.largest_timestamp + config.min_compaction_lag_ms for each in dirty}
    forced = _earliest(dirty) if config.max_compaction_lag_ms < _END_OF_TIME else None
    if forced is not None:
        moments.add(forced + config.max_compaction_lag_ms + 1)
    later = sorted(moment for moment in moments if now_ms < moment < _END_OF_TIME)
    # The first moment at which the log is eligible: for bisection True sorts above False.
    index = bisect_left(
        later, True, key=lambda moment: find_cleanable(snapshot, moment).is_eligible
    )
    return later[index] if index < len(later) else None


def _first_dirty(snapshot: LogSnapshot) -> tuple[int, Correction | None]:
    """Return where cleaning begins; if that is not at the checkpoint, also the reason."""
    start = snapshot.log_start_offset
    checkpoint = snapshot.checkpoint
    if checkpoint is None:
        return start, None
    if checkpoint < start:  # normal if retention or DeleteRecords moved the start past it
        return start, Correction.BELOW_LOG_START
    if checkpoint > snapshot.log_end_offset:  # the log was damaged: clean all of it again
        return start, Correction.ABOVE_LOG_END
    return checkpoint, None


def _find_young(segments: Sequence[ReadableSegment], limit_ms: int) -> ReadableSegment | None:
    """Return the first segment with a record younger than the limit, which is exclusive."""
    return next((each for each in segments if each.largest_timestamp > limit_ms), None)


def _earliest(segments: Sequence[ReadableSegment]) -> int | None:
    stamps = (each.first_batch_timestamp for each in segments)
    return min((stamp for stamp in stamps if stamp > 0), default=None)


def _delay(segments: Sequence[ReadableSegment], limit_ms: int) -> int:
    """Return by how much the earliest dirty batch is older than the limit, 0 if it is not."""
    if limit_ms <= 0:  # the default lag: no time is before it, and no header is read
        return 0
    earliest = _earliest(segments)
    return 0 if earliest is None else max(0, limit_ms - earliest)
