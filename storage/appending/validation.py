"""Checks a producer's batch before it is appended (Kafka: ProduceRequest, LogValidator).

The order of the checks and their errors are Kafka's. Two deliberate differences: a compressed batch
is opened only where a rule needs its records (docs/decisions/0002), and an uncompressed batch whose
offset deltas are not 0, 1, 2, … is refused, where Kafka would store it.

It computes only on the caller's bytes; any thread may call it. Where possible it corrects a batch
in place: the buffer must be writable, and belongs to the `ValidatedBatch` afterwards.
"""

from struct import Struct
from typing import Final, NamedTuple

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core import check_batch, constants, walk_records
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    RecordListTooLarge,
    RecordTooLarge,
    UnsupportedCompressionType,
)
from siltstone.protocol.records.batch import BatchHeader, stamp_timestamp
from siltstone.protocol.records.compression import MAX_RATIO, NONE, ZSTD, UnfoldsTooFar
from siltstone.protocol.records.record import unfold_records
from siltstone.storage.appending.batch import ValidatedBatch
from siltstone.storage.appending.recompression import find_codec, rebuild
from siltstone.storage.appending.record_errors import (
    Limits,
    find_stamp_error,
    refuse_records,
    refuse_whole,
)
from siltstone.storage.appending.refused_batches import (
    INVALID_MAGIC_NUMBER,
    INVALID_MESSAGE_CRC,
    INVALID_OFFSET_OR_SEQUENCE,
    UNFOLDS_TOO_FAR,
)

_FIRST_ZSTD_VERSION: Final = 7
_MIN_LEGACY_SIZE: Final = 14 + constants.LOG_OVERHEAD
_WRITTEN_ATTRIBUTES: Final = 0x7F & ~constants.LOG_APPEND_TIME
_BAD_RECORDS: Final = constants.NULL_KEY | constants.TIMESTAMP_OUTSIDE

_read_length = Struct(">i").unpack_from


class _Content(NamedTuple):
    """The records as far as they are known; `data` is None if the batch was not opened."""

    data: bytes | memoryview | None
    flags: int
    max_timestamp: int


def check_records(records: memoryview | None, version: int) -> memoryview:
    """Return the one batch of a partition, without a tail that was cut short.

    Raises:
        InvalidRecord: there is no whole batch, more than one batch, or a batch of an old format.
        CorruptMessage: no batch can have this length or this magic.
        UnsupportedCompressionType: zstd before Produce v7.
    """
    if records is None:
        raise InvalidRecord("the request holds no record batch for the partition")
    there = len(records)
    size = _find_size(records, there)
    if size == 0:
        raise InvalidRecord("the request holds no whole record batch for the partition")
    if records[constants.MAGIC_POSITION] != constants.MAGIC:
        raise InvalidRecord(
            f"the batch has magic {records[constants.MAGIC_POSITION]}; only magic "
            f"{constants.MAGIC} can be produced",
            counted_as=INVALID_MAGIC_NUMBER,
        )
    if size < constants.HEADER_SIZE:
        raise CorruptMessage(f"a batch of {size} bytes is shorter than its header")
    if (
        records[constants.ATTRIBUTES_POSITION + 1] & constants.CODEC_MASK == ZSTD
        and version < _FIRST_ZSTD_VERSION
    ):
        raise UnsupportedCompressionType(
            f"zstd needs Produce v{_FIRST_ZSTD_VERSION}; the request is v{version}"
        )
    if size == there:
        return records
    if _find_size(records[size:], there - size):
        raise InvalidRecord("the request holds more than one record batch for the partition")
    return records[:size]


def must_open(records: memoryview, config: TopicConfig) -> bool:
    """Tell whether `validate` will open the batch; a thread should validate a large one then."""
    if len(records) < constants.HEADER_SIZE:
        return False
    header = BatchHeader.read(records)
    return find_codec(header.codec, config) != header.codec or _needs_records(header, config)


def validate(records: memoryview, config: TopicConfig, now_ms: int) -> ValidatedBatch:
    """Check exactly one batch of a client, rule by rule; return it ready to be appended.

    `storage.appending.batch.PlainRules` is faster, for batches that break no rule.

    Raises:
        InvalidRecord: a header field, a record or a key is invalid, or a record too large, opened.
        InvalidTimestamp: a timestamp is outside the topic's limits.
        RecordTooLarge: the batch is larger than max.message.bytes, as sent or as recompressed.
        RecordListTooLarge: the batch is larger than segment.bytes.
        CorruptMessage: length, CRC or compressed bytes are damaged.
    """
    size = len(records)
    if size < constants.HEADER_SIZE:
        raise CorruptMessage(f"a batch of {size} bytes is shorter than its header")
    header = BatchHeader.read(records)
    if header.base_offset:
        raise InvalidRecord(
            f"a producer's batch must have base offset 0, not {header.base_offset}",
            counted_as=INVALID_OFFSET_OR_SEQUENCE,
        )
    if size > config.max_message_bytes:
        raise RecordTooLarge(
            f"the batch has {size} bytes; max.message.bytes is {config.max_message_bytes}"
        )
    limits = Limits.of(config, now_ms, header.attributes)
    verdict = check_batch(records, limits.low, limits.high, config.is_compacted)
    if header.size != size or header.magic != constants.MAGIC:
        raise CorruptMessage(
            f"the batch says to have {header.size} bytes and magic {header.magic};"
            f" {size} bytes have come"
        )
    if verdict[0] == constants.WRONG_CRC:
        raise CorruptMessage(
            "the checksum of the batch does not match its bytes", counted_as=INVALID_MESSAGE_CRC
        )
    _check_header(header)
    stamp_error = find_stamp_error(header, config, now_ms)
    content = _read_content(records, header, config, limits, verdict)
    if content.data is None:
        _check_unopened(header, limits, stamp_error)
    elif content.flags & _BAD_RECORDS or stamp_error is not None:
        refuse_records(
            header, content.data, limits, keys_required=config.is_compacted, stamp_error=stamp_error
        )
    return _store(records, header, config, now_ms, content)


def _check_header(header: BatchHeader) -> None:
    if header.codec >= len(MAX_RATIO):
        raise InvalidRecord(f"there is no compression codec {header.codec}; Kafka has 0 to 4")
    if header.count < 1 or header.count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"the batch says to hold {header.count} records and offsets up to"
            f" {header.last_offset_delta}; the number must be positive and one more",
            counted_as=INVALID_OFFSET_OR_SEQUENCE,
        )
    if header.is_control:
        raise InvalidRecord("control batches are written by the broker alone")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(
            f"producer {header.producer_id} sent a batch without a sequence",
            counted_as=INVALID_OFFSET_OR_SEQUENCE,
        )


def _needs_records(header: BatchHeader, config: TopicConfig) -> bool:
    """Tell whether a rule other than that of the codec needs the records of a compressed batch."""
    if header.codec == NONE:
        return False
    if config.is_compacted or config.limits_records:
        return True
    return header.max_timestamp < header.base_timestamp and not config.is_log_append_time


def _read_content(
    records: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    limits: Limits,
    verdict: tuple[int, int, int],
) -> _Content:
    payload = records[constants.HEADER_SIZE :]
    if header.codec == NONE:
        flags, index, largest = verdict
        data: bytes | memoryview = payload
    else:
        max_count = len(payload) * MAX_RATIO[header.codec] // constants.MIN_RECORD_BYTES
        if header.count > max_count:
            raise InvalidRecord(
                f"{len(payload)} bytes cannot hold {header.count} records",
                counted_as=UNFOLDS_TOO_FAR,
            )
        if find_codec(header.codec, config) == header.codec and not _needs_records(header, config):
            return _Content(None, 0, header.max_timestamp)
        try:
            parts = unfold_records(header.codec, payload, config.max_decompressed_message_bytes)
            data = b"".join(parts)
        except UnfoldsTooFar as error:
            raise InvalidRecord(error.message, counted_as=UNFOLDS_TOO_FAR) from error
        flags, index, largest = walk_records(
            data,
            0,
            len(data),
            header.count,
            header.base_timestamp,
            limits.low,
            limits.high,
            config.is_compacted,
        )
    if flags < 0:
        raise InvalidRecord(f"record {index} of the batch is broken: {constants.FAULTS[flags]}")
    if header.codec == NONE and flags & constants.UNEVEN_OFFSETS:
        raise InvalidRecord(
            "the offset deltas of the batch are not 0, 1, 2 and so on",
            counted_as=INVALID_OFFSET_OR_SEQUENCE,
        )
    return _Content(data, flags, largest)


def _check_unopened(header: BatchHeader, limits: Limits, stamp_error: str | None) -> None:
    """Compare the header's first and largest timestamps with the limits."""
    if stamp_error is not None:
        refuse_whole(stamp_error)
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if not limits.allow(timestamp):
            refuse_whole(limits.explain(timestamp))


def _store(
    records: memoryview, header: BatchHeader, config: TopicConfig, now_ms: int, content: _Content
) -> ValidatedBatch:
    """Correct the batch in place, or rebuild it if its codec or its offset deltas must change."""
    is_stamped = config.is_log_append_time
    time_bit = constants.LOG_APPEND_TIME if is_stamped else 0
    max_timestamp = now_ms if is_stamped else content.max_timestamp
    is_rebuilt = (
        find_codec(header.codec, config) != header.codec or content.flags & constants.UNEVEN_OFFSETS
    )
    if is_rebuilt and content.data is not None:
        rows = rebuild(
            header._replace(max_timestamp=max_timestamp),
            content.data,
            config,
            flags=time_bit,
            is_uneven=content.flags & (constants.NEEDS_REWRITE | constants.UNEVEN_OFFSETS) != 0,
        )
        records = memoryview(rows)
        header = BatchHeader.read(records)
    elif (
        header.attributes & constants.LOG_APPEND_TIME != time_bit
        or header.max_timestamp != max_timestamp
    ):
        attributes = header.attributes & _WRITTEN_ATTRIBUTES | time_bit
        stamp_timestamp(records, attributes, max_timestamp)
        header = BatchHeader.read(records)
    if len(records) > config.segment_bytes:
        raise RecordListTooLarge(
            f"the batch has {len(records)} bytes; a segment may have {config.segment_bytes}"
        )
    return ValidatedBatch(
        records,
        len(records),
        header.last_offset_delta,
        header.count,
        header.attributes,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        now_ms if is_stamped else constants.NO_TIMESTAMP,
    )


def _find_size(records: memoryview, there: int) -> int:
    """Return the size of the first batch, or 0 if it is cut short."""
    if there <= constants.MAGIC_POSITION:
        return 0
    size: int = _read_length(records, constants.LENGTH_POSITION)[0] + constants.LOG_OVERHEAD
    if size < _MIN_LEGACY_SIZE or records[constants.MAGIC_POSITION] > constants.MAGIC:
        raise CorruptMessage(
            f"a batch says to have {size} bytes and magic {records[constants.MAGIC_POSITION]}"
        )
    return size if size <= there else 0
