"""Replaces old segments by new ones on the disk (Kafka: ``LocalLog.replaceSegments``).

`storage.log.leftovers` relies on the order of the renames (docs/compaction.md). First the new files
are renamed from ``.cleaned`` to ``.swap``, the highest base first. Then the old ones get
``.deleted``, the lowest base first. Then the new ones lose ``.swap``, the lowest base first. The
directory is fsynced after each of the three steps. Once all new files have ``.swap``, a start
completes the swap; before that, a start undoes it.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from siltstone.storage import files
from siltstone.storage.segment.segment import LogSegment


class SegmentSwap:
    """One swap. Call `begin`, and then `undo`, or `end` once readers use the new segments.

    Each of the three fails if the disk fails. `undo` and `end` may then be called again and
    continue. ``new`` and ``old`` are in the order of their offsets; ``snapshots`` are those at old
    bases that are not new bases.
    """

    __slots__ = ("is_published", "new", "old", "path", "snapshots")

    def __init__(self, path: Path, new: Sequence[LogSegment], old: Sequence[LogSegment]) -> None:
        self.path = path
        self.new = tuple(new)
        self.old = tuple(old)
        self.snapshots: list[Path] = []
        self.is_published = False

    def begin(self) -> None:
        """Give the new files the suffix ``.swap``, with which a start uses them. Blocks."""
        for segment in reversed(self.new):
            segment.files.change_suffix(files.SWAP)
        files.fsync_directory(self.path)

    def undo(self) -> None:
        """Undo `begin`, and delete the new segments. Blocks."""
        for segment in self.new:
            segment.files.restore_suffix(files.CLEANED)
        for segment in self.new:
            segment.files.unlink()

    def forget(self) -> None:
        """Close the files, whose folder is being deleted."""
        for segment in (*self.new, *self.old):
            segment.files.forget_all()

    def end(self) -> None:
        """Give all files their final names. Blocks."""
        for segment in self.old:
            segment.files.change_suffix(files.DELETED)
        files.fsync_directory(self.path)
        for segment in self.new:
            segment.files.change_suffix("")
        files.fsync_directory(self.path)
        for snapshot in self.snapshots:
            with suppress(FileNotFoundError):
                files.mark_deleted(snapshot)
