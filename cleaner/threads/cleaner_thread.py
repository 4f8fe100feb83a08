"""One cleaner thread: it takes the filthiest log, cleans it, applies retention, and sleeps.

Kafka: ``LogCleaner.CleanerThread``. A pass computes in kernels without the GIL, so the event loop
keeps running.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from siltstone.cleaner.errors import CleaningAborted, CorruptSegment
from siltstone.cleaner.explaining.last_pass import Predictions
from siltstone.cleaner.history import events
from siltstone.cleaner.history.figures import CleanerFigures
from siltstone.cleaner.history.history import History
from siltstone.cleaner.manager import CleanerManager, GrabbedLog
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import PassResult, Progress
from siltstone.cleaner.settings import CleanerSettings
from siltstone.config.topic import FOREVER
from siltstone.protocol.errors import KafkaError
from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log
from siltstone.storage.log.retention import find_doomed

if TYPE_CHECKING:
    from siltstone.cleaner.one_pass.cleaner import Cleaner  # loaded by the first pass

EXPECTED = (OSError, ValueError, CorruptSegment)
"""Errors of a pass that are no bug: they are logged without a traceback."""

NICE = 10
"""The niceness of cleaner threads, so that serving comes first."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerServices:
    """The objects that all cleaner threads share; ``make_cleaner`` creates a thread's cleaner."""

    manager: CleanerManager
    clock: Clock
    figures: CleanerFigures
    history: History
    predictions: Predictions
    make_cleaner: "Callable[[CleanerSettings], Cleaner]"


class CleanerThread:
    """The loop of one thread, and the log that it works on.

    `step` is one round of the loop. Any thread may replace ``settings``; the next pass uses them.
    """

    def __init__(
        self,
        name: str,
        services: CleanerServices,
        settings: CleanerSettings,
        died: Callable[["CleanerThread", BaseException], None],
    ) -> None:
        self.name = name
        self.settings = settings
        self.working_on: GrabbedLog | None = None  # written by the thread
        self._services = services
        self._died = died
        self._cleaner: Cleaner | None = None  # only the thread uses it
        self._cleaner_settings = settings
        self._next_trim = services.clock.monotonic()
        self._stopping = threads.Event()
        self._wake = threads.Event()
        self._thread = threads.new_thread(name, self._run)

    @property
    def is_alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._thread.is_alive()

    @property
    def native_id(self) -> int:
        """Return the system's id of the thread, 0 before the thread runs."""
        return self._thread.native_id or 0

    @property
    def progress(self) -> Progress | None:
        """Return the progress of the running pass, None without a pass."""
        cleaner = self._cleaner
        return cleaner.progress if cleaner is not None and self.working_on is not None else None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread, if it sleeps, to look for work."""
        self._wake.set()

    def stop(self) -> None:
        """End the loop, and the running pass at its next check; `join` waits for both."""
        self._stopping.set()
        self._wake.set()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; tell whether it ended in time. Blocks."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def step(self) -> bool:
        """Clean one log if one needs it, then trim; tell whether a log needed a pass. Blocks."""
        work = self._services.manager.grab_filthiest()
        if work is not None:
            self._clean(work)
        self._trim_all(is_idle=work is None)
        return work is not None

    def _run(self) -> None:
        threads.be_nice(NICE)
        try:
            while not self._stopping.is_set():
                if not self.step():
                    self._wake.wait(self.settings.backoff_seconds)
                self._wake.clear()
        except BaseException as error:
            _logger.exception("cleaner thread died thread=%s", self.name)
            self._died(self, error)
        finally:
            if self._cleaner is not None:
                self._cleaner.close()

    def _clean(self, work: GrabbedLog) -> None:
        """Run a pass over a log that was taken, and always give the log back."""
        services = self._services
        self.working_on = work
        began = services.clock.monotonic()
        self._record(work, events.begin_event(self._span(work)))
        try:
            result = self._pass(work)
            services.manager.done(work, result.end_offset)
        except CleaningAborted as reason:
            services.manager.release(work.log)
            services.figures.note_abort()
            self._record(work, events.abort_event(self._span(work), str(reason)))
            _logger.info("cleaning aborted partition=%s reason=%s", work.topic_partition, reason)
        except Exception as error:  # noqa: BLE001  # one log must not stop the others
            self._set_aside(work, error)
        except BaseException:  # the thread dies; another must be able to take the log
            services.manager.release(work.log)
            raise
        else:
            self._finish(work, result, services.clock.monotonic() - began)
        finally:
            self.working_on = None

    def _pass(self, work: GrabbedLog) -> PassResult:
        log, cleanable = work.log, work.cleanable
        if log.has_unfinished_swap:
            log.finish_swap()
        result = self._ready_cleaner().clean(
            LogToClean.of(log, cleanable.first_dirty_offset, cleanable.pass_limit),
            log.replace_segments,
            lambda: self._still_wanted(work),
        )
        if cleanable.cleanable_bytes and result.end_offset <= cleanable.first_dirty_offset:
            raise ValueError(
                f"a pass over {log.topic_partition} came no further than offset "
                f"{result.end_offset}: the offset map is too small; raise "
                "log.cleaner.dedupe.buffer.size"
            )
        return result

    def _still_wanted(self, work: GrabbedLog) -> None:
        if self._stopping.is_set():
            raise CleaningAborted("the cleaner thread stops")
        self._services.manager.states.check(work.topic_partition)

    def _ready_cleaner(self) -> "Cleaner":
        """Return the thread's cleaner; create a new one if the settings have changed."""
        settings = self.settings
        if self._cleaner is None or self._cleaner_settings != settings:
            if self._cleaner is not None:
                self._cleaner.close()
            elif threads.is_current(self._thread):
                threads.ask_for_slice(threads.LONG_NS)  # for this thread only
            self._cleaner = self._services.make_cleaner(settings)
            self._cleaner_settings = settings
        return self._cleaner

    def _finish(self, work: GrabbedLog, result: PassResult, seconds: float) -> None:
        services = self._services
        event = events.pass_event(
            self._span(work),
            result,
            seconds=seconds,
            is_requested=work.is_requested,
            prediction=services.predictions.take(result),
        )
        self._record(work, event)
        # The figures change last: a reader that sees them also finds the event.
        services.figures.note_pass(self.name, result, seconds, event)
        _logger.info(
            "cleaned partition=%s thread=%s from=%d to=%d bytes_in=%d bytes_out=%d "
            "records_in=%d records_out=%d map_percent=%.1f seconds=%.3f",
            work.topic_partition,
            self.name,
            result.first_dirty_offset,
            result.end_offset,
            result.bytes_read,
            result.bytes_written,
            result.records_read,
            result.records_written,
            100 * result.map_utilization,
            seconds,
        )
        if result.invalid_records:
            _logger.warning(
                "records without a key were dropped partition=%s count=%d: they were written "
                "before the topic was compacted",
                work.topic_partition,
                result.invalid_records,
            )
        retention_ms = work.log.config.delete_retention_ms
        if retention_ms > FOREVER - services.clock.now_ms():
            _logger.warning(
                "delete.retention.ms reaches beyond the last time, so that the next pass removes "
                "tombstones, as in Apache Kafka: set a smaller one partition=%s "
                "delete_retention_ms=%d",
                work.topic_partition,
                retention_ms,
            )
        self._trim(work.log)

    def _set_aside(self, work: GrabbedLog, error: Exception) -> None:
        services = self._services
        failure = services.manager.fail(work, error)
        services.figures.note_failure(error)
        self._record(work, events.failure_event(self._span(work), error))
        _logger.warning(
            "cleaning failed and is tried again partition=%s cause=%s attempts=%d seconds=%d "
            "reason=%s",
            work.topic_partition,
            failure.cause,
            failure.attempts,
            (failure.retry_ms - failure.last_ms) // 1000,
            failure.reason,
            exc_info=None if isinstance(error, EXPECTED) else error,
        )

    def _record(self, work: GrabbedLog, event: dict[str, object]) -> None:
        self._services.history.append(work.log.directory.path, event)

    def _span(self, work: GrabbedLog) -> events.Span:
        now_ms = self._services.clock.now_ms()
        return events.Span(work.topic_partition, work.log.topic_id, work.now_ms, now_ms)

    def _trim_all(self, *, is_idle: bool) -> None:
        """Apply retention to every compacted log; while there is work, at most once per backoff."""
        now = self._services.clock.monotonic()
        if not is_idle and now < self._next_trim:
            return
        self._next_trim = now + self.settings.backoff_seconds
        for log in self._services.manager.compacted_logs():
            if self._stopping.is_set():
                return
            self._trim(log)

    def _trim(self, log: Log) -> None:
        """Delete the segments that retention selects, unless the log is taken."""
        manager = self._services.manager
        now_ms = self._services.clock.now_ms()
        try:
            doomed = find_doomed(
                log.segments, log.config, now_ms=now_ms, log_start_offset=log.log_start_offset
            )
        except Exception as error:  # noqa: BLE001  # one log must not stop the others
            manager.set_aside(log, error)
            return
        if not doomed or not manager.take(log):
            return
        try:
            log.apply_retention(now_ms)
        except KafkaError:
            _logger.debug("retention skips an unreadable log partition=%s", log.topic_partition)
        finally:
            manager.release(log)
