"""Produce validation: each rule, its error, and their order."""

import pytest

from siltstone.config.topic import TopicConfig
from siltstone.protocol.core.constants import CONTROL, CRC_POSITION, MAGIC_POSITION, TRANSACTIONAL
from siltstone.protocol.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    RecordTooLarge,
    UnsupportedCompressionType,
)
from siltstone.protocol.records.build import build_batch, frame_batch
from siltstone.protocol.records.compression import ZSTD
from siltstone.protocol.records.record import Record
from siltstone.storage.appending.validation import check_records
from tests.support.batches import TIMESTAMP, make_batch, make_producer_batch
from tests.support.validating import (
    COMPACT,
    DELETE,
    HOUR,
    NOW,
    accept,
    every_codec,
    fields_of,
    limited,
    refuse,
    with_fields,
)

# Step A: the shape of the records


def test_one_batch_is_returned_as_it_is() -> None:
    """The common case copies nothing."""
    records = memoryview(make_batch())

    assert check_records(records, 9) is records


@pytest.mark.parametrize("size", [0, 1, 12, 16, 17, 60, 61])
def test_no_whole_batch_is_an_invalid_record(size: int) -> None:
    """Nothing, or a batch that was cut short, is no batch."""
    with pytest.raises(InvalidRecord, match="no whole record batch"):
        check_records(memoryview(make_batch())[:size], 9)


def test_null_records_are_no_batch() -> None:
    """Null on the wire is refused like nothing."""
    with pytest.raises(InvalidRecord, match="no record batch"):
        check_records(None, 9)


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused(magic: int) -> None:
    """Magic 0 and 1 left Kafka with 4.0 (KIP-896)."""
    batch = make_batch()
    batch[MAGIC_POSITION] = magic

    with pytest.raises(InvalidRecord, match=f"magic {magic}"):
        check_records(memoryview(batch), 9)


@pytest.mark.parametrize("magic", [3, 127, 128, 255])
def test_a_magic_that_never_was_is_corrupt(magic: int) -> None:
    """Kafka's in-memory reader gives up before the format is looked at."""
    batch = make_batch()
    batch[MAGIC_POSITION] = magic

    with pytest.raises(CorruptMessage):
        check_records(memoryview(batch), 9)


@pytest.mark.parametrize("length", [-1, 0, 13, 14, 48])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    """14 is the least of any format, 49 the least of this one."""
    batch = make_batch()
    batch[8:12] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptMessage):
        check_records(memoryview(batch), 9)


def test_two_batches_are_refused() -> None:
    """Exactly one batch per partition since v3."""
    with pytest.raises(InvalidRecord, match="more than one"):
        check_records(memoryview(make_batch() + make_batch()), 9)


@pytest.mark.parametrize("size", [1, 16, 17, 60, 70])
def test_a_tail_that_is_no_whole_batch_is_trimmed(size: int) -> None:
    """A batch that a client cut short is not its error."""
    batch = make_batch(2)

    assert check_records(memoryview(batch + make_batch(2)[:size]), 9) == batch


def test_a_tail_that_cannot_be_a_batch_is_corrupt() -> None:
    """Kafka's reader stumbles over it while it looks for a second batch."""
    with pytest.raises(CorruptMessage):
        check_records(memoryview(make_batch() + bytes(17)), 9)


def test_zstd_needs_version_7() -> None:
    """Older clients cannot have meant it."""
    records = memoryview(make_batch(codec=ZSTD))

    assert check_records(records, 7) is records
    with pytest.raises(UnsupportedCompressionType):
        check_records(records, 6)


# Step B: base offset, size, checksum


def test_a_plain_batch_is_taken_as_it_came() -> None:
    """Nothing is copied, nothing is written."""
    batch = make_producer_batch(7, 3)
    before = bytes(batch)

    validated = accept(batch)

    assert validated.buffer.obj is batch
    assert batch == before
    assert fields_of(validated) == (len(batch), 2, 3, 0, TIMESTAMP + 2, 4000, 0, 7, -1)


def test_a_base_offset_is_refused() -> None:
    """Offsets are the broker's."""
    assert type(refuse(make_batch(base_offset=5))) is InvalidRecord


@every_codec
def test_max_message_bytes_counts_the_batch_as_sent(codec: int) -> None:
    """The limit itself passes."""
    batch = make_batch(5, codec=codec)

    accept(batch, TopicConfig(max_message_bytes=len(batch)))
    assert type(refuse(batch, TopicConfig(max_message_bytes=len(batch) - 1))) is RecordTooLarge


@every_codec
def test_a_flipped_bit_is_corrupt(codec: int) -> None:
    """Wherever under the checksum it is, and before any rule is asked."""
    batch = make_batch([(None, b"v")], codec=codec)

    for position in range(CRC_POSITION, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x10
        assert type(refuse(damaged, COMPACT)) is CorruptMessage


@pytest.mark.parametrize("size", [0, 60, 61, 79])
def test_a_batch_of_another_size_is_corrupt(size: int) -> None:
    """`validate` stands alone: it does not rely on `check_records`."""
    assert type(refuse(make_batch()[:size])) is CorruptMessage


def test_another_magic_is_corrupt_though_the_crc_holds() -> None:
    """The magic lies outside the checksum."""
    batch = make_batch()
    batch[MAGIC_POSITION] = 1

    assert type(refuse(batch)) is CorruptMessage


def test_the_order_is_offset_size_checksum() -> None:
    """A batch with all three faults hears of the first, and so on."""
    tiny = TopicConfig(max_message_bytes=10)
    batch = make_batch(base_offset=5)
    batch[-1] ^= 1

    assert type(refuse(batch, tiny)) is InvalidRecord
    batch[:8] = bytes(8)
    assert type(refuse(batch, tiny)) is RecordTooLarge
    assert type(refuse(batch)) is CorruptMessage


# Step C: the header


@every_codec
@pytest.mark.parametrize(
    ("delta", "count"), [(0, 2), (2, 2), (-1, 0), (-1, 2), (-(2**31), -(2**31) + 1), (0, 0)]
)
def test_count_and_offsets_must_agree(codec: int, delta: int, count: int) -> None:
    """Positive, and one more than the last offset delta."""
    batch = with_fields(make_batch(2, codec=codec), last_offset_delta=delta, count=count)

    assert type(refuse(batch)) is InvalidRecord


@every_codec
def test_control_batches_are_refused(codec: int) -> None:
    """Markers are the broker's."""
    refusal = refuse(make_batch(codec=codec, flags=CONTROL))

    assert type(refusal) is InvalidRecord
    assert "control" in refusal.message


@every_codec
def test_a_producer_needs_a_sequence(codec: int) -> None:
    """Producer id without base sequence is refused; a sequence without a producer is ignored."""
    refusal = refuse(make_batch(codec=codec, producer_id=1, producer_epoch=0))

    assert type(refusal) is InvalidRecord
    accept(make_batch(codec=codec, base_sequence=5))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    """With a sentence, where Kafka fails unexpectedly."""
    refusal = refuse(frame_batch(b"x" * 20, 1, codec=codec))

    assert type(refusal) is InvalidRecord
    assert f"codec {codec}" in refusal.message


def test_transactional_and_reserved_bits_stay() -> None:
    """Bits that Kafka does not read are not the batch's fault."""
    batch = with_fields(make_batch(), attributes=TRANSACTIONAL | 0x4080)

    assert accept(batch).attributes == TRANSACTIONAL | 0x4080


def test_records_that_do_not_parse_are_refused() -> None:
    """The record and what is wrong with it are named."""
    refusal = refuse(frame_batch(bytes.fromhex("0c000000010100 80"), 2))

    assert type(refusal) is InvalidRecord
    assert "record 1" in refusal.message


def test_uneven_offsets_are_refused_in_the_clear() -> None:
    """Kafka would store them, and readers would get offsets that others have."""
    rows = [Record(0, TIMESTAMP, b"k", b"v"), Record(2, TIMESTAMP, b"k", b"v")]

    assert type(refuse(build_batch(rows, last_offset_delta=1))) is InvalidRecord


# Step C: keys and timestamps


@every_codec
def test_a_compacted_topic_needs_keys(codec: int) -> None:
    """All keyless records are named, with a text that says what to do."""
    batch = make_batch([(None, b"a"), (b"k", b"b"), (None, None)], codec=codec)

    refusal = refuse(batch, COMPACT)

    assert type(refusal) is InvalidRecord
    assert [index for index, _ in refusal.record_errors] == [0, 2]
    assert all("cleanup.policy" in text for _, text in refusal.record_errors)
    assert refusal.message.startswith("2 of 3 records")
    accept(batch, DELETE)


@every_codec
def test_keys_are_needed_where_both_policies_are(codec: int) -> None:
    """compact,delete is compacted too; an empty key is a key."""
    both = TopicConfig(cleanup_policy=("compact", "delete"))

    assert type(refuse(make_batch([(None, b"a")], codec=codec), both)) is InvalidRecord
    accept(make_batch([(b"", b"a")], codec=codec), both)


@every_codec
@pytest.mark.parametrize(("shift", "is_fine"), [(-1, False), (0, True), (1, True)])
def test_the_oldest_timestamp(codec: int, shift: int, is_fine: bool) -> None:
    """A difference equal to the limit passes, one more does not."""
    batch = make_batch(2, timestamp=NOW - HOUR + shift, codec=codec)

    if is_fine:
        accept(batch, limited())
    else:
        refusal = refuse(batch, limited())
        assert type(refusal) is InvalidTimestamp
        assert [index for index, _ in refusal.record_errors] == [0]
        assert "before.max.ms" in refusal.record_errors[0][1]


@every_codec
@pytest.mark.parametrize(("shift", "is_fine"), [(1, False), (0, True), (-1, True)])
def test_the_newest_timestamp(codec: int, shift: int, is_fine: bool) -> None:
    """The limit is exclusive; by default it is an hour."""
    batch = make_batch(2, timestamp=NOW + HOUR - 1 + shift, codec=codec)

    if is_fine:
        accept(batch)
    else:
        refusal = refuse(batch)
        assert type(refusal) is InvalidTimestamp
        assert "after.max.ms" in refusal.record_errors[0][1]


@every_codec
def test_no_timestamp_is_fine(codec: int) -> None:
    """-1 stands for no timestamp and is within all limits."""
    batch = make_batch(2, timestamp=-1, step_ms=0, codec=codec)

    assert accept(batch, limited(0, 0)).max_timestamp == -1


def test_a_timestamp_fault_outweighs_a_missing_key() -> None:
    """The code is InvalidTimestamp if any record has that; each record is named once."""
    rows = [
        Record(0, NOW + 2 * HOUR, None, b""),
        Record(1, NOW + 2 * HOUR, b"k", b""),
        Record(2, NOW, b"k", b""),
    ]

    refusal = refuse(build_batch(rows), COMPACT)

    assert type(refusal) is InvalidTimestamp
    assert [index for index, _ in refusal.record_errors] == [0, 1]
    assert "no key" in refusal.record_errors[0][1]
    assert "after.max.ms" in refusal.record_errors[1][1]


def test_limits_of_64_bits_do_not_overflow() -> None:
    """Forever plus now is still forever."""
    forever = (1 << 63) - 1

    accept(make_batch(timestamp=forever - 5), limited(forever, forever))


@every_codec
def test_limits_do_not_bind_a_stamped_topic(codec: int) -> None:
    """With LogAppendTime the client's times do not count."""
    batch = make_batch(2, timestamp=5, codec=codec)

    accept(batch, limited(0, 0, message_timestamp_type="LogAppendTime"))


def test_named_records_are_bounded() -> None:
    """Kafka names all; we stop at 10,000."""
    refusal = refuse(make_batch([(None, b"")] * 10_001), COMPACT)

    assert len(refusal.record_errors) == 10_000
