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
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        return (
            f"{self.path} is damaged at position {self.position}, in the batch after offset "
            f"{self.offset - 1}: {self.reason}; the log serves on uncleaned: look at it with "
            "siltstone dump-log"
        )

    def __reduce__(self) -> tuple[type["CorruptSegment"], tuple[Path, int, int, str]]:
        """Pickle by the parts: a pass may run in another process."""
        return type(self), (self.path, self.position, self.offset, self.reason)


class UnopenedBatch(CorruptSegment):
    """A batch unfolds to more than is opened.

    The log stays as it is: whether a record in the batch replaces another one, or a tombstone
    behind it is the last word about its key, nobody can say without its keys.
    """

    def _sentence(self) -> str:
        return (
            f"{self.path} has a batch at position {self.position}, after offset {self.offset - 1}, "
            f"that the cleaner does not open: {self.reason}; the log serves on uncleaned: set "
            "cleanup.policy=compact,delete and have the records up to the end of that batch "
            "deleted (kafka-delete-records)"
        )
