"""The broker's regular work on its logs (Kafka: ``LogManager``'s scheduled tasks).

Each task decides on the event loop, in slices of about a millisecond, and gives the file work to
the background thread. ``flush.ms`` is scheduled from the setting itself: Kafka looks at it only
every ``log.flush.scheduler.interval.ms``, which by default is never.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator

from siltstone.broker.process.loop_share import LoopShare
from siltstone.config.server import ServerConfig
from siltstone.config.topic import FOREVER
from siltstone.protocol.errors import KafkaError
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log
from siltstone.storage.manager import LogManager

SLICE_SECONDS = 0.001
DELETION_SECONDS = 0.5
"""How often housekeeping checks whether a delayed deletion is due."""
DIRECTORY_SECONDS = 1.0
"""How often housekeeping checks whether a full disk has room, or a log directory is gone."""
SHORT_OF_ROOM_SECONDS = 5.0
"""How often retention runs while a disk is too full for produces: it may free room."""
LONGEST_FLUSH_PAUSE_MS = 1000
SHORTEST_PAUSE_MS = 20
"""The shortest interval: a setting of 0 must not keep the loop busy."""

_logger = logging.getLogger(__name__)

Step = Callable[[], Iterator[None]]
"""One run of a task: it yields wherever it may be interrupted."""


class Housekeeping:
    """The periodic tasks, all on the event loop; `run` is their parent.

    A task that fails is logged, counted in ``failures`` and tried again at its next time. Compacted
    topics are left to the cleaner, which trims them after each of its passes.
    """

    def __init__(
        self,
        logs: LogManager,
        server: Callable[[], ServerConfig],
        clock: Clock,
        is_busy: Callable[[Log], bool] = lambda _: False,
    ) -> None:
        self.failures = 0
        self._is_busy = is_busy  # a cleaner thread still uses the log, or the log is being moved
        self._logs = logs
        self._server = server
        self._clock = clock
        self._flush_pause_ms = LONGEST_FLUSH_PAUSE_MS
        self._hurry_at = 0.0
        self._flushing: set[Log] = set()  # the background thread removes flushed logs

    async def run(self) -> None:
        """Run the tasks until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, step, interval_ms, initial_ms in self._schedule():
                tasks.create_task(self._repeat(step, interval_ms, initial_ms), name=name)

    def _schedule(self) -> list[tuple[str, Step, Callable[[], float], float]]:
        """Return the tasks: name, work, a function for the interval, and first delay, in ms."""
        server = self._server
        initial_ms = server().log_initial_task_delay_ms
        # fmt: off
        return [
            ("retention", self.apply_retention,
             lambda: server().log_retention_check_interval_ms, initial_ms),
            ("recovery points", self.checkpoint_recovery_points,
             lambda: server().log_flush_offset_checkpoint_interval_ms, initial_ms),
            ("log start offsets", self.checkpoint_log_starts,
             lambda: server().log_flush_start_offset_checkpoint_interval_ms, initial_ms),
            ("high watermarks", self.checkpoint_high_watermarks,
             lambda: server().replica_high_watermark_checkpoint_interval_ms, initial_ms),
            ("producer expiry", self.remove_expired_producers,
             lambda: server().producer_id_expiration_check_interval_ms,
             server().producer_id_expiration_check_interval_ms),
            ("flush.ms", self.flush_old, lambda: self._flush_pause_ms, 0),
            ("deletions", self.run_deletions, lambda: DELETION_SECONDS * 1000, 0),
            ("directories", self.check_directories, lambda: DIRECTORY_SECONDS * 1000, 0),
        ]
        # fmt: on

    async def _repeat(
        self, step: Step, interval_ms: Callable[[], float], initial_ms: float
    ) -> None:
        await asyncio.sleep(initial_ms / 1000)
        while True:
            try:
                await self.run_in_slices(step())
            except Exception:
                self.failures += 1
                _logger.exception("housekeeping task failed and goes on task=%s", step.__name__)
            await asyncio.sleep(max(interval_ms(), SHORTEST_PAUSE_MS) / 1000)

    async def catch_up(self) -> None:
        """Do all work that is due now, instead of at the next regular time."""
        for step in (self.apply_retention, self.remove_expired_producers, self.flush_old):
            await self.run_in_slices(step())
        await self.run_in_slices(self.run_deletions())  # also those that other tasks began

    async def run_in_slices(self, work: Iterator[None]) -> None:
        """Do the work, and let others be served every `SLICE_SECONDS`."""
        share = LoopShare(SLICE_SECONDS)
        for _ in work:
            await share.rest()

    def apply_retention(self) -> Iterator[None]:
        """Delete records beyond the limits of age or size, log by log."""
        for log in self._logs.all_logs():
            if not log.config.is_compacted and not self._is_busy(log):
                now_ms = self._clock.now_ms()
                try:
                    yield from log.read_times(now_ms)
                    log.apply_retention(now_ms)
                except KafkaError:
                    _logger.debug(
                        "retention skips an unreadable log partition=%s", log.topic_partition
                    )
            yield

    def flush_old(self) -> Iterator[None]:
        """Flush the logs whose last flush was ``flush.ms`` ago; compute when to check again."""
        now_ms = self._clock.now_ms()
        pause_ms = LONGEST_FLUSH_PAUSE_MS
        for log in self._logs.all_logs():
            flush_ms = log.config.flush_ms
            if flush_ms < FOREVER:
                pause_ms = min(pause_ms, flush_ms)
                if (
                    log.log_end_offset > log.recovery_point
                    and now_ms - log.last_flush_ms >= flush_ms
                ):
                    self._flush(log)
            yield
        self._flush_pause_ms = pause_ms

    def _flush(self, log: Log) -> None:
        if log in self._flushing or log.directory.failure is not None:
            return
        self._flushing.add(log)

        def flush() -> None:
            try:
                log.flush()
            finally:
                self._flushing.discard(log)

        self._logs.background.submit("flush.ms", flush)

    def remove_expired_producers(self) -> Iterator[None]:
        """Forget the producers that have been silent for too long."""
        for log in self._logs.all_logs():
            log.remove_expired_producers(self._clock.now_ms())
            yield

    def checkpoint_recovery_points(self) -> Iterator[None]:
        """Write the recovery points, in the background."""
        self._logs.checkpoint(files.RECOVERY_POINTS)
        yield

    def checkpoint_log_starts(self) -> Iterator[None]:
        """Write the log start offsets, in the background."""
        self._logs.checkpoint(files.LOG_START_OFFSETS)
        yield

    def checkpoint_high_watermarks(self) -> Iterator[None]:
        """Write the high watermarks, in the background."""
        self._logs.checkpoint(files.HIGH_WATERMARKS)
        yield

    def check_directories(self) -> Iterator[None]:
        """Check the log directories, in the background; if one is full, apply retention.

        Kafka waits for log.retention.check.interval.ms, five minutes by default, and refuses
        clients meanwhile.
        """
        self._logs.check_directories(self._server().log_dirs_reserve_bytes)
        yield
        now = self._clock.monotonic()
        if now >= self._hurry_at and any(
            each.failure is None and each.client_refusal is not None
            for each in self._logs.directories
        ):
            self._hurry_at = now + SHORT_OF_ROOM_SECONDS
            yield from self.apply_retention()

    def run_deletions(self) -> Iterator[None]:
        """Unlink the files and folders that are due."""
        self._logs.deletions.run_due()
        yield
