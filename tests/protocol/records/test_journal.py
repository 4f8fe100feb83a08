"""Batches of an internal topic: written and read by the core and its twin alike."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol import core
from siltstone.protocol.coordinator.group_records import group_key, offset_key
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import CorruptMessage
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.build import ABORT, COMMIT, build_batch, build_marker, frame_batch
from siltstone.protocol.records.journal import (
    NO_PRODUCER,
    Entry,
    EntryKind,
    Folded,
    LeftOut,
    Producer,
    Row,
    read_entries,
)
from siltstone.protocol.records.record import Record, iterate_records
from tests.reference import records as reference
from tests.support.committed import put_offset
from tests.support.forms import in_both_forms

BOTH = in_both_forms("kernel", core, reference)
NOW = 1_700_000_000_123

rows = st.lists(st.tuples(st.binary(max_size=200), st.none() | st.binary(max_size=200)), min_size=1)


def encode_rows(written: list[Row], now_ms: int, producer: Producer = NO_PRODUCER) -> bytearray:
    """Return one batch of these records."""
    return core.pack_rows(written, now_ms, producer.id, producer.epoch)


@BOTH
@given(rows, st.sampled_from([-1, 0, 77]))
def test_what_is_written_is_what_a_builder_builds(
    kernel: Any, written: list[tuple[bytes, bytes | None]], producer_id: int
) -> None:
    """The same bytes, checksum included."""
    epoch = 3 if producer_id >= 0 else -1
    records = [Record(delta, NOW, key, value) for delta, (key, value) in enumerate(written)]
    flags = TRANSACTIONAL if producer_id >= 0 else 0
    built = build_batch(records, flags=flags, producer_id=producer_id, producer_epoch=epoch)

    assert kernel.pack_rows(written, NOW, producer_id, epoch) == built


@BOTH
@given(st.lists(rows, min_size=1, max_size=4), st.integers(1, 9))
def test_what_is_written_is_read(
    kernel: Any, batches: list[list[tuple[bytes, bytes | None]]], most: int
) -> None:
    """In order, some batches a call, and nothing of a batch that is cut short."""
    data = bytearray()
    for each in batches:
        data += encode_rows(each, NOW)
    found: list[tuple[Any, ...]] = []
    position = 0
    while position < len(data):
        entries, position, status = kernel.read_journal(data, position, most, False)
        assert status == 0
        found += entries

    assert [(entry[2], entry[3]) for entry in found] == [row for each in batches for row in each]
    assert kernel.read_journal(data[:-1], 0, 1 << 20, False)[1] == len(data) - len(
        encode_rows(batches[-1], NOW)
    )


def journal() -> bytes:
    """Return a journal with everything that may be in one; offsets are those of a log."""
    committed = put_offset(OffsetCommitValue(5, 1, "m", NOW))
    pieces = [
        build_batch([Record(10, NOW, offset_key("g", "t", 3), committed)], base_offset=10),
        build_batch(
            [
                Record(12, NOW, offset_key("g", "t", 4), None),
                Record(13, NOW, offset_key("g", "uu", 4), committed),
            ],
            base_offset=11,
            flags=TRANSACTIONAL,
            producer_id=9,
            producer_epoch=2,
            base_sequence=-1,
        ),
        build_marker(14, NOW, COMMIT, 0, producer_id=9, producer_epoch=2),
        build_marker(15, NOW, ABORT, 0, producer_id=8, producer_epoch=1),
        build_batch([Record(16, NOW, group_key("g"), b"group")], base_offset=16),
        build_batch([], base_offset=17, last_offset_delta=0),  # what the cleaner may leave
    ]
    return b"".join(pieces)


@BOTH
def test_every_kind_of_entry(kernel: Any) -> None:
    """Offsets, markers, producers; keys of committed offsets are taken apart on request."""
    committed = put_offset(OffsetCommitValue(5, 1, "m", NOW))
    entries, position, status = kernel.read_journal(journal(), 0, 100, True)

    assert (position, status) == (len(journal()), 0)
    assert entries == [
        (10, EntryKind.PLAIN, ("g", "t", 3), committed, -1, -1),
        (12, EntryKind.TRANSACTIONAL, ("g", "t", 4), None, 9, 2),
        (13, EntryKind.TRANSACTIONAL, ("g", "uu", 4), committed, 9, 2),
        (14, EntryKind.COMMIT, b"", None, 9, 2),
        (15, EntryKind.ABORT, b"", None, 8, 1),
        (16, EntryKind.PLAIN, group_key("g"), b"group", -1, -1),
    ]


@BOTH
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (offset_key("g", "t", 3), b"\0\4" + bytes(30)),  # a version that Python reads
        (offset_key("g", "t", 3), put_offset(OffsetCommitValue(1, 1, "abc", 1))[:-1]),
        (offset_key("g", "t", 3), b""),
        (offset_key("g", "t", 3), b"\0\3" + bytes(12) + b"\xff\xfe" + bytes(6)),
        (offset_key("g", "t", 3), b"\0\3" + bytes(12) + b"\xff\xff" + bytes(7)),
        (b"\0\1\0\1\xff\0\1t" + bytes(4), put_offset(OffsetCommitValue(1, 1, "abc", 1))),
        (offset_key("g", "t", 3) + b"x", put_offset(OffsetCommitValue(1, 1, "abc", 1))),
        (b"\0\1\xff\xff" + bytes(10), put_offset(OffsetCommitValue(1, 1, "abc", 1))),
        (b"\0\1\x7f\xff" + bytes(10), put_offset(OffsetCommitValue(1, 1, "abc", 1))),
        (b"\0\7" + bytes(20), b"value"),
    ],
)
def test_what_can_not_be_taken_apart_stays_bytes(kernel: Any, key: bytes, value: bytes) -> None:
    """Nothing is believed before it was compared with the end of the data."""
    entries, _, status = kernel.read_journal(encode_rows([(key, value)], NOW), 0, 10, True)

    assert status == 0
    assert entries == [(0, EntryKind.PLAIN, key, value, -1, -1)]


@BOTH
@pytest.mark.parametrize("version_1", [False, True])
def test_offsets_of_both_written_versions_are_taken_apart(kernel: Any, version_1: bool) -> None:
    """With and without a time to expire, and with no metadata."""
    value = put_offset(OffsetCommitValue(1, 1, "", 1, 99 if version_1 else -1))
    batch = encode_rows([(offset_key("grün", "", 2), value)], NOW)
    entries, _, _ = kernel.read_journal(batch, 0, 10, True)

    assert entries == [(0, EntryKind.PLAIN, ("grün", "", 2), value, -1, -1)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_compressed_batches_are_read_as_well(codec: int) -> None:
    """Kafka writes them if offsets.topic.compression.codec says so."""
    records = [Record(7, NOW, b"k", b"v"), Record(8, NOW, b"l", None)]
    data = memoryview(
        build_batch(records, base_offset=7, codec=codec) + encode_rows([(b"m", b"")], NOW)
    )
    none, position, folded = read_entries(data, 0, 100)
    assert isinstance(folded, Folded)
    first = [entry for part in folded.unfold() for entry in folded.read(part)]
    folded.end()
    rest, position, damaged = read_entries(data, position, 100)

    assert none == []
    assert first == [Entry(7, 0, b"k", b"v", -1, -1), Entry(8, 0, b"l", None, -1, -1)]
    assert [entry.key for entry in rest] == [b"m"]
    assert (position, damaged) == (len(data), None)


def test_a_damaged_batch_is_left_out() -> None:
    """It is named; what comes behind it is read."""
    batches = [encode_rows([(b"%d" % number, b"value")], NOW) for number in range(3)]
    batches[1][-2] ^= 1
    data = memoryview(b"".join(batches))
    first, position, damaged = read_entries(data, 0, 100)
    rest, _, none = read_entries(data, position, 100)

    assert [entry.key for entry in (*first, *rest)] == [b"0", b"2"]
    assert (damaged, none) == (LeftOut(0, "the checksum does not hold"), None)


def test_a_record_that_can_not_be_told_from_the_next_ends_its_batch() -> None:
    """The part of the batch that was read counts, and so does all that comes behind it."""
    good = encode_rows([(b"0", b"value")], NOW)
    junk = frame_batch(bytes(good[61:]) + b"\x7fjunk", 2, base_offset=5)
    data = memoryview(junk + good)
    first, position, left_out = read_entries(data, 0, 100)
    rest, _, none = read_entries(data, position, 100)

    assert [entry.key for entry in (*first, *rest)] == [b"0", b"0"]
    assert (left_out, none) == (LeftOut(5, "a record in it cannot be read"), None)


def test_what_is_no_batch_is_refused() -> None:
    """Nobody knows where the next one would begin."""
    data = memoryview(bytes(16) + b"\1" + bytes(100))
    with pytest.raises(CorruptMessage):
        read_entries(data, 0, 100)


def test_a_producer_makes_it_transactional() -> None:
    """As Kafka's TxnOffsetCommit does; sequences are not used."""
    batch = encode_rows([(b"k", b"v")], NOW, Producer(5, 2))
    entries, _, _ = read_entries(memoryview(batch), 0, 10)

    assert entries == [Entry(0, EntryKind.TRANSACTIONAL, b"k", b"v", 5, 2)]
    assert [record.timestamp for record in iterate_records(batch)] == [NOW]


@pytest.mark.parametrize("base", [(1 << 63) - 1, (1 << 63) - 2])
def test_offsets_end_before_their_type_does(base: int) -> None:
    """A batch whose offsets leave 64 bits is no batch."""
    batch = build_batch(
        [Record(base + delta, NOW, b"k", b"v") for delta in range(3)], base_offset=base
    )
    for kernel in (reference, core):
        entries, _, status = kernel.read_journal(batch, 0, 10, False)

        assert status == 3
        assert len(entries) == (1 << 63) - base
