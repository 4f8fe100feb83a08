"""What a broker has acknowledged and shown, and the rules that no kill may break."""

import random
from collections import defaultdict
from typing import NamedTuple

Partition = tuple[str, int]


class Sent(NamedTuple):
    """One record: its producer and its number there. The value follows from the two."""

    producer: str
    number: int

    @property
    def value(self) -> bytes:
        """The record's value: its name and a filling of random length."""
        size = random.Random(f"{self.producer}:{self.number}").randrange(1500)
        return f"{self.producer}:{self.number}:".encode() + b"." * size

    @classmethod
    def read(cls, value: bytes) -> "Sent":
        """Return what a value says it is.

        Raises:
            AssertionError: the value is not the one that was sent under its name.
        """
        producer, number, _ = value.split(b":", 2)
        sent = cls(producer.decode(), int(number))
        assert value == sent.value, f"{sent} has another value than it was sent with"
        return sent


class Ledger:
    """Offsets as acknowledged and as read, per partition.

    Holds at every moment: one offset has one record for ever; offsets have no holes; the records of
    a producer are in the order in which it sent them; what was acknowledged is there.
    """

    def __init__(self) -> None:
        self.acknowledged: dict[Partition, dict[int, Sent]] = defaultdict(dict)
        self.seen: dict[Partition, list[Sent]] = defaultdict(list)
        self._last: dict[tuple[Partition, str], int] = {}

    def acknowledge(self, partition: Partition, offset: int, sent: Sent) -> None:
        """Note that the broker says it holds a record at an offset."""
        before = self.acknowledged[partition].setdefault(offset, sent)
        assert before == sent, f"{partition} acknowledged {before} and {sent} at {offset}"
        seen = self.seen[partition]
        if offset < len(seen):
            assert seen[offset] == sent, f"{partition} {offset} was {seen[offset]}, not {sent}"

    def see(self, partition: Partition, offset: int, value: bytes) -> None:
        """Note the next record that the broker shows of a partition."""
        seen = self.seen[partition]
        assert offset == len(seen), f"{partition} shows {offset} after {len(seen) - 1}"
        sent = Sent.read(value)
        wanted = self.acknowledged[partition].get(offset, sent)
        assert wanted == sent, f"{partition} {offset} acknowledged {wanted}, holds {sent}"
        last = self._last.get((partition, sent.producer), -1)
        assert sent.number > last, f"{partition} holds {sent} at {offset}, after number {last}"
        self._last[partition, sent.producer] = sent.number
        seen.append(sent)

    def end(self, partition: Partition, end: int) -> None:
        """Check an end offset: nothing acknowledged or seen lies at or beyond it."""
        acknowledged = max(self.acknowledged[partition], default=-1)
        assert acknowledged < end, f"{partition} ends at {end}, acknowledged {acknowledged}"
        seen = len(self.seen[partition])
        assert seen <= end, f"{partition} ends at {end}, {seen} records were read before"

    def check_again(self, partition: Partition, offset: int, value: bytes) -> None:
        """Compare a record with what was read at its offset before."""
        seen = self.seen[partition][offset]
        assert Sent.read(value) == seen, f"{partition} {offset} was {seen}, is {value[:60]!r}"
