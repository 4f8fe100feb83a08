"""A log directory that no broker serves: a stopped broker's, a copy, or one in object storage."""

from pathlib import Path

from siltstone.pipeline.errors import BadOption, SourceUnavailable
from siltstone.pipeline.options import ReadOptions
from siltstone.pipeline.planning.archive_view import ArchiveView
from siltstone.pipeline.planning.manifest import Manifest
from siltstone.pipeline.transports.source import Source, select
from siltstone.storage.clock import Clock
from siltstone.storage.directory.lock import is_held


class ArchiveSource(Source):
    """Reads a folder in which no broker works."""

    name = "archive"

    def __init__(self, options: ReadOptions) -> None:
        """Check that no broker works in the directory.

        Raises:
            SourceUnavailable: one does.
        """
        super().__init__(options)
        self._clock = Clock()
        self._place = options.archive or options.data
        if not self._place:
            raise BadOption("transport=archive needs archive: a log directory, or its URI")
        self._place = self._place.removeprefix("file://")
        if "://" not in self._place:
            self._place = str(Path(self._place).resolve())
        if "://" not in self._place and is_held(Path(self._place)):
            raise SourceUnavailable(
                f"a broker works in {self._place}; read it with transport=pinned and "
                f"data={self._place}"
            )

    def view(self) -> Manifest:
        """Return the partitions of the options, as they are now."""
        now_ms = self._clock.now_ms()
        archive = ArchiveView(self._place)
        keys = select(self.options, archive.partitions(), f"in {self._place}")
        is_committed = self.options.is_committed
        views = tuple(archive.view(key, is_committed=is_committed) for key in keys)
        return Manifest(taken_at_ms=now_ms, partitions=views)

    def close(self) -> None:
        """Do nothing: nothing is open."""
