"""Views of a log, to compare two states."""

from dataclasses import dataclass
from typing import Self

from siltstone.storage.log.log import Log
from tests.support.logs import bytes_of


@dataclass(frozen=True)
class View:
    """A log as a reader and a producer can see it."""

    data: bytes
    aborted: tuple[tuple[int, int], ...]
    producers: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, log: Log) -> Self:
        """Return the view of a log."""
        return cls(
            bytes_of(log, log.log_start_offset),
            tuple(log.aborted_transactions(0, log.log_end_offset)),
            tuple(
                (producer_id, entry.batches[-1].last_sequence)
                for producer_id, entry in sorted(log.producers.producers.items())
                if entry.batches
            ),
        )
