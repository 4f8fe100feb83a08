"""``<offset>.snapshot``: the producers of a partition up to, not including, an offset.

    position  bytes  field
           0      2  version, 1
           2      4  CRC-32C of everything from byte 6 on
           6      4  count of entries
          10     46  each entry:
                       producer id int64, epoch int16, last sequence int32, last offset int64,
                       offset delta int32, timestamp int64, coordinator epoch int32,
                       first offset of the open transaction int64

Kafka: ``ProducerStateManager``. A snapshot has only the last batch of a producer, so after a
restart only that batch is recognised if it is sent again. A producer without a batch has -1 for
last sequence and last offset.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from siltstone.protocol.core import crc32c
from siltstone.storage import files
from siltstone.storage.producers.entry import SEQUENCES, AppendedBatch
from siltstone.storage.producers.producer_entry import ProducerEntry

if TYPE_CHECKING:
    from typing_extensions import Buffer

VERSION: Final = 1
HEAD: Final = struct.Struct(">hIi")
ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_END: Final = 6


class CorruptSnapshot(Exception):  # noqa: N818  # Kafka's name
    """A snapshot cannot be used; an older one, or the log, is read instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The bytes of a snapshot, taken under the log's lock and written outside it."""

    offset: int
    data: bytes

    def write(self, folder: Path, *, fsync: bool = True) -> None:
        """Put the file into the folder; without ``fsync`` a power failure may take it. Blocks."""
        name = files.segment_file_name(self.offset, files.SNAPSHOT)
        files.replace_file(folder / name, self.data, durable=fsync)


def encode(producers: Iterable[tuple[int, ProducerEntry]]) -> bytes:
    """Return the bytes of a snapshot of these producers."""
    entries = [_encode_entry(producer_id, entry) for producer_id, entry in producers]
    body = len(entries).to_bytes(4, "big") + b"".join(entries)
    return VERSION.to_bytes(2, "big") + crc32c(body).to_bytes(4, "big") + body


def decode(
    data: "Buffer", end_offset: int = files.MAX_OFFSET, checksum: "Callable[[Buffer], int]" = crc32c
) -> dict[int, ProducerEntry]:
    """Return the producers in a snapshot of the batches below ``end_offset``.

    Raises:
        CorruptSnapshot: Version, length or CRC is wrong, or a producer has an impossible offset.
    """
    view = memoryview(data)
    if len(view) < HEAD.size:
        raise CorruptSnapshot(f"{len(view)} bytes are too few")
    version, crc, count = HEAD.unpack_from(view)
    if version != VERSION:
        raise CorruptSnapshot(f"version {version} is not {VERSION}")
    if checksum(view[_CRC_END:]) != crc:
        raise CorruptSnapshot("its checksum does not match")
    if len(view) != HEAD.size + count * ENTRY.size:
        raise CorruptSnapshot(f"{len(view)} bytes do not hold {count} producers")
    producers = dict(map(_decode_entry, ENTRY.iter_unpack(view[HEAD.size :])))
    for producer_id, entry in producers.items():
        batch = entry.last_batch
        last_offset = batch.last_offset if batch else -1
        is_within = last_offset < end_offset and entry.transaction_first_offset < end_offset
        if producer_id < 0 or not is_within or (batch and batch.first_offset < 0):
            raise CorruptSnapshot(f"producer {producer_id} has offsets that it cannot have")
    return producers


def _encode_entry(producer_id: int, entry: ProducerEntry) -> bytes:
    batch = entry.last_batch
    return ENTRY.pack(
        producer_id,
        entry.epoch,
        batch.last_sequence if batch else -1,
        batch.last_offset if batch else -1,
        batch.last_offset - batch.first_offset if batch else 0,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.transaction_first_offset,
    )


def _decode_entry(fields: tuple[int, ...]) -> tuple[int, ProducerEntry]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator, first = fields
    entry = ProducerEntry(epoch)
    if last_offset >= 0:
        first_sequence = (last_sequence - delta) % SEQUENCES if last_sequence >= 0 else -1
        entry.add(
            AppendedBatch(
                first_sequence, last_sequence, last_offset - delta, last_offset, timestamp
            )
        )
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator
    entry.transaction_first_offset = first
    return producer_id, entry
