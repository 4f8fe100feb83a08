"""What ends a pass early besides the disk: it is no longer wanted, or the log is damaged."""

from pathlib import Path


class CleaningAborted(Exception):  # noqa: N818  # Kafka's word: LogCleaningAbortedException
    """The pass is no longer wanted: deletion, truncation, another policy, or the broker stops.

    Whoever asks in ``still_wanted`` raises it; the log is as it was before the group at hand.
    """


class CorruptSegment(Exception):  # noqa: N818  # says what is, as CorruptMessage does
    """A segment holds something that is no sound batch; nothing of it got into a new segment."""

    def __init__(self, path: Path, position: int, offset: int, reason: str) -> None:
        self.path = path
        self.position = position
        self.offset = offset
        self.reason = reason
        super().__init__(
            f"{path} is damaged at position {position}, in the batch after offset {offset - 1}: "
            f"{reason}; the log serves on uncleaned: look at it with siltstone dump-log"
        )

    def __reduce__(self) -> tuple[type["CorruptSegment"], tuple[Path, int, int, str]]:
        """Pickle by the parts: a pass may run in another process."""
        return type(self), (self.path, self.position, self.offset, self.reason)
