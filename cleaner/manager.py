"""Chooses the log to clean next; knows how far each log is clean (``LogCleanerManager``).

The rules are in `cleaner.selection`, the states of partitions in `cleaner.states`.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from siltstone.cleaner import selection
from siltstone.cleaner.checkpoints import CleanerCheckpoints
from siltstone.cleaner.selection import CleanableLog, LogSnapshot
from siltstone.cleaner.set_aside import Failure, SetAside
from siltstone.cleaner.states import CleaningStates, State
from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

_BREATH = 16  # after so many logs, about 200 µs of Python, it pauses
_RANKING_KEPT = 10  # a ranking is used for ten times as long as it took to compute


@dataclass(frozen=True, slots=True, kw_only=True)
class GrabbedLog:
    """A log that a cleaner thread has taken, and the part of the log to clean."""

    log: Log
    cleanable: CleanableLog
    now_ms: int
    is_requested: bool = False
    is_forced: bool = False

    @property
    def topic_partition(self) -> TopicPartition:
        """Return the partition."""
        return self.log.topic_partition


class _Request(NamedTuple):
    """A request for a pass; two requests are compared by identity."""

    is_forced: bool


class LastSelection(NamedTuple):
    """The result of the last ranking of all logs, for the gauges."""

    now_ms: int
    max_dirty_ratio: float
    max_delay_ms: int


class CleanerManager:
    """States, checkpoints, failures and requests of all partitions.

    Any thread may call; the event loop only calls methods that take no lock. The lock is held while
    memory changes and while a checkpoint is written, never during other I/O. A thread that holds a
    ``Log.lock`` never takes it. A log in progress has one owner, the thread that took it.

    Checkpoints are written after the segments of a pass are in place. Failures and requests are in
    memory only: after a restart every log is tried again.
    """

    def __init__(
        self,
        logs: Mapping[TopicPartition, Log],
        clock: Clock,
        breathe: Callable[[], None] = lambda: None,
    ) -> None:
        self._logs = logs  # LogManager changes it: copy it in one step
        self._clock = clock
        self._breathe = breathe  # gives the GIL to the event loop
        self._lock = threads.Lock()
        self.states = CleaningStates(self._lock)
        self._set_aside = SetAside(clock)  # guarded by: _lock
        self._requests: dict[TopicPartition, _Request] = {}  # guarded by: _lock
        self.checkpoints = CleanerCheckpoints(())  # guarded by: _lock
        self._ranked: deque[Log] = deque()  # replaced as a whole; threads pop its head
        self._ranked_until = clock.monotonic()
        self.last_selection = LastSelection(clock.now_ms(), 0.0, 0)

    def load(self, directories: Iterable[Path]) -> None:
        """Read the checkpoints of the log directories, before the first selection. Blocks."""
        self.checkpoints = CleanerCheckpoints(directories)

    def failure(self, topic_partition: TopicPartition) -> Failure | None:
        """Return why the last pass failed, None if it did not fail. Takes no lock."""
        return self._set_aside.failures.get(topic_partition)

    def failures(self) -> dict[TopicPartition, Failure]:
        """Return every partition whose last pass failed. Takes no lock."""
        return dict(self._set_aside.failures)

    def is_requested(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a requested pass has not begun yet. Takes no lock."""
        return topic_partition in self._requests

    def snapshot(self, log: Log) -> LogSnapshot:
        """Return a log as selection sees it. Takes no lock.

        The segments are read before the last stable offset. The producer state knows every batch
        of a closed segment, so the offset accounts for the transactions of these batches.
        """
        segments = log.segments
        return LogSnapshot(
            topic_partition=log.topic_partition,
            config=log.config,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            last_stable_offset=log.last_stable_offset,
            segments=segments,
            checkpoint=self.checkpoints.get(log.directory.path, log.topic_partition),
        )

    def compacted_logs(self) -> Iterator[Log]:
        """Yield the logs that the cleaner is responsible for, as of now. Takes no lock."""
        for number, log in enumerate(list(self._logs.values())):
            if log.config.is_compacted and log.directory.failure is None:
                yield log
            if not number % _BREATH:
                self._breathe()

    def grab_filthiest(self) -> GrabbedLog | None:
        """Take the next log: a requested one first, then the one with the greatest dirty ratio.

        Returns None if no log needs a pass. A log whose state cannot be read is set aside.
        """
        now_ms = self._clock.now_ms()
        requested = self._grab_requested(now_ms)
        if requested is not None:
            return requested
        is_new = False
        while not is_new:
            is_new = not self._ranked or self._clock.monotonic() >= self._ranked_until
            if is_new:
                self._rank(now_ms)
            with suppress(IndexError):  # another thread may have taken the last one
                while self._ranked:
                    work = self._grab_ranked(self._ranked.popleft(), now_ms)
                    if work is not None:
                        return work
        return None

    def _rank(self, now_ms: int) -> None:
        """Rank all logs, and keep the order for a while: thousands of logs take long to rank.

        Each log is checked again before it is taken.
        """
        began = self._clock.monotonic()
        found = {each.topic_partition: (log, each) for log, each in self._find_candidates(now_ms)}
        cleanable = [each for _, each in found.values()]
        self.last_selection = LastSelection(
            now_ms,
            max((each.ratio for each in cleanable), default=0.0),
            max((each.delay_ms for each in cleanable), default=0),
        )
        self._correct(found.values())
        ranked = selection.rank(cleanable)
        self._ranked = deque(found[each.topic_partition][0] for each in ranked)
        now = self._clock.monotonic()
        self._ranked_until = now + _RANKING_KEPT * (now - began)

    def _grab_ranked(self, log: Log, now_ms: int) -> GrabbedLog | None:
        """Take a log if it is still eligible."""
        topic_partition = log.topic_partition
        if self._set_aside.holds(topic_partition) or not log.config.is_compacted:
            return None
        if self.states.get(topic_partition) is not State.NONE:
            return None
        cleanable = self._find_cleanable(log, self.snapshot(log), now_ms)
        if cleanable is None or not cleanable.is_eligible or not self._take(log, cleanable):
            return None
        return GrabbedLog(log=log, cleanable=cleanable, now_ms=now_ms)

    def take(self, log: Log) -> bool:
        """Take a log for work other than a pass, such as retention; false if it is not free."""
        with self._lock:
            return self._is_current(log) and self.states.take(log.topic_partition)

    def release(self, log: Log) -> None:
        """Give back a log that `take` or `grab_filthiest` took and that has not changed."""
        with self._lock:
            self.states.release(log.topic_partition)

    def done(self, work: GrabbedLog, end_offset: int) -> None:
        """End a pass: the log is clean up to ``end_offset``, exclusive. Blocks.

        If the pass was aborted at the last moment, the checkpoint stays as it was.

        Raises:
            OSError: The checkpoint could not be written; call `fail`.
        """
        topic_partition = work.topic_partition
        with self._lock:
            if self.states.get(topic_partition) is State.IN_PROGRESS:
                self.checkpoints.update(
                    work.log.directory.path, {topic_partition: end_offset}, self._logs
                )
            self._set_aside.forget(topic_partition)
            self.states.release(topic_partition)

    def fail(self, work: GrabbedLog, error: Exception) -> Failure:
        """End a failed pass: the log is set aside, and a request for another pass stays."""
        topic_partition = work.topic_partition
        with self._lock:
            if work.is_requested:
                self._requests.setdefault(topic_partition, _Request(work.is_forced))
            failure = self._set_aside.add(topic_partition, error)
            self.states.release(topic_partition)
        return failure

    def set_aside(self, log: Log, error: Exception) -> None:
        """Set aside a log whose state could not be read."""
        with self._lock:
            failure = self._set_aside.add(log.topic_partition, error)
        _logger.warning(
            "log cannot be looked at and is set aside partition=%s seconds=%d",
            log.topic_partition,
            (failure.retry_ms - failure.last_ms) // 1000,
            exc_info=error,
        )

    def request(self, topic_partition: TopicPartition, *, is_forced: bool = False) -> None:
        """Ask for a pass now, at any ratio; a forced one also ignores ``min.compaction.lag.ms``."""
        with self._lock:
            self._requests[topic_partition] = _Request(is_forced)
            self._set_aside.take_back(topic_partition)

    def take_back(self, topic_partition: TopicPartition) -> None:
        """Let a partition that was set aside be tried again: its settings have changed."""
        with self._lock:
            self._set_aside.take_back(topic_partition)

    def move_checkpoint(self, topic_partition: TopicPartition, source: Path, target: Path) -> None:
        """Move a partition's checkpoint to the directory of its log; the partition is paused.

        Blocks.

        Raises:
            OSError: The checkpoint could not be written; the next pass cleans the whole log again.
        """
        with self._lock:
            self.checkpoints.move(topic_partition, source, target)

    def forget(self, *topic_partitions: TopicPartition) -> None:
        """Forget partitions that were deleted; their logs must be gone from the manager. Blocks.

        Raises:
            OSError: The checkpoint file still has the partitions; the next write leaves them out.
        """
        with self._lock:
            for each in topic_partitions:
                self.states.forget(each)
                self._set_aside.forget(each)
                self._requests.pop(each, None)
            self.checkpoints.remove(topic_partitions)

    def _grab_requested(self, now_ms: int) -> GrabbedLog | None:
        """Take a requested log; requests for logs that cannot be cleaned are dropped.

        A request stays until its log is taken, so that a caller that waits for the pass always sees
        either the request or the pass. A request that arrives meanwhile is another one and stays.
        """
        for topic_partition, request in list(self._requests.items()):
            log = self._logs.get(topic_partition)
            if log is not None and self.states.get(topic_partition) is not State.NONE:
                continue  # it is tried later, when its state has ended
            if self._set_aside.holds(topic_partition):
                continue  # it is tried later, when its pause has ended
            cleanable = None
            if log is not None and log.config.is_compacted:
                snapshot = self.snapshot(log)
                if request.is_forced:
                    snapshot = selection.without_min_lag(snapshot)
                cleanable = self._find_cleanable(log, snapshot, now_ms)
            if log is None or cleanable is None or not cleanable.is_worth_a_pass:
                self._drop_request(topic_partition, request)
                continue
            self._correct([(log, cleanable)])
            if self._take(log, cleanable):  # otherwise another thread has the log for now
                self._drop_request(topic_partition, request)
                return GrabbedLog(
                    log=log,
                    cleanable=cleanable,
                    now_ms=now_ms,
                    is_requested=True,
                    is_forced=request.is_forced,
                )
        return None

    def _drop_request(self, topic_partition: TopicPartition, request: _Request) -> None:
        with self._lock:
            if self._requests.get(topic_partition) is request:
                del self._requests[topic_partition]

    def _find_candidates(self, now_ms: int) -> Iterator[tuple[Log, CleanableLog]]:
        """Yield the logs that have something to clean, or a checkpoint to correct."""
        for log in self.compacted_logs():
            topic_partition = log.topic_partition
            if self._set_aside.holds(topic_partition):
                continue
            if self.states.get(topic_partition) is not State.NONE:
                continue
            snapshot = self.snapshot(log)
            if not selection.is_worth_a_look(snapshot):
                continue
            cleanable = self._find_cleanable(log, snapshot, now_ms)
            if cleanable is not None and (
                cleanable.clean_bytes + cleanable.cleanable_bytes or cleanable.correction
            ):
                yield log, cleanable

    def _find_cleanable(self, log: Log, snapshot: LogSnapshot, now_ms: int) -> CleanableLog | None:
        try:
            return selection.find_cleanable(snapshot, now_ms)
        except Exception as error:  # noqa: BLE001  # one log must not stop the others
            self.set_aside(log, error)
            return None

    def _correct(self, found: Iterable[tuple[Log, CleanableLog]]) -> None:
        """Correct the checkpoints that lie outside of their logs (KAFKA-6266)."""
        by_directory: dict[Path, dict[TopicPartition, int]] = {}
        for log, each in found:
            if each.correction is not None:
                offsets = by_directory.setdefault(log.directory.path, {})
                offsets[log.topic_partition] = each.first_dirty_offset
        for directory, offsets in by_directory.items():
            try:
                with self._lock:
                    self.checkpoints.update(directory, offsets, self._logs)
            except OSError as error:
                _logger.warning(
                    "cleaner checkpoint cannot be corrected directory=%s error=%s", directory, error
                )

    def _take(self, log: Log, cleanable: CleanableLog) -> bool:
        """Take a log, unless the facts that led to the choice have changed."""
        topic_partition = log.topic_partition
        with self._lock:
            if not self._is_current(log) or not self.states.take(topic_partition):
                return False
        # A thread that changes the policy then checks the state; this thread sets the state and
        # then checks the policy. So one of the two threads sees the other's change.
        if log.config.is_compacted and self._starts_at(log, cleanable):
            return True
        self.release(log)
        return False

    def _starts_at(self, log: Log, cleanable: CleanableLog) -> bool:
        """Tell whether no other thread has cleaned the log since it was ranked."""
        checkpoint = self.checkpoints.get(log.directory.path, log.topic_partition)
        return checkpoint in {None, cleanable.first_dirty_offset}

    def _is_current(self, log: Log) -> bool:
        return self._logs.get(log.topic_partition) is log
