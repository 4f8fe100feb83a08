"""One record that was sent, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.checker.events import Attempt, Partition, Position, RecordId
    from tools.checker.transaction import Transaction


class Record:
    """A record: where it was acknowledged, where it was read first, and whether it shows."""

    __slots__ = (
        "acknowledged_at",
        "content",
        "found_at",
        "is_visible",
        "name",
        "partition",
        "source",
        "transaction",
    )

    def __init__(self, attempt: Attempt, transaction: Transaction | None) -> None:
        self.name: RecordId = attempt.record
        self.partition: Partition = attempt.partition
        self.content = attempt.content
        self.source: Position | None = attempt.source
        self.transaction = transaction
        self.acknowledged_at: int | None = None
        self.found_at: int | None = None
        self.is_visible = False  # was read under read_committed
