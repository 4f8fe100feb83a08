"""The event loop's side of the cleaner: it tells the cleaner of deletions, moves and settings.

Work that takes a lock of the cleaner, or waits for a cleaner thread, runs on an io thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from siltstone.cleaner.states import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from siltstone.broker.process.first_use import OnFirstUse
    from siltstone.broker.process.io import IoThreads
    from siltstone.broker.topics.settings.in_force import BrokerSettings
    from siltstone.cleaner.manager import CleanerManager
    from siltstone.cleaner.threads.pool import CleanerPool
    from siltstone.config.topic import TopicConfig
    from siltstone.storage.clock import Clock
    from siltstone.storage.log.log import Log
    from siltstone.storage.manager import LogManager
    from siltstone.storage.topic_partition import TopicPartition

_MAX_TOLD = 100


class Cleaning:
    """The cleaner as the broker sees it (loop only, except for `delete`).

    It starts when clients are served, and stops before the logs are closed. ``pool`` has the
    threads, their figures and the history; nothing is cleaned before `start` builds the pool.
    """

    def __init__(
        self,
        logs: LogManager,
        manager: CleanerManager,
        pool: OnFirstUse[CleanerPool],
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
    ) -> None:
        self.clock = clock
        self.manager = manager
        self.pool = pool
        self._logs = logs
        self._settings = settings
        self._io = io
        settings.on_change(self._reconfigure)

    @property
    def dead_threads(self) -> list[str]:
        """Return the names of threads that should run and do not."""
        pool = self.pool.built
        return [] if pool is None else pool.dead_threads

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Return every log, compacted or not."""
        return self._logs.logs

    @property
    def directories(self) -> list[str]:
        """Return the paths of the log directories."""
        return [str(directory.path) for directory in self._logs.directories]

    def remarks(self) -> list[str]:
        """Return a sentence for each partition whose last pass failed, for at most a hundred."""
        failures = sorted(self.manager.failures().items())
        if not failures:
            return []
        from siltstone.cleaner.explaining.explanation import moment  # noqa: PLC0415  # only now

        told = [
            f"partition {name} is not compacted: the last pass failed ({each.cause}: "
            f"{each.reason}); it is tried again at {moment(each.retry_ms)}; siltstone explain "
            f"{name} says more"
            for name, each in failures[:_MAX_TOLD]
        ]
        if len(failures) > _MAX_TOLD:
            told.append(f"and {len(failures) - _MAX_TOLD} more; siltstone explain --failed")
        return told

    async def load(self) -> None:
        """Read how far the cleaner has come; called before clients are served."""
        paths = [directory.path for directory in self._logs.directories]
        await self._io.run(self.manager.load, paths)

    async def start(self) -> None:
        """Start the threads; called when every log is open."""
        await self._io.run(self._recall)
        self.pool.get().start()

    async def stop(self) -> bool:
        """End the threads and their passes; tell whether all ended."""
        pool = self.pool.built
        return True if pool is None else await self._io.run(pool.stop)

    def delete(self, *topic_partitions: TopicPartition) -> None:
        """Take partitions away from the cleaner, then delete their folders. Blocks: io thread.

        Raises:
            KafkaStorageError: A folder still exists.
        """
        for each in topic_partitions:
            self.manager.states.abort_and_pause(each)
        try:
            self._logs.delete(*topic_partitions)
        finally:
            self.pool.get().forget(*topic_partitions)

    def is_busy(self, log: Log) -> bool:
        """Tell whether a cleaner thread works on a log, so that housekeeping must not trim it."""
        return self.manager.states.get(log.topic_partition) in {State.IN_PROGRESS, State.ABORTED}

    def is_reserved(self, log: Log) -> bool:
        """Tell whether a log is being cleaned, or paused for a move: nothing else trims it then."""
        return self.manager.states.get(log.topic_partition) is not State.NONE

    def reconfigured(self, log: Log, before: TopicConfig) -> None:
        """Tell the cleaner that a log's settings have changed."""
        topic_partition = log.topic_partition
        if before.is_compacted and not log.config.is_compacted and self.is_busy(log):
            self._io.run(self.manager.states.abort, topic_partition)
        if self.manager.failure(topic_partition) is not None:
            self._io.run(self._take_back, topic_partition)

    def first_dirty_offset(self, log: Log) -> int:
        """Return the offset that the cleaner has reached in a log, as its checkpoint says, or 0."""
        return self.manager.snapshot(log).checkpoint or 0

    def request(self, topic_partition: TopicPartition, *, is_forced: bool) -> None:
        """Ask the cleaner to clean a partition next. Blocks: io thread."""
        self.manager.request(topic_partition, is_forced=is_forced)
        self.pool.get().wake()

    def _take_back(self, topic_partition: TopicPartition) -> None:
        self.manager.take_back(topic_partition)
        self.pool.get().wake()

    def _recall(self) -> None:
        """Read the results of the logs' last passes from the history. Blocks."""
        services = self.pool.get().services
        services.figures.recall(services.history.recent(), self._logs.logs)

    async def _reconfigure(self) -> None:
        await self._io.run(self._obey)

    def _obey(self) -> None:
        pool = self.pool.get()
        pool.reconfigure(pool.settings.of(self._settings.server))
