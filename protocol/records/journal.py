"""Batches of an internal topic as a coordinator writes and reads them: a journal of its state.

Written is one plain batch for each operation; read is whatever lies there, compressed batches
and markers included.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from protocol.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
)
from protocol.records.build import build_batch
from protocol.records.record import Record, iterate_records

Row = tuple[bytes, bytes | None]
"""A record to be written: key and value, None for a tombstone."""


class EntryKind(IntEnum):
    """What an entry of a journal is to its reader."""

    PLAIN = 0
    TRANSACTIONAL = 1
    """It counts when, and only if, its producer's COMMIT follows in the same partition."""
    ABORT = 2
    COMMIT = 3


class Entry(NamedTuple):
    """One record read back; markers have neither key nor value."""

    offset: int
    kind: int
    key: bytes
    value: bytes | None
    producer_id: int
    producer_epoch: int


class Producer(NamedTuple):
    """On whose behalf a transactional batch is written."""

    id: int
    epoch: int


NO_PRODUCER: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def encode_rows(rows: Sequence[Row], now_ms: int, producer: Producer = NO_PRODUCER) -> bytearray:
    """Return one batch of these records, transactional if there is a producer."""
    return build_batch(
        [Record(delta, now_ms, key, value) for delta, (key, value) in enumerate(rows)],
        flags=0 if producer.id < 0 else TRANSACTIONAL,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
    )


def read_entries(buffer: memoryview, position: int, most: int) -> tuple[list[Entry], int]:
    """Return the entries of whole batches from ``position`` on, and the position behind them.

    It ends after the batch in which ``most`` was reached, or before one that is cut short.

    Raises:
        CorruptMessage: The bytes are no batch.
        InvalidRecord: A record can not be read.
    """
    entries: list[Entry] = []
    while len(entries) < most and len(buffer) - position >= HEADER_SIZE:
        header = BatchHeader.read(buffer, position)
        end = position + header.length + LOG_OVERHEAD
        if end > len(buffer):
            break
        entries += _entries_of(header, buffer[position:end])
        position = end
    return entries, position


def _entries_of(header: BatchHeader, batch: memoryview) -> list[Entry]:
    producer = header.producer_id, header.producer_epoch
    if header.is_control:
        kinds = [record.key[3] for record in iterate_records(batch) if record.key]
        return [
            Entry(header.base_offset, EntryKind.ABORT + kind, b"", None, *producer)
            for kind in kinds
            if kind in {0, 1}
        ]
    kind = EntryKind.TRANSACTIONAL if header.is_transactional else EntryKind.PLAIN
    return [
        Entry(record.offset, kind, record.key or b"", record.value, *producer)
        for record in iterate_records(batch)
    ]
