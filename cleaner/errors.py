"""The errors that end a pass, besides those of the disk."""

from pathlib import Path


class CleaningAborted(Exception):  # noqa: N818  # Kafka's word: LogCleaningAbortedException
    """The pass is no longer wanted: deletion, truncation, another policy, or a stop of the broker.

    ``still_wanted`` raises this error; groups of segments that were swapped before stay swapped.
    """


class CorruptSegment(Exception):  # noqa: N818  # says what is, as CorruptMessage does
    """A segment has bytes that are not a sound batch; no new segment contains these bytes."""

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


class UnopenedBatch(CorruptSegment):
    """A batch, or a record of it, unfolds to more bytes than its limit.

    The log stays as it is. The keys of the batch are not known, so it is not known whether its
    records replace other records, or whether later tombstones delete its records.
    """

    def _sentence(self) -> str:
        return (
            f"{self.path} has a batch at position {self.position}, after offset {self.offset - 1}, "
            f"that the cleaner does not open: {self.reason}; the log serves on uncleaned: set "
            "cleanup.policy=compact,delete and have the records up to the end of that batch "
            "deleted (kafka-delete-records)"
        )
