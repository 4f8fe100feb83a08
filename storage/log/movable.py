"""A partition that can go to another log directory while it is used (KIP-113)."""

from typing import TYPE_CHECKING

from siltstone.storage.log.read_kernels import LogReader
from siltstone.storage.log.replaceable import ReplaceableLog
from siltstone.storage.log.view import LogView

if TYPE_CHECKING:
    from siltstone.storage.moving.future_log import FutureLog


class MovableLog(ReplaceableLog):
    """What a log has for its copy in another directory: the moment at which that takes over.

    It stays the same object for everybody: only where its files are is another thing afterwards.
    Readers go by the old files up to that moment, and whoever holds them reads them to the end.
    """

    __slots__ = ()

    @property
    def view(self) -> LogView:
        """Return what readers see: end offset, segments, and the end's position in the last one."""
        return self._view

    @property
    def is_closed(self) -> bool:
        """Tell whether everything is refused from now on."""
        return self._closed

    def hold_flushes(self) -> None:
        """Let no thread write into the folder until `release_flushes`. Blocks."""
        self._flush_lock.acquire()

    def release_flushes(self) -> None:
        """Take `hold_flushes` back; any thread may."""
        self._flush_lock.release()

    def move(self, future: "FutureLog", most_bytes: int) -> bool:
        """Have the copy take over, for files and appends, unless the log has gone on too far.

        For the event loop, with flushes held: what the copy lacks, ``most_bytes`` at the most, is
        copied here, and the rename of its folder is what a crash comes before or after.

        Raises:
            OSError: The disk did not take it; the log is as it was.
        """
        with self.lock:
            view = self._view
            if future.missing_bytes(view) > most_bytes:
                return False
            twins = future.hand_over(view)
            future.put_in_place()
            for segment in view[1]:
                segment.relocate(future.final_path)  # who opens a file of it now finds the same
            self._view = (view[0], twins, view[2])
            self._reader = LogReader()
            self.directory = future.directory
            self.path = future.final_path
            self.epochs.relocate(self.path)
            self.producers.relocate(self.path)
            self.recovery_point = future.recovery_point
        return True
