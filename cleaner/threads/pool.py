"""The cleaner threads: started, stopped, resized, replaced when one dies (Kafka: LogCleaner)."""

import logging

from siltstone.cleaner.errors import CleaningAborted
from siltstone.cleaner.one_pass.log_to_clean import LogToClean
from siltstone.cleaner.one_pass.stats import Prediction
from siltstone.cleaner.selection import CleanableLog
from siltstone.cleaner.settings import CleanerSettings
from siltstone.cleaner.threads.cleaner_thread import CleanerServices, CleanerThread
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.storage import threads
from siltstone.storage.log.log import Log
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)

STOP_SECONDS = 5.0
"""A pass checks every few milliseconds whether it is wanted; a thread that takes longer hangs."""
RESTART_SECONDS = 1.0
"""The pause before a dead thread is replaced: its successor may die at once, too."""


class CleanerPool:
    """The threads ``cleaner-N``, by the present settings.

    Any thread may call; `start` and `stop` block. A thread that dies of an unexpected error is
    counted and replaced after a pause (Kafka does not replace it). Unlike in Kafka, threads go on
    with their pass when settings change: a new rate counts at once, the rest from the next pass on.
    """

    def __init__(
        self, services: CleanerServices, throttle: Throttle, settings: CleanerSettings
    ) -> None:
        self.services = services
        self.throttle = throttle
        self.died = 0  # how many threads have died since the start
        self._settings = settings
        self._lock = threads.Lock()
        self._threads: dict[int, CleanerThread] = {}  # guarded by: _lock; read by anyone
        self._is_running = False  # guarded by: _lock
        self._stopping = threads.Event()
        self._dry_runs = threads.Lock()  # one dry run at a time: each needs the memory of a map

    @property
    def settings(self) -> CleanerSettings:
        """Return the present settings."""
        return self._settings

    @property
    def threads(self) -> list[CleanerThread]:
        """Return the threads that should run."""
        return list(self._threads.values())

    @property
    def dead_threads(self) -> list[str]:
        """Return the names of the threads that should run but do not."""
        return [each.name for each in self.threads if not each.is_alive]

    def start(self) -> None:
        """Start the threads that the settings ask for."""
        with self._lock:
            self._is_running = True
            self._resize()

    def stop(self, timeout: float = STOP_SECONDS) -> bool:
        """End the threads and their passes; tell whether all ended. Blocks; idempotent.

        A pass that is stopped leaves the log as it was, except for groups that were swapped.
        """
        self._stopping.set()
        with self._lock:
            self._is_running = False
            threads = self.threads
            self._threads.clear()
        for each in threads:
            each.stop()
        ended = [each.join(timeout) for each in threads]
        return all(ended)

    def reconfigure(self, settings: CleanerSettings) -> None:
        """Use other settings from now on."""
        with self._lock:
            if settings == self._settings:
                return
            self._settings = settings
            self.throttle.set_rate(settings.bytes_per_second)
            if self._is_running:
                self._resize()
        _logger.info(
            "cleaner settings changed threads=%d map_bytes=%d bytes_per_second=%g",
            settings.threads,
            settings.dedupe_buffer_bytes,
            settings.bytes_per_second,
        )
        self.wake()

    def wake(self) -> None:
        """Wake idle threads to look for work."""
        for each in self.threads:
            each.wake()

    def dry_run(self, log: Log, cleanable: CleanableLog) -> Prediction | None:
        """Return the predicted result of a pass; None if the log is taken. Blocks for as long.

        The dry run only reads, with a map of its own and with the same throttle. Meanwhile the log
        has a state, so that no pass begins.
        """
        manager = self.services.manager
        with self._dry_runs:
            cleaner = self.services.make_cleaner(self._settings)
            if not manager.take(log):
                return None
            try:
                prediction = cleaner.dry_run(
                    LogToClean.of(log, cleanable.first_dirty_offset, cleanable.pass_limit),
                    lambda: self._still_wanted(log.topic_partition),
                )
            finally:
                manager.release(log)
                cleaner.close()
        self.services.predictions.keep(prediction)
        return prediction

    def forget(self, *topic_partitions: TopicPartition) -> None:
        """Forget partitions that were deleted. Blocks."""
        for each in topic_partitions:
            self.services.figures.forget(each)
            self.services.predictions.forget(each)
        try:
            self.services.manager.forget(*topic_partitions)
        except OSError as error:
            _logger.warning("cleaner checkpoint still has deleted partitions error=%s", error)

    def _still_wanted(self, topic_partition: TopicPartition) -> None:
        if self._stopping.is_set():
            raise CleaningAborted("the broker stops")
        self.services.manager.states.check(topic_partition)

    def _resize(self) -> None:
        """Start or stop threads until their number is as set; the caller holds the lock."""
        for number in [each for each in self._threads if each >= self._settings.threads]:
            self._threads.pop(number).stop()
        for number in range(self._settings.threads):
            if number in self._threads:
                self._threads[number].settings = self._settings
            else:
                self._spawn(number)

    def _spawn(self, number: int) -> None:
        thread = CleanerThread(f"cleaner-{number}", self.services, self._settings, self._replace)
        self._threads[number] = thread
        thread.start()

    def _replace(self, dead: CleanerThread, _error: BaseException) -> None:
        """Replace a thread that ends because of an error; the thread itself calls this."""
        self.died += 1
        self._stopping.wait(RESTART_SECONDS)
        with self._lock:
            for number, each in self._threads.items():
                if each is dead and self._is_running:
                    self._spawn(number)
                    return
