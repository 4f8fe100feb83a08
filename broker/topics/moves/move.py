"""The way of one partition to another log directory, step by step (Kafka: KIP-113).

Threads copy and wait for disks; the event loop does the steps that must happen in one moment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.cleaning import Cleaning
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import files
from siltstone.storage.directory.log_directory import remedy_for
from siltstone.storage.manager import LogManager
from siltstone.storage.moving.file_copy import SourceUnreadable
from siltstone.storage.moving.future_log import NEAR_BYTES, FutureLog
from siltstone.storage.topic_partition import TopicPartition

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveServices:
    """The objects that all moves share; ``copying`` runs work on a thread that only moves use."""

    logs: LogManager
    cleaning: Cleaning
    io: IoThreads
    copying: Callable[[Callable[[], None]], Awaitable[None]]


class LogDirMove:
    """One copy that will become the log (loop only); ``task`` is None while it waits for its turn.

    The cleaner and retention leave the partition alone from `open` to `close`.
    """

    def __init__(self, future: FutureLog, services: MoveServices) -> None:
        self.future = future
        self.task: asyncio.Task[None] | None = None
        self._services = services
        self._is_paused = False
        services.logs.futures.begin(future)

    @property
    def topic_partition(self) -> TopicPartition:
        """Return what moves."""
        return self.future.topic_partition

    async def open(self) -> None:
        """Keep the cleaner away, finish its interrupted work, and create the folder.

        Raises:
            KafkaStorageError: A disk does not take the writes.
        """
        future = self.future
        try:
            await self._services.io.run(self._open)
        except OSError as error:
            raise future.directory.fail(error) from error
        _logger.info(
            "partition moves partition=%s bytes=%d from=%s to=%s",
            future.topic_partition,
            future.log.size,
            future.source.path,
            future.path,
        )

    async def copy(self) -> None:
        """Copy up to the log's end, repeat while the log has grown too much, then take over.

        Raises:
            MoveCancelled: The move is no longer wanted.
            OSError: A disk failed.
            KafkaError: A directory failed, or the log is damaged.
        """
        future, logs = self.future, self._services.logs
        max_bytes = NEAR_BYTES
        while not future.has_taken_over:
            await self._services.copying(future.copy)
            logs.checkpoint(files.RECOVERY_POINTS, files.LOG_START_OFFSETS)
            await self._services.copying(self._settle)
            try:
                future.check()
                if future.take_over(max_bytes):
                    await self._make_durable()
            finally:
                future.log.release_flushes()
            max_bytes *= 2

    async def finish(self) -> None:
        """Move the cleaner's checkpoint, and remove the old folder."""
        future, services = self.future, self._services
        services.logs.futures.note_source(future)
        try:
            await services.io.run(
                services.cleaning.manager.move_checkpoint,
                future.topic_partition,
                future.source.path,
                future.directory.path,
            )
            if future.directory.failure is None:
                await services.io.run(services.logs.futures.remove_source, future)
        except OSError as error:
            _logger.warning(
                "what is left of a partition that was moved goes with the next start folder=%s "
                "error=%s",
                future.source.path,
                error,
            )

    async def give_up(self, error: Exception) -> None:
        """Log why, and remove the copy; the partition is still served from its old folder.

        On a full disk the copy's files are removed at once: other logs need the room.
        """
        future = self.future
        remedy = remedy_for(error) if isinstance(error, OSError) else None
        _logger.error(
            "move is given up and the partition stays where it is: %s, then ask for it again "
            "partition=%s from=%s to=%s error=%s",
            remedy or "check the disks",
            future.topic_partition,
            future.source.path,
            future.directory.path,
            error,
        )
        if isinstance(error, OSError) and not isinstance(error, SourceUnreadable) and not remedy:
            future.directory.fail(error)
        is_short = future.directory.refusal is None and future.directory.client_refusal is not None
        await self.remove(at_once=remedy is not None or is_short)

    async def remove(self, *, at_once: bool = False) -> None:
        """Remove the copy."""
        future, services = self.future, self._services
        try:
            await services.io.run(
                services.logs.futures.remove, future.path, future.topic_partition, at_once=at_once
            )
        except OSError as error:
            _logger.warning(
                "copy is left: delete the folder folder=%s error=%s", future.path, error
            )

    async def close(self) -> None:
        """Return the partition to the cleaner."""
        services = self._services
        if self._is_paused:
            await services.io.run(services.cleaning.manager.states.resume, self.topic_partition)
        services.logs.futures.end(self.future)
        services.logs.checkpoint(files.RECOVERY_POINTS, files.LOG_START_OFFSETS)

    def _open(self) -> None:
        """Do the work of `open` on a thread. Blocks."""
        future = self.future
        self._services.cleaning.manager.states.abort_and_pause(future.topic_partition)
        self._is_paused = True
        try:
            future.log.finish_swap()
        except OSError as error:
            raise KafkaStorageError(
                f"{future.topic_partition} cannot be moved: its log directory did not take what "
                f"the cleaner has made ({error}); check the disk"
            ) from error
        if files.exists(future.final_path, follow=False):
            raise KafkaStorageError(
                f"{future.topic_partition} cannot be moved: {future.final_path} exists; move it "
                "away"
            )
        future.create()

    def _settle(self) -> None:
        """Put all of the copy on the disk; on return, flushes of the log are held up. Blocks.

        Work that the background has queued runs first: it writes into the old folder, and the
        checkpoints of both directories.
        """
        self._services.logs.background.drain()
        self.future.log.hold_flushes()
        try:
            self.future.settle()
        except BaseException:
            self.future.log.release_flushes()
            raise

    async def _make_durable(self) -> None:
        """Make the new folder durable before its content counts as flushed, so a start finds it.

        All ``io`` threads may wait in flushes that this move holds up.
        """
        directory = self.future.directory
        try:
            await self._services.copying(partial(files.fsync_directory, directory.path))
        except OSError as error:
            directory.fail(error)
