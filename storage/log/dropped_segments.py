"""Segments that left the view of their log: renamed in the background, unlinked after the delay."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.storage import files
from siltstone.storage.directory.log_directory import LogDirectory
from siltstone.storage.log.name_gate import NameGate
from siltstone.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from siltstone.storage.log.services import LogServices

RETRY_MS: Final = 5_000
"""When a disk that refused to delete is asked again."""


class DroppedSegments:
    """Some segments and producer snapshots on their way out (housekeeping thread only).

    A start in between finds them by their suffix, or loads them once more and drops them again.
    They go even if the renaming fails: a disk may be so full that a longer name does not fit into
    its folder, and only unlinking makes room. ``is_abandoned`` tells that the partition's folder is
    taken away as a whole; a new one of its name may be there, so nothing is touched any more.
    """

    def __init__(
        self,
        segments: Sequence[LogSegment],
        snapshots: Sequence[Path],
        directory: LogDirectory,
        services: "LogServices",
        names: NameGate,
        is_abandoned: Callable[[], bool],
    ) -> None:
        self._segments = segments
        self._snapshots = snapshots
        self._directory = directory
        self._deletions = services.deletions
        self._names = names
        self._is_abandoned = is_abandoned

    def rename(self, delay_ms: int) -> None:
        """Give the files their suffix, and have them unlinked when ``delay_ms`` have passed.

        Raises:
            KafkaStorageError: A file could not be renamed.
        """
        if self._is_abandoned():
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
        """Delete the files; if the disk refuses, ask it again later.

        Nobody misses what goes here, so an error says nothing of what the directory holds: writes
        go on, and find out for themselves.

        Raises:
            OSError: A file could not be deleted.
        """
        if self._is_abandoned():
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
