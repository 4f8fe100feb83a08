"""The 61-byte header of a record batch, magic 2 (Kafka's DefaultRecordBatch).

A `.log` file consists of batches back to back. The CRC covers byte 21 to the end, so the broker
stamps base offset and leader epoch into a client's batch without a new CRC.

    position  bytes  field                 note
           0      8  base_offset           first offset of the original batch; survives compaction
           8      4  length                bytes after this field: size - 12
          12      4  leader_epoch          written by the broker, -1 from clients
          16      1  magic                 2
          17      4  crc                   CRC-32C of bytes 21..end
          21      2  attributes            codec 0-2, LogAppendTime 3, transactional 4, control 5,
                                           delete horizon 6
          23      4  last_offset_delta     last offset - base offset; survives compaction
          27      8  base_timestamp        base of the records' deltas, or the delete horizon
          35      8  max_timestamp         largest of the records, or the append time
          43      8  producer_id           -1 = none
          51      2  producer_epoch        -1 = none
          53      4  base_sequence         -1 = none; survives compaction
          57      4  count                 records present, 0 in a batch emptied by the cleaner
          61      …  records               plain, or one compressed stream
"""

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.protocol.core import constants, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEADER: Final = struct.Struct(">qiibIhiqqqhii")

_SEQUENCES: Final = 1 << 31
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_ATTRIBUTES: Final = struct.Struct(">h")

_read = HEADER.unpack_from
_write_int64 = _INT64.pack_into
_write_int32 = _INT32.pack_into


class BatchHeader(NamedTuple):
    """The fields of a batch header in their order on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's word; nobody counts a header's fields

    @classmethod
    def read(cls, buffer: "Buffer", position: int = 0) -> "BatchHeader":
        """Read the header at `position` without any checks.

        Raises:
            struct.error: there are fewer than 61 bytes.
        """
        return cls._make(_read(buffer, position))

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.length + constants.LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The last offset that the batch stands for, inclusive."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last sequence, wrapping from 2^31-1 to 0; -1 without a base sequence."""
        if self.base_sequence < 0:
            return constants.NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) % _SEQUENCES

    @property
    def codec(self) -> int:
        """The compression codec, 0 to 4; 5 to 7 are illegal."""
        return self.attributes & constants.CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record's timestamp is `max_timestamp`, the time of the append."""
        return self.attributes & constants.LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & constants.TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a marker instead of data."""
        return self.attributes & constants.CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether `base_timestamp` is the time after which tombstones may go (KIP-534)."""
        return self.attributes & constants.DELETE_HORIZON != 0


def stamp(buffer: "Buffer", position: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch into the batch at `position`; the CRC stays valid."""
    _write_int64(buffer, position, base_offset)
    _write_int32(buffer, position + constants.LEADER_EPOCH_POSITION, leader_epoch)


def stamp_timestamp(batch: memoryview, attributes: int, max_timestamp: int) -> None:
    """Write attributes, max timestamp and the new CRC into a view of exactly one batch."""
    _ATTRIBUTES.pack_into(batch, constants.ATTRIBUTES_POSITION, attributes)
    _write_int64(batch, constants.MAX_TIMESTAMP_POSITION, max_timestamp)
    _UINT32.pack_into(batch, constants.CRC_POSITION, crc32c(batch[constants.ATTRIBUTES_POSITION :]))


def has_valid_crc(batch: memoryview, crc: int) -> bool:
    """Whether `crc` is the CRC-32C of a view of exactly one batch."""
    return crc32c(batch[constants.ATTRIBUTES_POSITION :]) == crc
