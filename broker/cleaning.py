"""The event loop's side of the cleaner: who else touches a log tells the cleaner so.

Whatever takes a lock of the cleaner's, or waits for one of its threads, goes to an io thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cleaner.cleaner_thread import CleanerRooms
from cleaner.figures import CleanerFigures
from cleaner.history import History
from cleaner.manager import CleanerManager
from cleaner.pool import CleanerPool
from cleaner.predictions import Predictions
from cleaner.settings import CleanerSettings
from cleaner.states import State
from cleaner.throttle import Throttle
from cleaner.worker import make_worker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from broker.io import IoThreads
    from broker.settings import BrokerSettings
    from config.topic import TopicConfig
    from storage.clock import Clock
    from storage.log import Log
    from storage.manager import LogManager
    from storage.topic_partition import TopicPartition


class Cleaning:
    """The cleaner as the broker sees it (loop only, but for `delete`).

    Started when the logs are open, stopped before they are closed.
    """

    def __init__(
        self, logs: LogManager, settings: BrokerSettings, io: IoThreads, clock: Clock
    ) -> None:
        self._logs = logs
        self._settings = settings
        self._io = io
        self.clock = clock
        self.manager = CleanerManager(logs.logs, clock, lambda: time.sleep(0))
        cleaner_settings = CleanerSettings.of(settings.server)
        throttle = Throttle(clock, cleaner_settings.bytes_per_second)
        self.pool = CleanerPool(
            CleanerRooms(
                manager=self.manager,
                clock=clock,
                figures=CleanerFigures(),
                history=History(),
                predictions=Predictions(),
                make_worker=lambda values: make_worker(values, clock, throttle),
            ),
            throttle,
            cleaner_settings,
        )
        settings.on_change(self._reconfigure)

    @property
    def logs(self) -> Mapping[TopicPartition, Log]:
        """Return every log, compacted or not."""
        return self._logs.logs

    @property
    def directories(self) -> list[str]:
        """Return the paths of the log directories."""
        return [str(directory.path) for directory in self._logs.directories]

    async def start(self) -> None:
        """Read what was noted at earlier times, and start the threads."""
        await self._io.run(self._load)
        self.pool.start()

    async def stop(self) -> bool:
        """End the threads and their passes; tell whether all ended."""
        return await self._io.run(self.pool.stop)

    def delete(self, *topic_partitions: TopicPartition) -> None:
        """Take partitions away from the cleaner and then from the disk. Blocks: io thread.

        Raises:
            KafkaStorageError: A folder is still there.
        """
        for each in topic_partitions:
            self.manager.states.abort_and_pause(each)
        try:
            self._logs.delete(*topic_partitions)
        finally:
            self.pool.forget(*topic_partitions)

    def is_busy(self, log: Log) -> bool:
        """Tell whether a cleaner thread works on a log, which then nobody else trims."""
        return self.manager.states.get(log.topic_partition) in {State.IN_PROGRESS, State.ABORTED}

    def reconfigured(self, log: Log, before: TopicConfig) -> None:
        """Tell the cleaner that a log obeys other settings now."""
        topic_partition = log.topic_partition
        if before.is_compacted and not log.config.is_compacted and self.is_busy(log):
            self._io.run(self.manager.states.abort, topic_partition)
        if self.manager.failure(topic_partition) is not None:
            self._io.run(self._take_back, topic_partition)

    def first_dirty_offset(self, log: Log) -> int:
        """Return where the cleaner has come to in a log, as its checkpoint says; 0 if nowhere."""
        return self.manager.snapshot(log).checkpoint or 0

    def request(self, topic_partition: TopicPartition, *, is_forced: bool) -> None:
        """Have a partition cleaned next. Blocks: io thread."""
        self.manager.request(topic_partition, is_forced=is_forced)
        self.pool.wake()

    def _take_back(self, topic_partition: TopicPartition) -> None:
        self.manager.take_back(topic_partition)
        self.pool.wake()

    def _load(self) -> None:
        directories = [directory.path for directory in self._logs.directories]
        self.manager.load(directories)
        history = self.pool.rooms.history
        history.load(directories)
        self.pool.rooms.figures.recall(history.recent(), self._logs.logs)

    async def _reconfigure(self) -> None:
        await self._io.run(self.pool.reconfigure, CleanerSettings.of(self._settings.server))
