"""Who wants to know when a log changes."""

from typing import Protocol


class Watcher(Protocol):
    """What stands in ``Log.watchers`` until it takes itself out (loop only).

    The broker's are in `broker.fetching.waiting`.
    """

    def log_changed(self) -> None:
        """Note that the log has more records, or another start or last stable offset."""

    def log_gone(self) -> None:
        """Note that nobody finds the log any more, or that what was to be read of it is gone."""
