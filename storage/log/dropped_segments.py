"""Segments that were taken out of a log: renamed in the background, unlinked after the delay."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from siltstone.storage import files, threads
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.frozen import NameGate
from siltstone.storage.log.services import LogServices
from siltstone.storage.segment.segment import LogSegment

RETRY_MS: Final = 5_000
"""When a deletion that failed is tried again."""


class DroppedSegments:
    """Segments and producer snapshots that are being deleted (housekeeping thread only).

    ``writing`` is held while files change, so that the log is not abandoned meanwhile.

    A start before the deletion finds the files by their suffix, or loads them and drops them again.
    They are deleted even if renaming fails: a disk may be so full that a longer name does not fit
    into the folder, and only unlinking makes room. ``is_abandoned`` tells that the whole folder is
    being deleted. Then no file is touched, since a new folder may have the name already.
    """

    def __init__(
        self,
        segments: Sequence[LogSegment],
        snapshots: Sequence[Path],
        directory: LogDirectory,
        services: LogServices,
        names: NameGate,
        writing: threads.Lock,
        is_abandoned: Callable[[], bool],
    ) -> None:
        self._segments = segments
        self._snapshots = snapshots
        self._directory = directory
        self._deletions = services.deletions
        self._names = names
        self._writing = writing
        self._is_abandoned = is_abandoned

    def rename(self, delay_ms: int) -> None:
        """Rename the files, and schedule their unlinking for when ``delay_ms`` have passed.

        Raises:
            KafkaStorageError: A file could not be renamed.
        """
        with self._writing:
            if self._is_abandoned():
                self._forget()
                return
            self._deletions.schedule(delay_ms, self.unlink)
            try:
                with self._names.changing():
                    for segment in self._segments:
                        segment.files.change_suffix(files.DELETED)
                    for path in self._snapshots:
                        files.mark_deleted(path)
            except OSError as error:
                raise self._directory.fail(error) from error

    def unlink(self) -> None:
        """Delete the files; if the disk refuses, try again later.

        The files are no longer used, so an error here does not stop writes.

        Raises:
            OSError: A file could not be deleted.
        """
        with self._writing:
            if self._is_abandoned():
                self._forget()
                return
            try:
                with self._names.changing():
                    for segment in self._segments:
                        segment.files.unlink()
                    for path in self._snapshots:
                        files.unlink(path)
                        files.unlink(files.deleted_name(path))
            except OSError:
                self._deletions.schedule(RETRY_MS, self.unlink)
                raise

    def _forget(self) -> None:
        for segment in self._segments:
            segment.files.forget_all()
