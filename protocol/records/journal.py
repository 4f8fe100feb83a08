"""Batches of an internal topic, which a coordinator writes and reads as a journal of its state.

Each operation writes one uncompressed batch. The reader also accepts compressed batches and
markers.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple, cast

from siltstone.protocol.core import constants, read_journal
from siltstone.protocol.errors import CorruptMessage, KafkaError
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.record import RecordReader

Row = tuple[bytes, bytes | None]
"""A record to be written: key and value, None for a tombstone."""


class EntryKind(IntEnum):
    """The kinds of a journal's entries, for its reader."""

    PLAIN = constants.PLAIN_ENTRY
    TRANSACTIONAL = constants.TRANSACTIONAL_ENTRY
    """It counts if its producer's COMMIT follows in the same partition."""
    ABORT = constants.ABORT_ENTRY
    COMMIT = constants.COMMIT_ENTRY


class Entry(NamedTuple):
    """One record read back; markers have neither key nor value."""

    offset: int
    kind: int
    key: bytes
    value: bytes | None
    producer_id: int
    producer_epoch: int


class LeftOut(NamedTuple):
    """A batch that could not be read completely: its base offset and the reason."""

    offset: int
    reason: str


class Folded:
    """A compressed batch of data that the caller opens part by part.

    Raises:
        KafkaError: The batch's number of records is negative.
    """

    def __init__(self, batch: memoryview) -> None:
        self._reader = RecordReader(batch)
        self.offset = self._reader.header.base_offset
        self.unfold = self._reader.unfold
        self.end = self._reader.end

    def read(self, part: bytes) -> Iterator[Entry]:
        """Yield the entries that end in the next part.

        Raises:
            KafkaError: The next record cannot be read.
        """
        header = self._reader.header
        kind = EntryKind.TRANSACTIONAL if header.is_transactional else EntryKind.PLAIN
        producer = header.producer_id, header.producer_epoch
        for record in self._reader.read(part):
            yield Entry(record.offset, kind, record.key or b"", record.value, *producer)


class Producer(NamedTuple):
    """The producer for which a transactional batch is written."""

    id: int
    epoch: int


NO_PRODUCER: Final = Producer(constants.NO_PRODUCER_ID, constants.NO_PRODUCER_EPOCH)


def read_entries(
    buffer: memoryview, position: int, max_entries: int, *, has_offsets: bool = False
) -> tuple[list[Entry], int, LeftOut | Folded | None]:
    """Return the entries of whole batches from ``position`` on, and the position after them.

    Reading ends after the batch in which ``max_entries`` was reached, or before a batch that is cut
    short. A batch with a wrong checksum or unreadable records is left out and returned as the last
    value. A compressed batch is also returned there, and the caller opens it. With ``has_offsets``
    entries are plain tuples, and the key of a committed offset is the tuple of group, topic and
    partition.

    Raises:
        CorruptMessage: The bytes are no batch, so the start of the next one is not known.
    """
    read, position, status = read_journal(buffer, position, max_entries, has_offsets)
    entries = cast("list[Entry]", read) if has_offsets else [Entry._make(each) for each in read]
    if not status:
        return entries, position, None
    header = BatchHeader.read(buffer, position)
    if status == constants.NO_BATCH:
        raise CorruptMessage(f"the batch at offset {header.base_offset} cannot be read")
    end = position + header.size
    if status == constants.DAMAGED:
        return entries, end, LeftOut(header.base_offset, "the checksum does not hold")
    if status == constants.UNREADABLE:
        return entries, end, LeftOut(header.base_offset, "a record in it cannot be read")
    try:
        return entries, end, Folded(buffer[position:end])
    except KafkaError as error:
        return entries, end, LeftOut(header.base_offset, str(error))
