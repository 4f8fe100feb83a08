"""A broker of a page: logs with markers, outcomes of transactions, and things with a value."""

from collections import defaultdict
from dataclasses import dataclass

from tools.checker.events import Partition, Position, RecordId, Thing, Value

IN = (Partition("in", 0), Partition("in", 1))
OUT = (Partition("out", 0), Partition("out", 1))


@dataclass(slots=True)
class Stored:
    """The record at one offset."""

    record: RecordId
    content: int
    transaction: str | None = None


class Broker:
    """A broker that does what it should; faults are planted in its attributes.

    A log holds None where a marker is. Offsets in ``empty`` and records in ``hidden`` are faults.
    """

    def __init__(self) -> None:
        self.logs: dict[Partition, list[Stored | None]] = {each: [] for each in (*IN, *OUT)}
        self.outcomes: dict[str, bool] = {}
        self.values: dict[Thing, Value] = {}
        self.former: dict[Thing, list[Value]] = defaultdict(lambda: [None])
        self.hidden: set[RecordId] = set()
        self.empty: set[Position] = set()

    def change(self, thing: Thing, value: Value) -> None:
        """Give a thing a value."""
        self.values[thing] = value
        self.former[thing].append(value)

    def append(self, partition: Partition, batch: list[Stored]) -> list[int]:
        """Write what is missing; return the offsets."""
        log = self.logs[partition]
        at = {each.record: offset for offset, each in enumerate(log) if each is not None}
        for each in batch:
            if each.record not in at:
                at[each.record] = len(log)
                log.append(each)
        return [at[each.record] for each in batch]

    def end_transaction(self, name: str, *, committed: bool) -> None:
        """Write a marker wherever the transaction has records."""
        self.outcomes[name] = committed
        for log in self.logs.values():
            if any(each is not None and each.transaction == name for each in log):
                log.append(None)

    def read(
        self, partition: Partition, start: int, *, committed: bool
    ) -> list[tuple[int, Stored]]:
        """Return what a reader is given; no transaction is open when it asks."""
        return [
            (offset, each)
            for offset, each in enumerate(self.logs[partition][start:], start)
            if each is not None
            and Position(partition, offset) not in self.empty
            and not (committed and (each.record in self.hidden or self._is_aborted(each)))
        ]

    def markers(self) -> list[Position]:
        """Return where control records are."""
        return [
            position
            for partition, log in self.logs.items()
            for offset, each in enumerate(log)
            if each is None and (position := Position(partition, offset)) not in self.empty
        ]

    def _is_aborted(self, stored: Stored) -> bool:
        return stored.transaction is not None and not self.outcomes[stored.transaction]
