"""The batch header: golden vectors, sequences, stamping."""

import pytest

from siltstone.protocol.core.constants import HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc, stamp, stamp_timestamp
from siltstone.protocol.records.build import ABORT, COMMIT, build_batch, build_marker
from siltstone.protocol.records.record import Record, iterate_records
from tests.support.batches import TIMESTAMP, make_batch

TWO_RECORDS = bytes.fromhex(
    "0000000000000000 00000049 00000000 02 f1759baf 0000 00000001"
    "0000018bcfe56800 0000018bcfe56805 ffffffffffffffff ffff ffffffff 00000002"
    "1c 00 00 00 04 6b31 04 7631 02 02 68 02 78"
    "10 00 0a 02 04 6b32 01 00"
)
COMMIT_MARKER = bytes.fromhex(
    "000000000000006e 00000042 00000000 02 2d79b892 0030 00000000"
    "0000018bcfe56864 0000018bcfe56864 0000000000000fa0 0000 ffffffff 00000001"
    "20 00 00 00 08 00000001 0c 000000000005 00"
)
EMPTY = bytes.fromhex(
    "0000000000000064 00000031 00000000 02 b534d4f7 0010 00000009"
    "ffffffffffffffff 0000018bcfe56864 0000000000000fa0 0000 00000000 00000000"
)


def test_two_records_byte_for_byte() -> None:
    """Kafka's bytes of two records, one with a header, one a tombstone."""
    records = [
        Record(0, TIMESTAMP, b"k1", b"v1", ((b"h", b"x"),)),
        Record(1, TIMESTAMP + 5, b"k2", None),
    ]

    assert build_batch(records, leader_epoch=0) == TWO_RECORDS
    assert list(iterate_records(TWO_RECORDS)) == records


def test_commit_marker_byte_for_byte() -> None:
    """Kafka's bytes of the control batch that commits a transaction."""
    marker = build_marker(
        110, TIMESTAMP + 100, COMMIT, 5, leader_epoch=0, producer_id=4000, producer_epoch=0
    )

    assert marker == COMMIT_MARKER


def test_abort_marker_has_type_zero() -> None:
    """The key of an abort marker says version 0, type 0."""
    (record,) = iterate_records(build_marker(3, TIMESTAMP, ABORT, 7))

    assert record.key == bytes(4)
    assert record.value == b"\x00\x00\x00\x00\x00\x07"


def test_empty_batch_byte_for_byte() -> None:
    """Kafka's bytes of what the cleaner leaves of a producer's last batch."""
    batch = build_batch(
        [],
        base_offset=100,
        leader_epoch=0,
        flags=TRANSACTIONAL,
        last_offset_delta=9,
        max_timestamp=TIMESTAMP + 100,
        producer_id=4000,
        producer_epoch=0,
        base_sequence=0,
    )

    assert batch == EMPTY
    assert list(iterate_records(EMPTY)) == []


def test_header_answers_what_its_bits_say() -> None:
    """Size, offsets and flags come from the fields."""
    header = BatchHeader.read(COMMIT_MARKER)

    assert (header.size, header.last_offset, header.next_offset) == (78, 110, 111)
    assert header.is_control
    assert header.is_transactional
    assert not header.is_log_append_time
    assert not header.has_delete_horizon
    assert header.codec == 0


def test_header_is_read_anywhere_in_a_buffer() -> None:
    """A position shifts the header."""
    assert BatchHeader.read(b"abc" + EMPTY, 3) == BatchHeader.read(EMPTY)


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(0, 9, 9), (2**31 - 1, 1, 0), (2**31 - 3, 5, 2), (-1, 5, -1), (2**31 - 1, 0, 2**31 - 1)],
)
def test_last_sequence_wraps(base: int, delta: int, last: int) -> None:
    """Sequences go from 2^31-1 to 0; without a base none follows."""
    header = BatchHeader.read(EMPTY)._replace(base_sequence=base, last_offset_delta=delta)

    assert header.last_sequence == last


def test_stamping_an_offset_keeps_the_crc() -> None:
    """Base offset and leader epoch lie outside the checksum."""
    batch = bytearray(b"xy") + make_batch(3)
    crc = BatchHeader.read(batch, 2).crc

    stamp(batch, 2, 4711, 9)

    header = BatchHeader.read(batch, 2)
    assert (header.base_offset, header.leader_epoch, header.length) == (4711, 9, len(batch) - 14)
    assert has_valid_crc(memoryview(batch)[2:], crc)


def test_stamping_a_time_renews_the_crc() -> None:
    """With LogAppendTime every reader sees the stamped time."""
    batch = make_batch(3)

    stamp_timestamp(memoryview(batch), LOG_APPEND_TIME, 99)

    assert has_valid_crc(memoryview(batch), BatchHeader.read(batch).crc)
    assert {record.timestamp for record in iterate_records(batch)} == {99}


def test_records_start_after_61_bytes() -> None:
    """The header's size is Kafka's."""
    assert len(EMPTY) == HEADER_SIZE == 61
