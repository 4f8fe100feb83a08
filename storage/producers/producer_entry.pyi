from typing import Final

from siltstone.storage.producers.entry import AppendedBatch

class ProducerEntry:
    coordinator_epoch: int
    epoch: int
    last_timestamp: int
    next_sequence: int
    transaction_first_offset: int
    batches: list[AppendedBatch]
    def __init__(self, epoch: int) -> None: ...
    last_batch: Final[AppendedBatch | None]
    def find_duplicate(self, first_sequence: int, last_sequence: int) -> AppendedBatch | None: ...
    def begin_epoch(self, epoch: int) -> None: ...
    def is_followed_by(self, epoch: int, first_sequence: int) -> bool: ...
    def note(
        self, first_sequence: int, last_offset_delta: int, first_offset: int, timestamp: int
    ) -> None: ...
    def add(self, batch: AppendedBatch) -> None: ...
