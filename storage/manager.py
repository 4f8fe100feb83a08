"""All logs of the broker, and the directories in which they lie (Kafka: ``LogManager``).

A start locks the directories, reads their identities, deletes the clean-shutdown marks and opens
every partition. A stop closes the logs, writes the checkpoints, then the marks, and unlocks: in
this order the marks are true (docs/log.md).
"""

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from siltstone.config.server import ServerConfig
from siltstone.config.topic import TopicConfig
from siltstone.protocol.errors import KafkaStorageError
from siltstone.storage import checkpointed, files, threads
from siltstone.storage.clock import Clock
from siltstone.storage.directory import clean_shutdown, opening
from siltstone.storage.directory.background import Background
from siltstone.storage.directory.deletion import DelayedDeletions
from siltstone.storage.directory.found_folders import find_folders
from siltstone.storage.directory.joint_work import JointWork
from siltstone.storage.directory.log_checkpoints import LogCheckpoints
from siltstone.storage.directory.log_directory import LogDirectory, LogDirError
from siltstone.storage.directory.placement import Placement
from siltstone.storage.log import pin_links
from siltstone.storage.log.dropped_segments import RETRY_MS
from siltstone.storage.log.frozen import NameGate
from siltstone.storage.log.loading import SetAside, load_folders, set_aside
from siltstone.storage.log.log import Log
from siltstone.storage.log.recovery import (
    LoadedPartition,
    PartitionFolder,
    create_partition,
    never,
)
from siltstone.storage.log.services import LogServices
from siltstone.storage.moving.future_logs import FutureLogs
from siltstone.storage.producers.entry import ProducerCount
from siltstone.storage.randomness import random_id
from siltstone.storage.segment.open_file import OpenFiles
from siltstone.storage.topic_partition import FolderState, TopicPartition, folder_name

_logger = logging.getLogger(__name__)

_NEVER: Final = (1 << 63) - 1


class _Doomed(NamedTuple):
    """A deleted partition and its folder, which changes its name from ``old`` to ``new``."""

    topic_partition: TopicPartition
    directory: LogDirectory
    old: Path
    new: Path
    names: NameGate


def _doom(
    topic_partition: TopicPartition, directory: LogDirectory, path: Path, names: NameGate
) -> _Doomed:
    new = path.with_name(folder_name(topic_partition, FolderState.DELETE, random_id()))
    return _Doomed(topic_partition, directory, path, new, names)


class LogManager:
    """Owner of every `Log`, of the directories and their files, and of the background thread.

    The event loop reads ``logs``; `create` and `delete` run on io threads, so iterate over
    `all_logs`. Unlike Kafka, a broker does not start while one of its directories is missing or
    faulty: it could not tell a lost partition from a new one, and would reuse its offsets.
    """

    def __init__(
        self,
        directories: Sequence[Path],
        server: ServerConfig,
        config_for: Callable[[str], TopicConfig],
        clock: Clock,
    ) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.set_aside: dict[TopicPartition, SetAside] = {}  # the start found them damaged
        self.directories: tuple[LogDirectory, ...] = ()  # constant after load
        self.cluster_id = ""  # likewise
        self.background = Background()
        self.deletions = DelayedDeletions(clock, self.background)
        self.services = LogServices(
            clock=clock,
            background=self.background,
            deletions=self.deletions,
            producers=ProducerCount(server.producer_states_max_count),
        )
        self._open_files = OpenFiles()
        self._paths = tuple(directories)
        self._server = server
        self._config_for = config_for
        self._clock = clock
        self._placement = Placement()
        self.futures = FutureLogs(self._placement, self._schedule_removal)
        self._checkpoints: dict[Path, LogCheckpoints] = {}  # constant after load
        self._settling: dict[Path, JointWork] = {}  # likewise
        # The directories in which a power failure may bring back a folder that was removed.
        self._leaving: dict[TopicPartition, LogDirectory] = {}
        self._renaming = threads.Lock()
        self._unrenamed: dict[TopicPartition, _Doomed] = {}  # guarded by: _renaming
        self._loaded = False
        self._directories_checked = True  # false while the background thread checks them

    def open(self) -> None:
        """Lock the directories and read their identities; quick. Blocks.

        Raises:
            LogDirError: A directory cannot be used; the text says what to do.
        """
        self.directories, self.cluster_id = opening.open_directories(
            self._paths,
            self._server.node_id,
            self._clock.now_ms(),
            cluster_id=self._server.cluster_id,
        )
        for directory in self.directories:
            _sweep_pins(directory)
        self._check_all(self._server.log_dirs_reserve_bytes)
        self.services.appends.look = self._look
        self.background.start()

    def load(self, is_stopped: Callable[[], bool] = never) -> None:
        """Open every partition in the directories, which are opened first if need be. Blocks.

        Raises:
            LogDirError: A directory or a partition cannot be opened; the text says what to do.
            LoadStopped: ``is_stopped`` said so meanwhile; no directory gets a mark of a clean stop.
        """
        started = self._clock.monotonic()
        if not self.directories:
            self.open()
        found = find_folders(self.directories)
        noted = {each: self._read_checkpoints(each) for each in self.directories}
        opening.take_marks(self.directories)  # from here on files may change
        self.futures.found = tuple(found.futures)
        self.futures.leave(found.left)
        folders: list[PartitionFolder] = []
        for directory, (recovery_points, log_starts) in noted.items():
            here = [each for each in found.live.values() if each.directory is directory]
            self._placement.add(directory, len(here))
            folders += [
                self._describe(
                    each.topic_partition,
                    directory,
                    recovery_points.get(each.topic_partition),
                    log_starts.get(each.topic_partition, 0),
                )
                for each in here
            ]
        for loaded in load_folders(
            folders,
            width=self._server.num_recovery_threads_per_data_dir,
            now_ms=self._clock.now_ms(),
            is_stopped=is_stopped,
        ):
            self._take(loaded)
        opening.forget_failed_fsyncs(self.directories)
        for path in found.doomed:
            self._schedule_removal(path)
        self._loaded = True
        _logger.info(
            "logs are open directories=%d partitions=%d aside=%d last_stop=%s seconds=%.2f",
            len(self.directories),
            len(self.logs),
            len(self.set_aside),
            self._find_last_stop(),
            self._clock.monotonic() - started,
        )

    def _read_checkpoints(
        self, directory: LogDirectory
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the recovery points and log start offsets in a directory's checkpoints."""
        checkpoints = LogCheckpoints(directory.path)
        self._checkpoints[directory.path] = checkpoints
        self._settling[directory.path] = JointWork(partial(self._settle_deletions, directory))
        try:
            recovery_points = checkpoints.read(files.RECOVERY_POINTS)
            return recovery_points, checkpoints.read(files.LOG_START_OFFSETS)
        except OSError as error:
            raise LogDirError(
                f"log directory {directory.path} cannot be read ({error}); check the disk and "
                "the rights"
            ) from error

    def _find_last_stop(self) -> str:
        """Return in one word how the run before this one ended; ``none`` without a run."""
        if all(directory.was_clean for directory in self.directories):
            return "clean"
        is_first = all(directory.is_new for directory in self.directories)
        return "none" if is_first and not self.logs and not self.set_aside else "unclean"

    def _take(self, loaded: LoadedPartition | SetAside) -> None:
        """Serve a partition, or note that it is set aside."""
        topic_partition = loaded.folder.topic_partition
        if isinstance(loaded, SetAside):
            self.set_aside[topic_partition] = loaded
            return
        try:
            self.logs[topic_partition] = Log(loaded, self.services)
        except Exception as error:  # noqa: BLE001  # as in `loading`: a number in it, for example
            self.set_aside[topic_partition] = set_aside(loaded.folder, error)

    def all_logs(self) -> list[Log]:
        """Return the present logs, for iterating."""
        return list(self.logs.values())

    def topic_ids(self) -> dict[str, set[uuid.UUID]]:
        """Return the ids in the folders of each topic; more than one is a conflict.

        A topic that is missing in the catalogue is added with the id of its folders.
        `UNKNOWN_TOPIC_ID` stands for a folder without a valid ``partition.metadata``.
        """
        ids: dict[str, set[uuid.UUID]] = {}
        for topic_partition, topic_id in self.folder_ids().items():
            ids.setdefault(topic_partition.topic, set()).add(topic_id)
        return ids

    def folder_ids(self) -> dict[TopicPartition, uuid.UUID]:
        """Return the topic id in each partition's folder, including partitions set aside."""
        ids = {log.topic_partition: log.topic_id for log in self.all_logs()}
        return ids | {each: aside.topic_id for each, aside in self.set_aside.items()}

    def has_folder(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a partition has a folder: it is served or set aside."""
        return topic_partition in self.logs or topic_partition in self.set_aside

    def create(
        self, topic_partition: TopicPartition, topic_id: uuid.UUID, config: TopicConfig
    ) -> Log:
        """Create a partition in the preferred directory, or the one with the fewest. Blocks.

        Raises:
            KafkaStorageError: No directory works, or the chosen one failed just now. The partition
            is removed again, as far as the disk allows.
        """
        directory = self._placement.choose(topic_partition, self.directories)
        folder = replace(self._describe(topic_partition, directory), config=config)
        with self._renaming:  # meanwhile no old folder of this name is renamed
            fault = self._find_fault(folder)
            if fault is None:
                self._unrenamed.pop(topic_partition, None)  # its folder was moved away
                self.futures.forget_sources(topic_partition)  # likewise
        if fault is not None:
            self._placement.add(directory, -1)
            raise KafkaStorageError(f"partition {topic_partition} cannot be created: {fault}")
        try:
            if self._checkpoints[directory.path].names(topic_partition):
                self._write_checkpoints(directory)  # drop offsets of a deleted topic of this name
            loaded = create_partition(folder, topic_id, self._clock.now_ms())
        except OSError as error:
            self._undo_create(folder)
            raise directory.fail(error) from error
        self._leaving.pop(topic_partition, None)
        log = Log(loaded, self.services)
        self.background.submit("leader epochs", log.write_epochs)
        self.logs[topic_partition] = log
        return log

    def _find_fault(self, folder: PartitionFolder) -> str | None:
        """Return why a folder cannot be created; None if it can.

        If another directory has a folder of the same name, the next start would not know which of
        the two to use.
        """
        for directory in self.directories:
            path = directory.path / folder.path.name
            try:
                if files.exists(path, follow=False):
                    return f"{path} exists; move it away"
            except OSError as error:  # its name is too long, or may not be looked at
                if directory is folder.directory or self._has_kept(folder.topic_partition):
                    return str(error)
        left = self._leaving.get(folder.topic_partition)
        if left is None or left is folder.directory:  # creating it fsyncs all names
            return None
        try:
            if left.failure is None:
                self._settling[left.path].run()
                return None
            reason = str(left.failure)
        except OSError as error:
            reason = str(error)
        return (
            f"a power failure may bring its old folder in {left.path} back ({reason}); check the "
            "disk and restart the broker"
        )

    def _undo_create(self, folder: PartitionFolder) -> None:
        self._placement.add(folder.directory, -1)
        try:
            files.remove_folder(folder.path)
        except OSError as error:
            self._leaving[folder.topic_partition] = folder.directory
            _logger.warning(
                "half a partition is left until the disk takes writes folder=%s error=%s",
                folder.path,
                error,
            )
            self._rename_later(
                _doom(folder.topic_partition, folder.directory, folder.path, NameGate())
            )

    def delete(self, *topic_partitions: TopicPartition) -> None:
        """Delete partitions: folders are renamed now and removed after the delay. Blocks.

        The delay is the broker's default of ``file.delete.delay.ms``. A start before that time
        removes the folders. When this returns, the checkpoints no longer have the partitions, so
        that a later partition of the same name does not take over an offset.

        Raises:
            KafkaStorageError: A folder cannot be renamed; the others are renamed, as far as
            possible. The folder is renamed once its directory takes writes again.
        """
        for topic_partition in topic_partitions:
            if topic_partition in self.logs:
                self.logs[topic_partition].leave()
        doomed = [self._take_out(each) for each in topic_partitions]
        failed: dict[LogDirectory, OSError] = {}
        for each in doomed:
            self._placement.add(each.directory, -1)
            try:
                with each.names.changing():
                    self._rename(each)
            except OSError as error:
                failed[each.directory] = error
                self._rename_later(each)
        for directory in dict.fromkeys(each.directory for each in doomed):
            if directory in failed:
                continue
            try:
                self._settling[directory.path].run()
            except OSError as error:
                failed[directory] = error
        for directory, reason in failed.items():
            raise directory.fail(reason) from reason

    def has_remains(self, topic: str) -> bool:
        """Tell whether the disk has kept a folder of a topic that a start must not serve.

        A folder that was renamed counts until no power failure can bring its old name back.
        """
        left = (*list(self._unrenamed), *list(self._leaving), *self.futures.sources)
        return any(each.topic == topic for each in left)

    def _has_kept(self, topic_partition: TopicPartition) -> bool:
        """Tell whether a folder of the partition may have its old name, in any directory."""
        return topic_partition in self._unrenamed or topic_partition in self.futures.sources

    def _take_out(self, topic_partition: TopicPartition) -> _Doomed:
        """Stop serving a partition, and return the present and the future name of its folder."""
        aside = self.set_aside.pop(topic_partition, None)
        if aside is not None:
            return _doom(topic_partition, aside.folder.directory, aside.path, NameGate())
        log = self.logs.pop(topic_partition)
        doomed = _doom(topic_partition, log.directory, log.path, log.names)
        log.abandon(doomed.new)
        return doomed

    def _rename(self, doomed: _Doomed) -> None:
        """Rename a folder; the caller has its gate, as a pin may be linking the files in it."""
        files.rename(doomed.old, doomed.new)
        self._leaving[doomed.topic_partition] = doomed.directory
        self._schedule_removal(doomed.new)

    def _rename_later(self, doomed: _Doomed) -> None:
        with self._renaming:
            self._unrenamed[doomed.topic_partition] = doomed
        self.deletions.schedule(RETRY_MS, partial(self._rename_again, doomed))

    def _rename_again(self, doomed: _Doomed) -> None:
        """Rename a folder once its directory takes writes; if it is offline, a start does this."""
        name, directory = doomed.topic_partition, doomed.directory
        # The gate first: `create` must not wait for a pin. It creates no such partition meanwhile.
        with doomed.names.changing(), self._renaming:
            if directory.failure is not None or self._unrenamed.get(name) is not doomed:
                return
            try:
                if directory.refusal is None:
                    self._rename(doomed)
                    del self._unrenamed[name]
            except FileNotFoundError:  # it was moved away, as the error of `create` asks
                del self._unrenamed[name]
                return
            except OSError as error:
                directory.fail(error)
            if name in self._unrenamed:
                self.deletions.schedule(RETRY_MS, partial(self._rename_again, doomed))
                return
        try:
            self._settling[directory.path].run()
        except OSError as error:
            directory.fail(error)

    def _settle_deletions(self, directory: LogDirectory) -> None:
        """Make the new names of folders durable, and drop the partitions from the checkpoints."""
        leaving = [name for name, where in list(self._leaving.items()) if where is directory]
        files.fsync_directory(directory.path)
        for topic_partition in leaving:
            self._leaving.pop(topic_partition, None)
        if directory.failure is None:
            self._write_checkpoints(directory)

    def prefer(self, topic_partition: TopicPartition, directory: LogDirectory) -> None:
        """Prefer a directory for a partition, if it is created before the next start."""
        self._placement.prefer(topic_partition, directory)

    def checkpoint(self, *names: str) -> None:
        """Write checkpoints, such as `files.RECOVERY_POINTS`, if they changed; in the background.

        Only Kafka's broker reads the high watermarks: here the log end offset is that.
        """

        def work(directory: LogDirectory, name: str) -> None:
            if directory.failure is not None:
                return
            try:
                self._write_checkpoint(directory, name)
            except OSError as error:
                raise directory.fail(error) from error

        for name in names:
            for directory in self.directories:
                self.background.submit("checkpoint", partial(work, directory, name))

    def check_directories(self, reserve_bytes: int) -> None:
        """Check in the background which directories are gone, full, or take writes again."""
        if self._directories_checked:
            self._directories_checked = False
            self.background.submit(
                "directory check", partial(self._check_directories, reserve_bytes)
            )

    def _check_directories(self, reserve_bytes: int) -> None:
        try:
            self._check_all(reserve_bytes)
        finally:
            self._directories_checked = True

    def _check_all(self, reserve_bytes: int) -> None:
        for directory in self.directories:
            directory.check(reserve_bytes, self._clock.monotonic(), self.services.appends.written)
        self._plan_look()

    def _look(self) -> None:
        """Measure the room between two checks, since a directory's room may be used up."""
        for directory in self.directories:
            if directory.room.reserve_bytes:
                directory.look()
        self._plan_look()

    def _plan_look(self) -> None:
        """Set when to measure next: before clients can have used up a reserve."""
        left = [
            each.room.bytes_above
            for each in self.directories
            if each.room.reserve_bytes and each.client_refusal is None
        ]
        self.services.appends.look_at = (
            self.services.appends.written + min(left) if left else _NEVER
        )

    def close(self, *, clean: bool = True) -> bool:
        """Close every log, write the checkpoints and the marks. Blocks; idempotent.

        Returns true if every directory got its mark. A directory gets no mark if it failed, or if
        one of its logs failed to close; the next start then recovers it. Without ``clean`` no
        directory gets a mark. A directory that was never loaded is left as it was found.
        """
        unmarked = set(self.directories)
        failed = self._close_logs() if clean and self._loaded else set(self.directories)
        drained = self.background.close()
        for directory in self.directories:
            if directory in failed or directory.failure is not None or not drained:
                continue
            try:
                self._write_checkpoints(directory)
                self._write_checkpoint(directory, files.HIGH_WATERMARKS)
                clean_shutdown.mark(directory.path)
                unmarked.discard(directory)
            except OSError as error:
                directory.fail(error)
        if not self._loaded:
            opening.forget_identities(self.directories)
        for directory in self.directories:
            directory.release()
        self.directories = ()
        self.logs = {}
        return not unmarked

    def _close_logs(self) -> set[LogDirectory]:
        """Close all logs, several at a time; return the directories where a log failed to close."""
        failed: set[LogDirectory] = set()

        def close(log: Log) -> None:
            try:
                log.close()
            except KafkaStorageError:
                failed.add(log.directory)

        workers = self._server.num_recovery_threads_per_data_dir * max(1, len(self.directories))
        with threads.new_pool(workers, "closing") as pool:
            for future in [pool.submit(close, log) for log in self.all_logs()]:
                future.result()
        return failed

    def _write_checkpoints(self, directory: LogDirectory) -> None:
        self._write_checkpoint(directory, files.RECOVERY_POINTS)
        self._write_checkpoint(directory, files.LOG_START_OFFSETS)

    def _write_checkpoint(self, directory: LogDirectory, name: str) -> None:
        """Write one checkpoint. A partition that is set aside keeps its old log start offset.

        Such a partition gets no recovery point, so the next start scans all of it.
        """

        def collect() -> dict[TopicPartition, int]:
            logs: list[checkpointed.AnyLog] = [*self.all_logs(), *self.futures.copies]
            offsets = checkpointed.collect(name, directory, logs)
            if name != files.LOG_START_OFFSETS:
                return offsets
            aside = {
                each.folder.topic_partition: each.folder.log_start_offset
                for each in list(self.set_aside.values())
                if each.folder.directory is directory and each.folder.log_start_offset
            }
            return aside | offsets

        self._checkpoints[directory.path].write(name, collect)

    def _schedule_removal(self, path: Path) -> None:
        delay_ms = self._server.topic_defaults.file_delete_delay_ms
        self.deletions.schedule(delay_ms, partial(files.remove_folder, path))

    def _describe(
        self,
        topic_partition: TopicPartition,
        directory: LogDirectory,
        recovery_point: int | None = None,
        log_start_offset: int = 0,
    ) -> PartitionFolder:
        return PartitionFolder(
            topic_partition=topic_partition,
            directory=directory,
            path=directory.path / folder_name(topic_partition),
            config=self._config_for(topic_partition.topic),
            open_files=self._open_files,
            producer_expiration_ms=self._server.producer_id_expiration_ms,
            max_producers=self._server.producer_ids_max_count,
            is_clean=directory.was_clean and recovery_point is not None,
            recovery_point=recovery_point or 0,
            log_start_offset=log_start_offset,
        )


def _sweep_pins(directory: LogDirectory) -> None:
    """Delete the pins that a killed broker left; ignore errors of the disk."""
    try:
        count = pin_links.sweep(directory.path)
    except OSError as error:
        _logger.warning(
            "pins of an earlier run are left: delete the folder folder=%s error=%s",
            directory.path / files.PINS,
            error,
        )
    else:
        if count:
            _logger.info(
                "pins of an earlier run swept directory=%s count=%d", directory.path, count
            )
