"""Records that name their writer, and the checker that is told what clients do with them."""

import hashlib
import zlib

from tools.checker.checker import Checker
from tools.checker.events import Acknowledged, Attempt, Partition, Position, Read, RecordId

UNREADABLE = RecordId("unreadable", 0)
LARGEST = 1500


class Ledger:
    """Notes what is sent, acknowledged and read; a fault is raised by `judge`."""

    def __init__(self) -> None:
        self.checker = Checker()
        self.acknowledged = 0

    def send(self, record: RecordId, partition: Partition) -> bytes:
        """Note that a record is about to be sent, and return its value."""
        value = make_value(record)
        self.checker.take(Attempt(record, partition, digest(value)))
        return value

    def copy(
        self, record: RecordId, partition: Partition, source: Position, value: bytes, within: str
    ) -> bytes:
        """Note that a record is about to be copied in a transaction; return the copy's value."""
        copied = f"{record.producer}:{record.sequence}:".encode() + value
        self.checker.take(Attempt(record, partition, digest(copied), within, source))
        return copied

    def acknowledge(self, value: bytes, offset: int) -> None:
        """Note that the broker says it holds a record at an offset."""
        self.acknowledged += 1
        self.checker.take(Acknowledged(name_of(value), offset))

    def read(self, reader: str, partition: Partition, offset: int, value: bytes) -> None:
        """Note what a reader was given."""
        self.checker.take(Read(reader, partition, offset, name_of(value), digest(value)))

    def judge(self) -> None:
        """Say what is wrong so far.

        Raises:
            AssertionError: something is, with the first faults.
        """
        faults = self.checker.faults
        assert not faults, f"{len(faults)} faults:\n" + "\n".join(map(str, faults[:20]))


def make_value(record: RecordId) -> bytes:
    """Return a record's value: its name over and over, of a length that follows from it."""
    name = f"{record.producer}:{record.sequence}:".encode()
    size = len(name) + zlib.crc32(name) % LARGEST
    return (name * (size // len(name) + 1))[:size]


def name_of(value: bytes) -> RecordId:
    """Return the record that a value says it is."""
    producer, _, rest = value.partition(b":")
    number, _, _ = rest.partition(b":")
    if not number.isdigit():
        return UNREADABLE
    return RecordId(producer.decode(errors="replace"), int(number))


def digest(value: bytes) -> int:
    """Return 64 bits that no other value has."""
    return int.from_bytes(hashlib.blake2b(value, digest_size=8).digest(), "big")
