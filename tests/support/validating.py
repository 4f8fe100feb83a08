"""Validation in one call, for tests of whether and how a batch is accepted."""

from typing import Any

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import crc32c
from siltstone.protocol.core.constants import ATTRIBUTES_POSITION, CRC_POSITION
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.records.batch import HEADER, BatchHeader, has_valid_crc
from siltstone.protocol.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from siltstone.storage.appending.batch import PlainRules, ValidatedBatch
from siltstone.storage.appending.validation import validate
from tests.support.batches import TIMESTAMP

NOW = TIMESTAMP + 60_000
HOUR = 3_600_000
DELETE = TopicConfig()
COMPACT = TopicConfig(cleanup_policy=("compact",))
STAMPED = TopicConfig(message_timestamp_type="LogAppendTime")
CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
PACKED = CODECS[1:]
every_codec = pytest.mark.parametrize("codec", CODECS)
every_packed = pytest.mark.parametrize("codec", PACKED)


def fields_of(batch: ValidatedBatch | None) -> tuple[Any, ...] | None:
    """Return the result of validation of a batch, without its bytes."""
    if batch is None:
        return None
    return (
        batch.size,
        batch.last_offset_delta,
        batch.count,
        batch.attributes,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.log_append_time_ms,
    )


def accept(batch: bytearray, config: TopicConfig = DELETE, now_ms: int = NOW) -> ValidatedBatch:
    """Validate a batch, and check what is true of every accepted batch."""
    plain = fields_of(PlainRules(config).take(memoryview(batch), now_ms))
    validated = validate(memoryview(batch), config, now_ms)
    fields = fields_of(validated)

    assert plain in (None, fields)
    header = BatchHeader.read(validated.buffer)
    assert header.size == validated.size == len(validated.buffer)
    assert has_valid_crc(validated.buffer, header.crc)
    assert fields is not None
    assert fields[1:8] == (
        header.last_offset_delta,
        header.count,
        header.attributes,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )
    return validated


def refuse(batch: bytearray, config: TopicConfig = DELETE, now_ms: int = NOW) -> KafkaError:
    """Validate what must be refused and return the refusal."""
    assert PlainRules(config).take(memoryview(batch), now_ms) is None
    with pytest.raises(KafkaError) as refusal:
        validate(memoryview(batch), config, now_ms)
    return refusal.value


def renew_crc(batch: bytearray) -> bytearray:
    """Give a batch that a test has changed the right checksum."""
    crc = crc32c(bytes(batch[ATTRIBUTES_POSITION:]))
    batch[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return batch


def with_fields(batch: bytearray, **fields: Any) -> bytearray:
    """Return the batch with other header fields and the right checksum."""
    header = BatchHeader.read(batch)._replace(**fields)
    changed = bytearray(batch)
    HEADER.pack_into(changed, 0, *header)
    return renew_crc(changed)


def limited(before: int = HOUR, after: int = HOUR, **settings: Any) -> TopicConfig:
    """Return a topic that accepts only timestamps near the clock's time."""
    return TopicConfig(
        message_timestamp_before_max_ms=before, message_timestamp_after_max_ms=after, **settings
    )
