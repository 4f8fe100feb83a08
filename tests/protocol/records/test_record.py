"""Varints, and the strict reader of records."""

import tracemalloc
from contextlib import suppress
from itertools import chain, repeat, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.core.constants import HEADER_SIZE, LENGTH_POSITION
from siltstone.protocol.errors import CorruptMessage, InvalidRecord
from siltstone.protocol.records.build import build_batch, frame_batch, put_varint
from siltstone.protocol.records.compression import (
    GZIP,
    LZ4,
    SNAPPY,
    UNLIMITED,
    ZSTD,
    UnfoldsTooFar,
    compress,
)
from siltstone.protocol.records.record import (
    VARINT_BYTES,
    VARLONG_BYTES,
    Record,
    iterate_records,
    read_varint,
    stop_at_too_large,
)
from tests.support.batches import Row, make_batch

octets = st.binary(max_size=40)
records = st.builds(
    Record,
    offset=st.integers(0, 2**31 - 1),
    timestamp=st.integers(0, 2**42),
    key=st.none() | octets,
    value=st.none() | octets,
    headers=st.lists(st.tuples(octets, st.none() | octets), max_size=3).map(tuple),
)


@pytest.mark.parametrize(
    ("number", "hexadecimal"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-2, "03"),
        (63, "7e"),
        (64, "8001"),
        (-64, "7f"),
        (-65, "8101"),
        (8191, "fe7f"),
        (8192, "808001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_varint_table(number: int, hexadecimal: str) -> None:
    """Kafka's zig-zag varints, both ways."""
    output = put_varint(number)

    assert output.hex() == hexadecimal
    assert read_varint(output, 0, len(output)) == (number, len(output))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varlong_round_trip(number: int) -> None:
    """Each number of 64 bits takes ten bytes at most and comes back."""
    output = b"x" + put_varint(number)

    assert read_varint(output, 1, len(output), VARLONG_BYTES) == (number, len(output))


@pytest.mark.parametrize("broken", ["", "80", "8080808080", "808080808000", "ffffffff1f"])
def test_broken_varint_is_an_invalid_record(broken: str) -> None:
    """Cut short, a continuation bit on the fifth byte, or more than 32 bits."""
    with pytest.raises(InvalidRecord, match="a number is too long or cut short"):
        read_varint(bytes.fromhex(broken), 0, len(broken) // 2)


@given(st.lists(records, min_size=1, max_size=5), st.integers(0, 4))
def test_batches_round_trip(rows: list[Record], codec: int) -> None:
    """Built records are read, by every codec, whatever the order of times and offsets."""
    assert list(iterate_records(build_batch(rows, codec=codec))) == rows


@pytest.mark.parametrize(
    "payload",
    [
        "",  # nothing
        "0e000000010100",  # cut short
        "0c00000001010000",  # one byte more than the record says
        "10000000010100ff00",  # a byte of the record is not used
        "0c0000000301",  # a key of -2 bytes
        "0c000000010a00",  # a value longer than the record
        "0c000000010102",  # a header that is missing
        "0c000000010101",  # -1 headers
        "100000000101020101",  # a header without a key
        "00",  # a record of no bytes
        "01",  # a record of -1 bytes
    ],
)
def test_a_record_that_does_not_parse_is_invalid(payload: str) -> None:
    """Each decode check of the format."""
    with pytest.raises(InvalidRecord):
        list(iterate_records(frame_batch(bytes.fromhex(payload), 1)))


def test_bytes_after_the_last_record_are_invalid() -> None:
    """The records end where the batch ends, also inside the codec."""
    plain = "0c000000010100"

    assert len(list(iterate_records(frame_batch(bytes.fromhex(plain), 1)))) == 1
    with pytest.raises(InvalidRecord, match="7 bytes are left"):
        list(iterate_records(frame_batch(bytes.fromhex(plain * 2), 1)))


def test_a_negative_count_is_invalid() -> None:
    """A count below zero is refused, not taken for none."""
    with pytest.raises(InvalidRecord, match="-1 records"):
        list(iterate_records(frame_batch(b"", -1)))


@pytest.mark.parametrize("size", [0, 12, 60])
def test_a_batch_shorter_than_its_header_is_corrupt(size: int) -> None:
    """Fewer than 61 bytes are no batch."""
    with pytest.raises(CorruptMessage):
        list(iterate_records(make_batch()[:size]))


@pytest.mark.parametrize("length", [0, 48, 10_000, -1])
def test_a_length_that_does_not_fit_is_corrupt(length: int) -> None:
    """The length field is compared with the bytes that follow."""
    batch = make_batch()
    batch[LENGTH_POSITION : LENGTH_POSITION + 4] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptMessage):
        list(iterate_records(batch))


MIB = 1 << 20


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_records_are_unfolded_as_they_are_read(codec: int) -> None:
    """A reader of the first record of 96 MiB, or of one after the other, has little in memory."""
    rows = [Record(offset, 0, b"k%d" % offset, bytes(MIB)) for offset in range(96)]
    batch = build_batch(rows, codec=codec)
    tracemalloc.start()

    first = next(iterate_records(batch))
    at_first = tracemalloc.get_traced_memory()[1]
    offsets = [record.offset for record in iterate_records(batch, UNLIMITED)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert first == rows[0]
    assert at_first < 8 * MIB
    assert offsets == list(range(96))
    assert peak < 12 * MIB
    with pytest.raises(InvalidRecord, match="unfolds to more"):
        list(iterate_records(batch))


@given(
    st.lists(st.integers(0, 300), min_size=1, max_size=8),
    st.integers(1, 320),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_a_record_above_its_limit_is_found_wherever_parts_end(
    sizes: list[int], limit: int, cuts: list[int]
) -> None:
    """The records before it come out, and none after it."""
    rows: list[Row] = [(None, b"v" * size) for size in sizes]
    data = bytes(make_batch(rows)[HEADER_SIZE:])
    records = [bytes(make_batch([row])[HEADER_SIZE:]) for row in rows]
    largest = max(read_varint(each, 0, len(each))[0] for each in records)
    lengths = chain(cuts, repeat(cuts[-1]))
    parts = []
    at = 0
    while at < len(data):
        parts.append(data[at : (at := at + next(lengths))])
    seen: list[bytes] = []
    sound = takewhile(lambda each: read_varint(each, 0, len(each))[0] <= limit, records)

    with suppress(UnfoldsTooFar):
        for part in stop_at_too_large(iter(parts), limit):
            seen.append(part)  # noqa: PERF402  # also what came before a refusal
        assert largest <= limit

    before = len(b"".join(sound))
    assert b"".join(seen)[:before] == data[:before]
    assert len(b"".join(seen)) in range(before, before + VARINT_BYTES)


@pytest.mark.parametrize("size", [1, 4, 5, 300_000, 262_144 - 3])
def test_a_record_may_lie_in_several_parts(size: int) -> None:
    """Wherever a part ends: in a length, in a value, between two records."""
    rows = [Record(offset, 0, None, b"v" * (size + offset % 3)) for offset in range(40)]

    assert list(iterate_records(build_batch(rows, codec=ZSTD))) == rows


def test_a_record_that_is_not_all_there_is_no_record() -> None:
    """In a compressed batch, too; nor may anything be behind the last one."""
    payload = build_batch([Record(0, 0, None, b"v" * 100)])[61:]
    for packed, words in (
        (payload[:-1], "a length does not fit"),
        (payload + b"\0", "left after"),
        (b"", "a number is too long or cut short"),
        (b"\xff" * 9, "a number is too long or cut short"),
    ):
        batch = frame_batch(compress(ZSTD, packed), 1, codec=ZSTD)
        with pytest.raises(InvalidRecord, match=words):
            list(iterate_records(batch))
