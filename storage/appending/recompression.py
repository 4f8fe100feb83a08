"""Compresses a batch with its topic's codec (`compression.type`; Kafka's LogValidator)."""

from typing import TYPE_CHECKING

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import rewrite_records
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import InvalidRecord, RecordTooLarge
from siltstone.protocol.records import compression
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import frame_batch
from siltstone.protocol.records.record import read_record

if TYPE_CHECKING:
    from typing_extensions import Buffer


_CODECS = {
    "uncompressed": compression.NONE,
    "gzip": compression.GZIP,
    "snappy": compression.SNAPPY,
    "lz4": compression.LZ4,
    "zstd": compression.ZSTD,
}


def find_codec(codec: int, config: "TopicConfig") -> int:
    """Return the codec with which a batch is stored that was sent with `codec`."""
    return _CODECS.get(config.compression_type, codec)


def rebuild(
    header: "BatchHeader",
    data: "bytes | memoryview",
    config: "TopicConfig",
    *,
    flags: int,
    is_uneven: bool,
) -> bytearray:
    """Return a new batch of checked records with the topic's codec; producer fields are kept.

    With `is_uneven` deltas and record attributes are written again: Kafka tolerates clients that
    number compressed records wrongly.

    Raises:
        RecordTooLarge: the new batch is larger than max.message.bytes.
        InvalidRecord: two timestamps lie further apart than a delta can hold.
    """
    base_timestamp = header.base_timestamp
    rows: Buffer = data
    if is_uneven:
        rows = _renumber(data, header.count)
        base_timestamp += read_record(data, 0, len(data)).timestamp_delta
    codec = find_codec(header.codec, config)
    batch = frame_batch(
        compression.compress(codec, rows, _level(codec, config)),
        header.count,
        codec=codec,
        flags=header.attributes & TRANSACTIONAL | flags,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    if len(batch) > config.max_message_bytes:
        raise RecordTooLarge(
            f"recompressed with {compression.NAMES[codec]} the batch has {len(batch)} bytes;"
            f" max.message.bytes is {config.max_message_bytes}"
        )
    return batch


def _renumber(data: "bytes | memoryview", count: int) -> bytearray:
    size = rewrite_records(data, 0, len(data), count, bytearray())
    if size < 0:
        raise InvalidRecord("the timestamps of the batch lie too far apart")
    rows = bytearray(size)
    rewrite_records(data, 0, len(data), count, rows)
    return rows


def _level(codec: int, config: "TopicConfig") -> int | None:
    if codec == compression.GZIP:
        return config.compression_gzip_level
    if codec == compression.LZ4:
        return config.compression_lz4_level
    if codec == compression.ZSTD:
        return config.compression_zstd_level
    return None
