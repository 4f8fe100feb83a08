"""Produce validation: what is stored in the end, in place, closed, opened or packed again."""

import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import (
    ATTRIBUTES_POSITION,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    KafkaError,
    RecordListTooLarge,
    RecordTooLarge,
)
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import build_batch, frame_batch
from siltstone.protocol.records.compression import (
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
)
from siltstone.protocol.records.record import Record, iterate_records
from siltstone.storage.appending.validation import must_open
from tests.support.batches import TIMESTAMP, Row, make_batch, make_producer_batch
from tests.support.validating import (
    CODECS,
    COMPACT,
    DELETE,
    HOUR,
    NOW,
    STAMPED,
    accept,
    every_codec,
    every_packed,
    fields_of,
    limited,
    refuse,
    renew_crc,
    with_fields,
)

# Step C: a client that stamps


@every_codec
def test_only_the_broker_stamps(codec: int) -> None:
    """LogAppendTime from a client is refused where the broker would stamp."""
    batch = make_batch(2, codec=codec, flags=LOG_APPEND_TIME)

    refusal = refuse(batch, STAMPED)

    assert type(refusal) is InvalidTimestamp
    assert [index for index, _ in refusal.record_errors] == ([0] if codec else [0, 1])


@every_codec
def test_a_stamp_on_a_create_time_topic_is_dropped(codec: int) -> None:
    """The bit goes, the times stay."""
    validated = accept(make_batch(2, codec=codec, flags=LOG_APPEND_TIME))

    assert validated.attributes == codec
    assert validated.max_timestamp == TIMESTAMP + 1
    assert [row.timestamp for row in iterate_records(validated.buffer)] == [
        TIMESTAMP,
        TIMESTAMP + 1,
    ]


@every_codec
@pytest.mark.parametrize("timestamp", [-1, NOW + 2 * HOUR])
def test_a_stamp_is_held_against_the_limits(codec: int, timestamp: int) -> None:
    """Kafka takes the header's time as every record's; none at all is refused here."""
    batch = make_batch(2, codec=codec, flags=LOG_APPEND_TIME, max_timestamp=timestamp)

    assert type(refuse(batch)) is InvalidTimestamp


# Storing: in place


@every_codec
def test_the_broker_stamps_in_place(codec: int) -> None:
    """LogAppendTime: bit 3, now as max timestamp, a new checksum; the records stay as they are."""
    batch = make_batch(3, codec=codec)
    payload = batch[HEADER_SIZE:]

    validated = accept(batch, STAMPED)

    assert validated.buffer.obj is batch
    assert validated.attributes == codec | LOG_APPEND_TIME
    assert validated.max_timestamp == validated.log_append_time_ms == NOW
    assert batch[HEADER_SIZE:] == payload
    assert {row.timestamp for row in iterate_records(batch)} == {NOW}


@pytest.mark.parametrize("claimed", [TIMESTAMP - 5, TIMESTAMP + 99, -1])
def test_a_wrong_max_timestamp_is_corrected(claimed: int) -> None:
    """The records know better than the header."""
    validated = accept(make_batch(3, max_timestamp=claimed))

    assert validated.max_timestamp == TIMESTAMP + 2


@every_packed
def test_a_max_timestamp_below_the_base_opens_the_batch(codec: int) -> None:
    """A header that contradicts its records is corrected, without packing them again."""
    batch = make_batch(3, codec=codec, max_timestamp=TIMESTAMP - 5)
    payload = batch[HEADER_SIZE:]

    assert must_open(memoryview(batch), DELETE)
    assert accept(batch).max_timestamp == TIMESTAMP + 2
    assert batch[HEADER_SIZE:] == payload


# Compressed batches that stay closed


@every_packed
def test_a_closed_batch_is_taken_as_it_came(codec: int) -> None:
    """On a delete topic nobody looks inside: even junk passes (decision 0002)."""
    batch = frame_batch(
        b"junk" * 10, 3, codec=codec, base_timestamp=TIMESTAMP, max_timestamp=TIMESTAMP
    )

    assert not must_open(memoryview(batch), DELETE)
    assert accept(batch).count == 3
    assert type(refuse(batch, COMPACT)) is CorruptMessage


@every_packed
def test_a_closed_batch_names_one_record_for_all(codec: int) -> None:
    """The header's largest time is outside: record 0 stands for whichever it was."""
    rows = [Record(0, NOW, b"k", b""), Record(1, NOW + 2 * HOUR, b"k", b"")]

    refusal = refuse(build_batch(rows, codec=codec))

    assert type(refusal) is InvalidTimestamp
    assert [index for index, _ in refusal.record_errors] == [0]


@every_packed
def test_a_count_beyond_the_codecs_best_is_refused(codec: int) -> None:
    """A few bytes cannot burn two thousand million offsets."""
    payload = compress(codec, b"x")

    refusal = refuse(frame_batch(payload, 2**31 - 1, codec=codec))

    assert type(refusal) is InvalidRecord


@pytest.mark.parametrize("codec", [GZIP, LZ4, ZSTD])
def test_the_best_ratio_of_a_codec_is_believed(codec: int) -> None:
    """A hundred thousand equal records are no lie."""
    row = bytes.fromhex("0c000000010100")
    batch = frame_batch(compress(codec, row * 100_000), 100_000, codec=codec)

    assert accept(batch).count == 100_000


# Opened batches


@every_packed
@pytest.mark.parametrize("count", [1, 3])
def test_an_opened_batch_must_hold_its_count(codec: int, count: int) -> None:
    """The stream ends exactly with the last record."""
    payload = make_batch(2, codec=codec)[HEADER_SIZE:]

    refusal = refuse(frame_batch(payload, count, codec=codec), COMPACT)

    assert type(refusal) is InvalidRecord


def test_a_bomb_is_refused() -> None:
    """A batch that unfolds to more than 64 MiB is not opened further."""
    payload = compress(ZSTD, bytes(65 << 20))

    refusal = refuse(frame_batch(payload, 1, codec=ZSTD), COMPACT)

    assert type(refusal) is InvalidRecord
    assert "unfolds" in refusal.message


@every_packed
def test_uneven_offsets_are_numbered_anew(codec: int) -> None:
    """Old clients number compressed records wrongly; Kafka helps them, so do we."""
    rows = [
        Record(0, TIMESTAMP, b"a", b"1", ((b"h", None),)),
        Record(5, TIMESTAMP - 9, b"b", None),
        Record(2, TIMESTAMP + 3, b"c", b""),
    ]
    batch = build_batch(rows, codec=codec, base_timestamp=TIMESTAMP - 50, last_offset_delta=2)

    validated = accept(batch, COMPACT)

    assert validated.max_timestamp == TIMESTAMP + 3
    assert BatchHeader.read(validated.buffer).base_timestamp == TIMESTAMP
    assert list(iterate_records(validated.buffer)) == [
        row._replace(offset=index) for index, row in enumerate(rows)
    ]


# Recompression


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("name", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_the_topic_names_the_codec(source: int, name: str) -> None:
    """Another codec is packed again, the same one stays as it is; everything else is kept."""
    config = TopicConfig(compression_type=name)
    target = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}.get(name, source)
    batch = make_producer_batch(9, 20)
    if source:
        batch = make_batch(20, codec=source, producer_id=4000, producer_epoch=0, base_sequence=9)
    records = list(iterate_records(batch))
    payload = batch[HEADER_SIZE:]

    assert must_open(memoryview(batch), config) == (target != source)
    validated = accept(batch, config)

    assert validated.attributes == target
    size, times = validated.size, validated.max_timestamp
    assert fields_of(validated) == (size, 19, 20, target, times, 4000, 0, 9, -1)
    assert list(iterate_records(validated.buffer)) == records
    assert (validated.buffer[HEADER_SIZE:] == payload) == (target == source)


def test_recompression_keeps_the_transactional_bit_and_drops_reserved_ones() -> None:
    """Kafka writes zero above the bits that it knows."""
    batch = with_fields(make_batch(), attributes=TRANSACTIONAL | 0x4080 | LOG_APPEND_TIME)

    validated = accept(batch, TopicConfig(compression_type="lz4"))

    assert validated.attributes == TRANSACTIONAL | LZ4


def test_recompression_begins_at_the_first_record() -> None:
    """The base timestamp of a rebuilt batch is the first record's; record attributes are 0."""
    rows = [Record(0, TIMESTAMP, b"a", b""), Record(1, TIMESTAMP + 7, b"b", b"")]
    batch = build_batch(rows, base_timestamp=TIMESTAMP - 1000)

    validated = accept(batch, TopicConfig(compression_type="gzip"))

    assert BatchHeader.read(validated.buffer).base_timestamp == TIMESTAMP
    assert list(iterate_records(validated.buffer)) == rows


def test_recompression_and_append_time_together() -> None:
    """Both rules write one batch."""
    config = TopicConfig(compression_type="snappy", message_timestamp_type="LogAppendTime")

    validated = accept(make_batch(3, codec=GZIP), config)

    assert validated.attributes == SNAPPY | LOG_APPEND_TIME
    assert validated.max_timestamp == validated.log_append_time_ms == NOW


@pytest.mark.parametrize(
    ("settings", "better"),
    [
        ({"compression_gzip_level": 1}, {"compression_gzip_level": 9}),
        ({"compression_lz4_level": 9}, {"compression_lz4_level": 12}),
        ({"compression_zstd_level": -1000}, {"compression_zstd_level": 19}),
    ],
)
def test_levels_are_the_topics(settings: dict[str, int], better: dict[str, int]) -> None:
    """A higher level packs tighter; level 9 of lz4 is its fast one."""
    name = next(iter(settings)).split("_")[1]
    rows: Any = [(b"%d" % (n * n), b"value of %d" % (n % 77)) for n in range(3000)]
    sizes = [
        accept(make_batch(rows), TopicConfig(compression_type=name, **level)).size  # type: ignore[arg-type]
        for level in (settings, better)
    ]

    assert sizes[1] < sizes[0]


def test_the_size_after_recompression_counts() -> None:
    """A batch that grows above max.message.bytes is too large."""
    batch = make_batch([(b"k", bytes(5000))], codec=ZSTD)
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=1000)

    refusal = refuse(batch, config)

    assert type(refusal) is RecordTooLarge
    assert "recompressed" in refusal.message


def test_a_batch_larger_than_a_segment_is_refused() -> None:
    """The limit itself passes; the size is the one that would be stored."""
    batch = make_batch(5)
    stored = accept(make_batch(5), TopicConfig(compression_type="gzip"))

    accept(batch, TopicConfig(segment_bytes=len(batch)))
    accept(make_batch(5), TopicConfig(segment_bytes=stored.size, compression_type="gzip"))
    assert type(refuse(batch, TopicConfig(segment_bytes=len(batch) - 1))) is RecordListTooLarge


@every_codec
def test_a_record_that_is_too_large_opened_is_refused(codec: int) -> None:
    """As Apache Kafka 4.4.0 does, by the size that the record says; one in the clear passes."""
    size = len(make_batch([(b"k", b"v" * 1000)])) - HEADER_SIZE - 2  # of its own size
    exact = TopicConfig(max_decompressed_message_bytes=size)
    tight = TopicConfig(max_decompressed_message_bytes=size - 1)
    rows: list[Row] = [(b"k", b"v"), (b"k", b"v" * 1000), (b"k", b"v")]

    accept(make_batch(rows, codec=codec), exact)
    if codec == NONE:
        accept(make_batch(rows), tight)
        return
    error = refuse(make_batch(rows, codec=codec), tight)
    assert type(error) is InvalidRecord
    assert f"a record of the batch has {size} bytes" in error.message


@every_packed
def test_a_large_record_is_not_unfolded_to_its_end(codec: int) -> None:
    """A record of 10 MiB takes no more memory than parts of it; snappy's blocks are small."""
    batch = make_batch([(b"k", bytes(10 << 20))], codec=codec)
    tracemalloc.start()

    refuse(batch, TopicConfig(max_decompressed_message_bytes=1000))

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20


# must_open


@every_packed
def test_rules_that_open_a_batch(codec: int) -> None:
    """Compaction and another codec do; append time and limits do not."""
    records = memoryview(make_batch(codec=codec))
    plain = memoryview(make_batch())

    assert must_open(records, COMPACT)
    assert must_open(records, TopicConfig(max_decompressed_message_bytes=1 << 30))
    assert must_open(records, TopicConfig(compression_type="uncompressed"))
    assert not must_open(records, DELETE)
    assert not must_open(records, STAMPED)
    assert not must_open(records, limited())
    assert must_open(plain, TopicConfig(compression_type="gzip"))
    assert not must_open(plain, COMPACT)


@pytest.mark.parametrize("size", [0, 20, 60])
def test_what_is_no_batch_is_not_opened(size: int) -> None:
    """It is asked before anything was checked."""
    assert not must_open(memoryview(bytes(size)), COMPACT)


@pytest.mark.parametrize("damage", [bytes, lambda size: b"\xff" * size])
def test_header_bytes_of_any_kind_are_an_answer(damage: "Callable[[int], bytes]") -> None:
    """Whatever the header says under a valid checksum, the answer is a batch or a KafkaError."""
    for codec in CODECS:
        for start in range(ATTRIBUTES_POSITION, HEADER_SIZE):
            for width in (1, 2, 4, 8):
                batch = make_batch(2, codec=codec)
                part = damage(min(width, HEADER_SIZE - start))
                batch[start : start + len(part)] = part
                renew_crc(batch)
                for config in (DELETE, COMPACT, STAMPED, limited(compression_type="lz4")):
                    with suppress(KafkaError):
                        accept(bytearray(batch), config)


def test_the_cap_protects_decompression() -> None:
    """The default cap is what the decision says."""
    with pytest.raises(InvalidRecord):
        decompress(GZIP, compress(GZIP, bytes((64 << 20) + 1)))
