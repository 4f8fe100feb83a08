"""The partitions that move between log directories (Kafka: ``ReplicaAlterLogDirsManager``).

The manager handles requests, and decides when a move runs and what ends it; the steps of a move are
in `broker.topics.moves.move`.
"""

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.tasks import Tasks, to_its_end
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.broker.topics.moves.move import LogDirMove, MoveServices
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.cleaner.threads.throttle import Throttle
from siltstone.config.topic import FOREVER
from siltstone.protocol import errors
from siltstone.protocol.errors import KafkaError
from siltstone.storage import threads
from siltstone.storage.clock import Clock
from siltstone.storage.directory.found_folders import FoundFolder
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import find_topic_id
from siltstone.storage.manager import LogManager
from siltstone.storage.moving.future_log import FutureLog, MoveCancelled, has_room_for_name
from siltstone.storage.randomness import random_id
from siltstone.storage.topic_partition import FolderState, TopicPartition, folder_name

_NICE = 10

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class MoveCounts:
    """The outcome of moves; ``failed`` holds the partitions whose last move was given up."""

    done: int = 0
    failed: set[TopicPartition] = field(default_factory=set)


class LogDirMoves:
    """All moves (loop only). As many copy at a time as there are threads; the others wait.

    A partition has one move at most. Only operations that end a move wait for its end: the deletion
    of its topic, a move to another target, and the stop.
    """

    def __init__(
        self,
        logs: LogManager,
        topics: TopicRegistry,
        cleaning: Cleaning,
        settings: BrokerSettings,
        io: IoThreads,
        clock: Clock,
    ) -> None:
        self.counts = MoveCounts()
        self.throttle = Throttle(clock)
        self._logs = logs
        self._topics = topics
        self._settings = settings
        self._io = io
        self._services = MoveServices(logs=logs, cleaning=cleaning, io=io, copying=self._run)
        self._targets = LogDirTargets(logs, topics)
        self._moves: dict[TopicPartition, LogDirMove] = {}
        self._waiting: list[LogDirMove] = []
        self._copying = 0
        self._altering = asyncio.Lock()
        self._threads: threads.Pool | None = None
        self._tasks = Tasks()
        self._is_closing = False
        topics.before_removal(self.cancel)
        settings.on_change(self._obey)

    def __len__(self) -> int:
        return len(self._moves)

    @property
    def max_lag(self) -> int:
        """Return how many offsets the slowest copy still lacks."""
        return max((move.future.lag for move in self._moves.values()), default=0)

    async def alter(self, topic_partition: TopicPartition, path: str) -> None:
        """Begin to move a partition, unless it is in the log directory or on its way there.

        A move of the partition to another directory is cancelled first. This returns when the copy
        has its folder; the move is begun even if the client disconnects.

        Raises:
            KafkaError: `LogDirTargets` refuses the move, or the copy's folder cannot be created.
        """
        await to_its_end(self._spawn(self._alter(topic_partition, path)), KafkaError)

    async def cancel(self, *topic_partitions: TopicPartition) -> None:
        """Cancel the moves of partitions, and remove the copies."""
        for each in topic_partitions:
            move = self._moves.get(each)
            if move is not None:
                await self._cancel(move)
            self.counts.failed.discard(each)

    async def resume(self) -> None:
        """Resume the copies that the last stop interrupted; called before the cleaner starts."""
        await self._obey()
        for found in self._logs.futures.found:
            try:
                await self._resume(found)
            except KafkaError as error:
                _logger.error("move cannot go on folder=%s: %s", found.path, error)  # noqa: TRY400

    async def close(self) -> None:
        """Stop all moves; the next start resumes them."""
        self._is_closing = True
        self._waiting.clear()
        for move in self._moves.values():
            move.future.cancel()
        await self._tasks.finish()
        if self._threads is not None:
            self._threads.shutdown()

    async def _alter(self, topic_partition: TopicPartition, path: str) -> None:
        async with self._altering:
            directory = self._targets.find_directory(topic_partition, path)
            self._targets.find_log(topic_partition, directory)
            move = self._moves.get(topic_partition)
            if move is not None and move.future.directory is not directory:
                await self._cancel(move)
            served = self._targets.find_log(topic_partition, directory)
            if served.directory is directory or topic_partition in self._moves:
                return
            self._targets.check_all_online(topic_partition)
            name = folder_name(topic_partition, FolderState.FUTURE, random_id())
            await self._begin(served, directory, directory.path / name)

    async def _resume(self, found: FoundFolder) -> None:
        topic_partition = found.topic_partition
        served = self._topics.logs.get(topic_partition)
        if served is None:
            _logger.error(
                "copy of a partition is left alone, the partition itself is not served: rename the "
                "folder to %s if that is all there is of it, else delete it folder=%s",
                topic_partition,
                found.path,
            )
            return
        topic_id = await self._io.run(find_topic_id, found.path)
        if (
            topic_id != served.topic_id
            or served.directory is found.directory
            or topic_partition in self._moves
        ):
            _logger.warning("copy of a partition is stale and goes folder=%s", found.path)
            try:
                await self._io.run(self._logs.futures.remove, found.path, topic_partition)
            except OSError as error:
                _logger.warning(
                    "copy is left: delete the folder folder=%s error=%s", found.path, error
                )
            return
        await self._begin(served, found.directory, found.path)

    async def _begin(self, served: Log, directory: LogDirectory, path: Path) -> None:
        """Create the folder of a copy, and let the copy wait for its turn."""
        move = LogDirMove(FutureLog(served, directory, path, self.throttle.add), self._services)
        self._moves[move.topic_partition] = move
        self.counts.failed.discard(move.topic_partition)
        opening = move.task = self._spawn(self._open(move))
        await opening

    async def _open(self, move: LogDirMove) -> None:
        try:
            await move.open()
        except KafkaError:
            await move.remove()
            await self._end(move)
            raise
        if move.future.is_cancelled:
            await self._undo(move)
        elif not self._is_closing:
            self._waiting.append(move)
            self._start_next()

    def _start_next(self) -> None:
        while self._waiting and self._copying < self._thread_count and not self._is_closing:
            move = min(self._waiting, key=lambda each: each.topic_partition)
            self._waiting.remove(move)
            self._copying += 1
            move.task = self._spawn(self._work(move))

    async def _work(self, move: LogDirMove) -> None:
        """Copy a partition until the copy replaces the log, is not wanted, or has failed."""
        future = move.future
        try:
            await move.copy()
        except MoveCancelled:
            await self._undo(move)
        except Exception as error:
            if not isinstance(error, OSError | KafkaError):
                _logger.exception("move failed partition=%s", move.topic_partition)
            self.counts.failed.add(move.topic_partition)
            await move.give_up(error)
            await self._end(move)
        else:
            await move.finish()
            await self._end(move)
            self.counts.done += 1
            _logger.info(
                "partition moved partition=%s bytes=%d from=%s to=%s",
                future.topic_partition,
                future.log.size,
                future.source.path,
                future.directory.path,
            )
        finally:
            self._copying -= 1
            self._start_next()

    async def _cancel(self, move: LogDirMove) -> None:
        """End a move, and wait until it has ended."""
        move.future.cancel()
        if move in self._waiting:
            self._waiting.remove(move)
            move.task = self._spawn(self._undo(move))
        while self._moves.get(move.topic_partition) is move and move.task and not move.task.done():
            await asyncio.wait({move.task})

    async def _undo(self, move: LogDirMove) -> None:
        """Remove the copy; at a stop it stays, so that the next start can resume."""
        if not self._is_closing:
            await move.remove()
            _logger.info("move cancelled partition=%s", move.topic_partition)
        await self._end(move)

    async def _end(self, move: LogDirMove) -> None:
        await move.close()
        del self._moves[move.topic_partition]

    @property
    def _thread_count(self) -> int:
        count = self._settings.server.num_replica_alter_log_dirs_threads
        return count or len(self._logs.directories)

    async def _run(self, work: Callable[[], None]) -> None:
        """Run work on a thread that only moves use, so that no client waits for it."""
        if self._threads is None:
            self._threads = threads.new_pool(self._thread_count, "ReplicaAlterLogDirsThread", _NICE)
        await asyncio.wrap_future(self._threads.submit(work))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._tasks.start(work, "moves")

    async def _obey(self) -> None:
        rate = self._settings.server.replica_alter_log_dirs_io_max_bytes_per_second
        self.throttle.set_rate(math.inf if rate == FOREVER else max(rate, 1))


class LogDirTargets:
    """Finds the log directories and partitions that AlterReplicaLogDirs names (loop only).

    The checks are made in Kafka's order.
    """

    def __init__(self, logs: LogManager, topics: TopicRegistry) -> None:
        self._logs = logs
        self._topics = topics

    def find_directory(self, topic_partition: TopicPartition, path: str) -> LogDirectory:
        """Return the log directory of a path.

        Raises:
            InvalidTopic: The name of the topic leaves no room for that of a copy's folder.
            LogDirNotFound: No entry of log.dirs has this absolute path.
            KafkaStorageError: The directory takes no writes.
        """
        if not has_room_for_name(topic_partition):
            raise errors.InvalidTopic(
                f"the name of {topic_partition} is too long for the folder of a copy; it cannot "
                "be moved"
            )
        for directory in self._logs.directories:
            if str(directory.path) == path:
                if directory.client_refusal is not None:
                    raise directory.refuse()
                return directory
        known = ", ".join(str(each.path) for each in self._logs.directories)
        raise errors.LogDirNotFound(f"{path!r} is not in log.dirs, which are {known}")

    def find_log(self, topic_partition: TopicPartition, directory: LogDirectory) -> Log:
        """Return the log of a partition.

        If the partition does not exist, remember the directory: as in Kafka, the partition is
        placed there if it is created later.

        Raises:
            UnknownTopicOrPartition: There is no such partition.
            ReplicaNotAvailable: The partition is not served here.
            KafkaStorageError: Its log directory failed.
        """
        topic = self._topics.topics.get(topic_partition.topic)
        if topic is None or not 0 <= topic_partition.partition < topic.partitions:
            self._logs.prefer(topic_partition, directory)
            raise errors.UnknownTopicOrPartition(f"there is no partition {topic_partition}")
        log = topic.logs[topic_partition.partition]
        if log is None:
            raise errors.ReplicaNotAvailable(f"{topic_partition} is not served here")
        if log.directory.failure is not None:
            raise log.directory.refuse()
        return log

    def check_all_online(self, topic_partition: TopicPartition) -> None:
        """Refuse a new copy while an offline directory may hold a copy already, as Kafka does.

        Raises:
            KafkaStorageError: A directory is offline.
        """
        offline = [str(each.path) for each in self._logs.directories if each.failure is not None]
        if offline:
            raise errors.KafkaStorageError(
                f"{topic_partition} cannot be moved while log directories are offline: "
                f"{', '.join(offline)}; check the disks and restart"
            )
