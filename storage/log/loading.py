"""Opens the partition folders that were found when the broker starts."""

import errno
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from siltstone.protocol.errors import KafkaError
from siltstone.storage import files, threads
from siltstone.storage.directory.log_directory import LogDirError, remedy_for
from siltstone.storage.log import recovery
from siltstone.storage.segment.scan import LegacyFormatError

# The errors that mean that files of a folder have other content than their names say.
_WRONG_KIND = frozenset({
    errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENXIO,
    errno.ESPIPE,
})  # fmt: skip

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A partition that is not served because its folder has damaged files, and the reason."""

    folder: recovery.PartitionFolder
    topic_id: UUID
    reason: str

    @property
    def path(self) -> Path:
        """Return the folder's path."""
        return self.folder.path


def load_folders(
    folders: Sequence[recovery.PartitionFolder],
    *,
    width: int,
    now_ms: int,
    is_stopped: Callable[[], bool] = recovery.never,
) -> list[recovery.LoadedPartition | SetAside]:
    """Open partitions, ``width`` of each directory at a time. Blocks.

    Several threads help after a crash, when they wait for the disk or run compiled code. A start
    after a clean stop mostly runs Python, so one thread is enough.

    A partition with damage that no start can repair is set aside: it is not served, but the others
    are.

    Raises:
        LogDirError: A partition cannot be opened because of an error of the disk.
        LoadStopped: ``is_stopped``, which the threads ask between two steps, said so.
    """
    queues: dict[Path, list[recovery.PartitionFolder]] = {}
    for folder in folders:
        queues.setdefault(folder.directory.path, []).append(folder)
    workers = [
        iterator
        for group in queues.values()
        for iterator in [iter(group)] * (1 if group[0].directory.was_clean else width)
    ]
    if len(workers) <= 1:
        return [loaded for worker in workers for loaded in _load_from(worker, now_ms, is_stopped)]
    with threads.new_pool(len(workers), "recovery") as pool:
        loads = [pool.submit(_load_from, worker, now_ms, is_stopped) for worker in workers]
        return [loaded for load in loads for loaded in load.result()]


def _load_from(
    folders: Iterator[recovery.PartitionFolder], now_ms: int, is_stopped: Callable[[], bool]
) -> list[recovery.LoadedPartition | SetAside]:
    """Open partitions from an iterator that several threads share."""
    return [_load(folder, now_ms, is_stopped) for folder in folders]


def set_aside(folder: recovery.PartitionFolder, error: Exception) -> SetAside:
    """Log in one line that a partition is not served, and why."""
    reason = error.message if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
    _logger.error(
        "partition is set aside and not served, the others are: look at it with siltstone "
        "dump-log, mend it or move it away, and restart folder=%s reason=%r",
        folder.path,
        reason,
    )
    try:
        topic_id = recovery.find_topic_id(folder.path)
    except OSError:
        topic_id = recovery.UNKNOWN_TOPIC_ID
    return SetAside(folder, topic_id, reason)


def _load(
    folder: recovery.PartitionFolder, now_ms: int, is_stopped: Callable[[], bool]
) -> recovery.LoadedPartition | SetAside:
    if is_stopped():
        raise recovery.LoadStopped
    try:
        return recovery.load_partition(folder, now_ms, is_stopped)
    except recovery.LoadStopped:
        raise
    except OSError as error:
        if isinstance(error, files.FsyncFailed):
            # The next start writes the logs again: its fsync succeeds, even if bytes are lost.
            files.note_failed_fsync(folder.directory.path)
        if isinstance(error, LegacyFormatError) or error.errno in _WRONG_KIND:
            return set_aside(folder, error)
        remedy = remedy_for(error) or "check the disk and the rights, or move the folder away"
        raise LogDirError(
            f"partition folder {folder.path} cannot be opened ({error}); {remedy}"
        ) from error
    except Exception as error:  # noqa: BLE001  # no content of a folder may stop the others
        return set_aside(folder, error)
