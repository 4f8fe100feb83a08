"""The interface of objects that a log tells when it changes."""

from typing import Protocol


class Watcher(Protocol):
    """A member of ``Log.watchers``, until it removes itself (loop only).

    The broker's watchers are in `broker.fetching.watching`.
    """

    def log_changed(self) -> None:
        """Note that the log has more records, or another start or last stable offset."""

    def log_gone(self) -> None:
        """Note that the log, or records that the watcher has not read yet, were deleted."""
