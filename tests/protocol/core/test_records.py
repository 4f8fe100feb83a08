"""Records and batches, compiled and in plain Python: the same answers to the same bytes."""

import mmap
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol import core
from siltstone.protocol.core import _records, constants
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.errors import InvalidRecord
from siltstone.protocol.records.batch import BatchHeader, stamp_timestamp
from siltstone.protocol.records.build import build_batch, frame_batch
from siltstone.protocol.records.record import Record, iterate_records
from tests.reference import records as reference
from tests.support.batches import TIMESTAMP, make_batch
from tests.support.forms import in_both_forms

COMPILED = core
PLAIN = reference
BOTH = in_both_forms("kernel", COMPILED, PLAIN)
LOW, HIGH = -(2**63), 2**63 - 1

octets = st.none() | st.binary(max_size=70)
timestamps = st.integers(-(2**40), 2**42)
records = st.builds(
    Record,
    offset=st.integers(0, 300),
    timestamp=timestamps,
    key=octets,
    value=octets,
    headers=st.lists(st.tuples(st.binary(max_size=9), octets), max_size=3).map(tuple),
)
rows = st.lists(records, min_size=1, max_size=6)


def walk(
    kernel: Any, batch: bytearray, low: int = LOW, high: int = HIGH, *, keys: bool = False
) -> tuple[int, int, int]:
    """Walk the records of an uncompressed batch."""
    header = BatchHeader.read(batch)
    answer: tuple[int, int, int] = kernel.walk_records(
        batch, HEADER_SIZE, len(batch), header.count, header.base_timestamp, low, high, keys
    )
    return answer


def number(records: list[Record]) -> list[Record]:
    """Give records the offsets 0, 1, 2, …."""
    return [record._replace(offset=index) for index, record in enumerate(records)]


def test_the_reference_is_plain_python() -> None:
    """Else the core would be compared with itself."""
    assert Path(reference.__file__).suffix == ".py"
    assert Path(_records.__file__).suffix == ".so"
    assert vars(reference)["crc32c"] is not core.crc32c


@BOTH
@given(rows)
def test_built_batches_are_fine(kernel: Any, rows: list[Record]) -> None:
    """Whatever the builder writes passes, with the largest timestamp, never below -1."""
    batch = build_batch(number(rows))

    verdict, _, largest = kernel.check_batch(batch, LOW, HIGH, False)

    assert verdict == constants.FINE
    assert largest == max(-1, *(row.timestamp for row in rows))


@given(
    rows,
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=4),
    timestamps,
    timestamps,
    st.booleans(),
    st.integers(-1, 1),
)
def test_both_forms_answer_alike(
    rows: list[Record], flips: list[tuple[int, int]], low: int, high: int, keys: bool, more: int
) -> None:
    """Sound or damaged bytes, limits, key rule, wrong count: compiled and plain agree."""
    payload = bytearray(memoryview(build_batch(rows))[HEADER_SIZE:])
    for position, byte in flips:
        payload[position % len(payload)] = byte
    arguments = (payload, 0, len(payload), len(rows) + more, rows[0].timestamp, low, high, keys)

    answer = COMPILED.walk_records(*arguments)

    assert answer == PLAIN.walk_records(*arguments)
    if answer[0] >= 0:
        assert COMPILED.list_bad_records(*arguments, 99) == PLAIN.list_bad_records(*arguments, 99)
        written = bytearray(len(payload) + 20 * len(rows)), bytearray(len(payload) + 20 * len(rows))
        sizes = [
            kernel.rewrite_records(payload, 0, len(payload), arguments[3], output)
            for kernel, output in zip((COMPILED, PLAIN), written, strict=True)
        ]
        assert sizes[0] == sizes[1]
        assert written[0] == written[1]


@given(st.binary(max_size=60), st.integers(-2, 5), st.integers(LOW, HIGH), st.booleans())
def test_both_forms_answer_alike_to_junk(junk: bytes, count: int, base: int, keys: bool) -> None:
    """Any bytes, any base timestamp: the same verdict, and never beyond the end."""
    arguments = (junk, 0, len(junk), count, base, -5, 2**62, keys)

    assert COMPILED.walk_records(*arguments) == PLAIN.walk_records(*arguments)


@given(rows, st.integers(0, 2000), st.integers(0, 255))
def test_whatever_passes_is_readable(rows: list[Record], position: int, byte: int) -> None:
    """The walk and the readable reader accept the same payloads."""
    payload = bytearray(memoryview(build_batch(rows))[HEADER_SIZE:])
    payload[position % len(payload)] = byte
    batch = frame_batch(payload, len(rows))

    verdict, _, _ = walk(COMPILED, batch)

    if verdict >= 0:
        assert len(list(iterate_records(batch))) == len(rows)
    elif verdict != constants.BAD_TIMESTAMP:
        with pytest.raises(InvalidRecord):
            list(iterate_records(batch))


@BOTH
def test_any_buffer_will_do(kernel: Any) -> None:
    """bytes, bytearray, memoryview and mmap."""
    batch = make_batch(3)
    with mmap.mmap(-1, len(batch)) as mapped:
        mapped.write(batch)
        buffers = (bytes(batch), batch, memoryview(batch), memoryview(bytes(batch)), mapped)
        answers = {kernel.check_batch(buffer, LOW, HIGH, True) for buffer in buffers}

    assert answers == {(constants.FINE, 0, TIMESTAMP + 2)}


@BOTH
def test_the_buffer_is_free_afterwards(kernel: Any) -> None:
    """No view is left behind: a bytearray can be resized at once."""
    batch = make_batch(3)
    kernel.check_batch(batch, LOW, HIGH, True)
    walk(kernel, batch)
    with pytest.raises(ValueError, match="not inside"):
        kernel.walk_records(batch, 0, len(batch) + 1, 1, 0, LOW, HIGH, False)
    with pytest.raises(ValueError, match="not inside"):
        kernel.list_bad_records(batch, -1, 5, 1, 0, LOW, HIGH, False, 9)
    with pytest.raises(ValueError, match="not inside"):
        kernel.rewrite_records(batch, 5, 4, 1, bytearray())

    batch += b"more"


@BOTH
def test_large_batches_are_walked_without_the_gil(kernel: Any) -> None:
    """The branch above 256 KiB gives the same answer."""
    batch = make_batch([(b"k", random.Random(1).randbytes(100_000))] * 3)

    assert kernel.check_batch(batch, LOW, HIGH, True) == (constants.FINE, 0, TIMESTAMP + 2)
    assert walk(kernel, batch) == (constants.FINE, 0, TIMESTAMP + 2)


@BOTH
def test_each_byte_is_under_the_crc_or_ignored(kernel: Any) -> None:
    """A flipped byte from 17 on is noticed; those before are the broker's to write."""
    batch = make_batch(2)

    for position in range(17, len(batch)):
        damaged = bytearray(batch)
        damaged[position] ^= 0x40
        assert kernel.check_batch(damaged, LOW, HIGH, False)[0] == constants.WRONG_CRC


@BOTH
def test_length_must_be_that_of_the_buffer(kernel: Any) -> None:
    """The length field is compared before anything is read by it."""
    batch = make_batch(2)

    for buffer in (batch[:-1], batch + b"x", batch[:60], b""):
        assert kernel.check_batch(buffer, LOW, HIGH, False)[0] == constants.BAD_LENGTH


@BOTH
def test_compressed_records_are_not_walked(kernel: Any) -> None:
    """Of a compressed batch the CRC counts, the header gives the time; a count below 1 does not."""
    batch = frame_batch(b"junk", 2, codec=4, max_timestamp=77)
    empty = frame_batch(b"junk", 0, codec=4)

    assert kernel.check_batch(batch, LOW, HIGH, True) == (constants.FINE, 0, 77)
    assert kernel.check_batch(empty, LOW, HIGH, True)[0] == constants.NO_RECORDS


@BOTH
@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        ("", constants.RECORDS_MISSING),
        ("0c0000000101000c0000000101", constants.BYTES_LEFT),
        ("80", constants.BAD_NUMBER),
        ("808080808000", constants.BAD_NUMBER),
        ("00", constants.BAD_LENGTH),
        ("01", constants.BAD_LENGTH),
        ("0e00000001010000", constants.BAD_BODY),
        ("0e000000010100", constants.BAD_LENGTH),
        ("0c000000030100", constants.BAD_FIELD),
        ("0c000000010a00", constants.BAD_FIELD),
        ("0c000000010101", constants.BAD_HEADERS),
        ("0c000000010104", constants.BAD_HEADERS),
        ("10000000010102010100", constants.BAD_HEADERS),
        ("2000ffffffffffffffffff01000101 00", constants.BAD_LENGTH),
        ("1e00ffffffffffffffffff7f000101 00", constants.BAD_NUMBER),
    ],
)
def test_broken_records_have_a_verdict(kernel: Any, payload: str, verdict: int) -> None:
    """Each fault of the format, with a name."""
    data = bytes.fromhex(payload)

    assert kernel.walk_records(data, 0, len(data), 1, 0, LOW, HIGH, False)[0] == verdict
    assert verdict in constants.FAULTS


@BOTH
@pytest.mark.parametrize(("base", "delta"), [(HIGH, 1), (LOW, -1), (HIGH - 5, 6)])
def test_a_timestamp_beyond_64_bits_is_broken(kernel: Any, base: int, delta: int) -> None:
    """Base and delta may each be fine and their sum not."""
    data = memoryview(build_batch([Record(0, delta, None, None)], base_timestamp=0))[HEADER_SIZE:]

    answer = kernel.walk_records(data, 0, len(data), 1, base, LOW, HIGH, False)

    assert answer[0] == constants.BAD_TIMESTAMP


@BOTH
@pytest.mark.parametrize("count", [0, -1, -(2**31)])
def test_a_count_below_one_is_broken(kernel: Any, count: int) -> None:
    """A client's batch holds something."""
    assert kernel.walk_records(b"", 0, 0, count, 0, LOW, HIGH, False)[0] == constants.NO_RECORDS


@BOTH
def test_flags_tell_what_a_rule_must_decide(kernel: Any) -> None:
    """Missing keys, times outside, uneven offsets and what a rebuild has to write again."""
    plain = [Record(0, 10, b"k", b""), Record(1, 20, b"k", b"")]
    keyless = [plain[0], plain[1]._replace(key=None)]
    gap = [plain[0], plain[1]._replace(offset=2)]

    assert walk(kernel, build_batch(plain), 10, 20, keys=True)[0] == constants.FINE
    assert walk(kernel, build_batch(plain), 11, 20)[0] == constants.TIMESTAMP_OUTSIDE
    assert walk(kernel, build_batch(plain), 10, 19)[0] == constants.TIMESTAMP_OUTSIDE
    assert walk(kernel, build_batch(keyless), keys=True)[0] == constants.NULL_KEY
    assert walk(kernel, build_batch(keyless), keys=False)[0] == constants.FINE
    assert walk(kernel, build_batch(gap))[0] == constants.UNEVEN_OFFSETS
    assert walk(kernel, build_batch(plain, base_timestamp=9))[0] == constants.NEEDS_REWRITE


@BOTH
def test_no_timestamp_is_within_any_limits(kernel: Any) -> None:
    """-1 stands for no timestamp, whatever the base is."""
    batch = build_batch([Record(0, 50, b"", b""), Record(1, -1, b"", b"")])

    assert walk(kernel, batch, 40, 60) == (constants.FINE, 0, 50)


@BOTH
def test_bad_records_are_listed_key_first(kernel: Any) -> None:
    """A record without a key is not blamed for its time as well; `most` ends the list."""
    rows = [
        Record(0, 10, None, b""),
        Record(1, 99, b"k", b""),
        Record(2, 99, None, b""),
        Record(3, -1, b"k", b""),
        Record(4, 5, b"k", b""),
    ]
    payload = memoryview(build_batch(rows, base_timestamp=10))[HEADER_SIZE:]
    arguments = (payload, 0, len(payload), 5, 10, 10, 20, True)
    listed = [
        (0, constants.NULL_KEY, 10),
        (1, constants.TIMESTAMP_OUTSIDE, 99),
        (2, constants.NULL_KEY, 99),
        (4, constants.TIMESTAMP_OUTSIDE, 5),
    ]

    assert kernel.list_bad_records(*arguments, 10) == listed
    assert kernel.list_bad_records(*arguments, 2) == listed[:2]


@BOTH
@given(rows)
def test_rewriting_makes_offsets_even(kernel: Any, rows: list[Record]) -> None:
    """Offsets become 0, 1, 2, …, times stay, the first is the base; the size is told before."""
    payload = memoryview(build_batch(rows, base_timestamp=12345))[HEADER_SIZE:]

    size = kernel.rewrite_records(payload, 0, len(payload), len(rows), bytearray())
    output = bytearray(size)
    kernel.rewrite_records(payload, 0, len(payload), len(rows), output)

    rebuilt = frame_batch(output, len(rows), base_timestamp=rows[0].timestamp)
    assert list(iterate_records(rebuilt)) == number(rows)
    assert walk(kernel, rebuilt)[0] == constants.FINE


@BOTH
def test_rewriting_clears_record_attributes(kernel: Any) -> None:
    """Kafka defines none, a rebuilt record has 0."""
    payload = bytes.fromhex("0c ff 00 00 01 01 00")
    output = bytearray(7)

    assert kernel.walk_records(payload, 0, 7, 1, 0, LOW, HIGH, False)[0] == constants.NEEDS_REWRITE
    assert kernel.rewrite_records(payload, 0, 7, 1, output) == 7
    assert output.hex() == "0c000000010100"


@BOTH
def test_times_too_far_apart_cannot_be_rewritten(kernel: Any) -> None:
    """Two deltas that differ by more than 64 bits have no delta of their own."""
    rows = [Record(0, LOW, None, None), Record(1, HIGH, None, None)]
    payload = memoryview(build_batch(rows, base_timestamp=0))[HEADER_SIZE:]

    assert kernel.rewrite_records(payload, 0, len(payload), 2, bytearray()) < 0


@BOTH
def test_a_stamped_batch_is_sound(kernel: Any) -> None:
    """The CRC that the header module writes is the one that the kernel computes."""
    batch = make_batch(2)
    stamp_timestamp(memoryview(batch), 8, 5)

    assert kernel.check_batch(batch, LOW, HIGH, False)[0] == constants.FINE


@given(
    rows,
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), max_size=3),
    timestamps,
    timestamps,
    st.booleans(),
    st.sampled_from([0, 0x10]),
    st.integers(0, 31),
)
def test_both_forms_take_the_same_batches(
    rows: list[Record],
    flips: list[tuple[int, int]],
    low: int,
    high: int,
    keys: bool,
    flags: int,
    codecs: int,
) -> None:
    """A batch that is taken as it is: the same numbers of it, or zeros, from both."""
    batch = bytearray(build_batch(number(rows)))
    for position, byte in flips:
        batch[position % len(batch)] = byte

    taken = COMPILED.take_plain(batch, low, high, keys, flags, codecs)

    assert taken == PLAIN.take_plain(batch, low, high, keys, flags, codecs)._asdict()
