"""Segments, compiled and in plain Python: scans after a crash, lookups by header."""

import random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol import core
from siltstone.protocol.core import constants
from siltstone.protocol.core.constants import CONTROL, TRANSACTIONAL
from siltstone.protocol.records.batch import BatchHeader, stamp
from tests.reference import records as reference
from tests.support.batches import TIMESTAMP, make_batch, make_producer_batch
from tests.support.forms import in_both_forms

PLAIN = reference
BOTH = in_both_forms("kernel", core, PLAIN)
EVERY_BATCH = 0
NEVER = 1 << 40
SEEN = (
    "batches",
    "first_timestamp",
    "indexed",
    "last_offset",
    "leader_epoch",
    "max_timestamp",
    "max_timestamp_offset",
)


class Scanned(NamedTuple):
    """The findings of a scan, over all its calls."""

    end: int
    status: int
    entries: list[tuple[int, ...]]
    notable: list[int]
    state: dict[str, int]


def scan(  # the arrays are small here so that they fill up
    kernel: Any,
    data: bytes | bytearray,
    interval: int = 100,
    *,
    base: int = 0,
    chunk: int = 1000,
    most: int = 1000,
) -> Scanned:
    """Scan a segment as recovery does, `chunk` bytes a call or what the next batch takes."""
    state = kernel.SegmentScan(base, interval, most, most)
    rows: list[tuple[int, ...]] = []
    positions: list[int] = []
    while True:
        start = state.position
        size = max(chunk, state.needed)
        entries, notable = state.scan(memoryview(data)[start : start + size])
        rows += entries
        positions += notable
        is_stuck = state.position == start and state.needed <= size
        is_over = state.position + state.needed > len(data)
        if state.status < 0 or is_over or is_stuck:
            break
    seen = {name: getattr(state, name) for name in SEEN}
    return Scanned(state.position, state.status, rows, positions, seen)


def lay_out(*batches: bytearray, base: int = 0, epoch: int = 0) -> bytearray:
    """Put batches behind each other with rising offsets."""
    segment = bytearray()
    for batch in batches:
        stamp(batch, 0, base, epoch)
        base += BatchHeader.read(batch).last_offset_delta + 1
        segment += batch
    return segment


def make_segment(seed: int, count: int = 60) -> bytearray:
    """Make a segment of mixed batches: plain, idempotent, transactional, of several sizes."""
    chance = random.Random(seed)
    batches = []
    for _ in range(count):
        rows = chance.randrange(1, 5)
        time = TIMESTAMP + chance.randrange(1000)
        producer_id = chance.choice([-1, 1, 2, 257])
        flags = chance.choice([0, 0, 0, TRANSACTIONAL]) if producer_id > 0 else 0
        batches.append(make_batch(rows, timestamp=time, producer_id=producer_id, flags=flags))
    return lay_out(*batches)


@BOTH
def test_a_sound_segment_is_walked_to_its_end(kernel: Any) -> None:
    """Position, offset, times and count of what a scan has seen."""
    first, second = make_batch(3, timestamp=500), make_batch(2, timestamp=100)
    segment = lay_out(first, second, base=40)

    scanned = scan(kernel, segment, base=40)

    assert (scanned.end, scanned.status) == (len(segment), constants.WANTS_MORE)
    assert scanned.state["last_offset"] == 44
    assert scanned.state["batches"] == 2
    assert scanned.state["first_timestamp"] == 502
    assert scanned.state["max_timestamp"] == 502
    assert scanned.state["max_timestamp_offset"] == 42
    assert scanned.state["leader_epoch"] == 0


@BOTH
def test_index_entries_follow_kafkas_rule(kernel: Any) -> None:
    """Strictly more than the interval since the last entry; never the first batch; last offsets."""
    size = len(make_batch())
    segment = lay_out(*[make_batch(timestamp=TIMESTAMP - step) for step in range(7)])

    every = scan(kernel, segment, EVERY_BATCH).entries
    exact = scan(kernel, segment, 2 * size).entries
    below = scan(kernel, segment, 2 * size - 1).entries

    assert every == [(step, step * size, TIMESTAMP, 0) for step in range(1, 7)]
    assert exact == [(step, step * size, TIMESTAMP, 0) for step in (3, 6)]
    assert below == [(step, step * size, TIMESTAMP, 0) for step in (2, 4, 6)]
    assert scan(kernel, segment, NEVER).entries == []


@BOTH
def test_chunks_and_full_arrays_change_nothing(kernel: Any) -> None:
    """Wherever a call ends, the next one goes on."""
    segment = make_segment(1)
    whole = scan(kernel, segment, 300, chunk=1 << 20)

    for chunk, most in ((61, 1000), (200, 1), (5000, 2), (100_000, 3)):
        parts = scan(kernel, segment, 300, chunk=chunk, most=most)
        assert parts.entries == whole.entries
        assert parts.state == whole.state
        assert parts.end == whole.end == len(segment)
        assert set(parts.notable) >= set(whole.notable)


@given(
    st.integers(0, 3),
    st.integers(0, 10_000),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    st.sampled_from([EVERY_BATCH, 300, NEVER]),
)
def test_both_forms_answer_alike(
    seed: int, cut: int, flips: list[tuple[int, int]], interval: int
) -> None:
    """Torn and damaged segments: compiled and plain agree in everything."""
    segment = make_segment(seed)
    del segment[len(segment) - cut % len(segment) :]
    for position, byte in flips:
        if segment:
            segment[position % len(segment)] = byte

    assert scan(core, segment, interval) == scan(PLAIN, segment, interval)


@BOTH
def test_every_prefix_ends_at_a_batch(kernel: Any) -> None:
    """Of a torn segment exactly the whole batches count."""
    batches = [make_batch(2), make_producer_batch(0), make_batch(1)]
    segment = lay_out(*batches)
    ends = [0]
    for batch in batches:
        ends.append(ends[-1] + len(batch))

    for cut in range(len(segment) + 1):
        scanned = scan(kernel, segment[:cut])
        assert scanned.status == constants.WANTS_MORE
        assert scanned.end == max(end for end in ends if end <= cut)


@BOTH
def test_a_flipped_byte_ends_the_log_there(kernel: Any) -> None:
    """Nothing from the first bad batch on counts, though sound ones follow."""
    first, second, third = make_batch(2), make_batch(2), make_batch(2)
    segment = lay_out(first, second, third)

    for position in range(len(first) + 17, len(first) + len(second)):
        damaged = bytearray(segment)
        damaged[position] ^= 1
        scanned = scan(kernel, damaged)
        assert (scanned.end, scanned.status) == (len(first), constants.WRONG_CRC)


@BOTH
@pytest.mark.parametrize(
    ("position", "bytes_there", "status"),
    [
        (8, b"\x00\x00\x00\x00", constants.SHORT_LENGTH),
        (8, b"\x00\x00\x00\x30", constants.SHORT_LENGTH),
        (8, b"\xff\xff\xff\xff", constants.SHORT_LENGTH),
        (16, b"\x01", constants.WRONG_MAGIC),
        (0, b"\x7f", constants.OFFSET_OVERFLOW),
        (0, b"\xff", constants.OFFSET_OVERFLOW),
        (4, b"\x80\x00\x00\x00", constants.OFFSET_OVERFLOW),
        (0, bytes(8), constants.OFFSET_BACKWARDS),
    ],
)
def test_faults_have_names(kernel: Any, position: int, bytes_there: bytes, status: int) -> None:
    """The fault of the first bad batch is told."""
    first = make_batch(2)
    segment = lay_out(first, make_batch(2))
    at = len(first) + position
    segment[at : at + len(bytes_there)] = bytes_there

    scanned = scan(kernel, segment)

    assert (scanned.end, scanned.status) == (len(first), status)
    assert status in constants.FAULTS


@BOTH
def test_a_tail_of_zeros_is_no_batch(kernel: Any) -> None:
    """A file system leaves zeros after a crash: a batch of length 0."""
    segment = lay_out(make_batch(2))

    scanned = scan(kernel, segment + bytes(4096))

    assert (scanned.end, scanned.status) == (len(segment), constants.SHORT_LENGTH)


@BOTH
def test_a_length_beyond_the_chunk_is_asked_for(kernel: Any) -> None:
    """The caller learns how many bytes the next batch takes."""
    segment = lay_out(make_batch(1, timestamp=5), make_batch([(None, b"x" * 5000)]))

    scanned = scan(kernel, segment, chunk=100)

    assert scanned.end == len(segment)


@BOTH
def test_offsets_may_skip_as_after_compaction(kernel: Any) -> None:
    """Gaps are normal, the largest relative offset is 2^31-1."""
    first, second = make_batch(), make_batch()
    stamp(first, 0, 1000, 0)
    stamp(second, 0, 1000 + 2**31 - 1, 0)

    scanned = scan(kernel, first + second, base=1000)

    assert scanned.status == constants.WANTS_MORE
    assert scanned.state["last_offset"] == 1000 + 2**31 - 1


@BOTH
def test_python_sees_what_changes_state(kernel: Any) -> None:
    """New epochs, transactional, control and producers' batches; nothing of the others."""
    batches = [
        make_batch(),
        make_batch(),
        make_producer_batch(0),
        make_batch(),
        make_batch(flags=CONTROL),
        make_batch(flags=TRANSACTIONAL),
    ]
    segment = lay_out(*batches)
    size = len(batches[0])
    stamp(memoryview(segment)[3 * size :], 0, 3, 7)

    assert scan(kernel, segment).notable == [0, 2 * size, 3 * size, 4 * size, 5 * size]


@BOTH
def test_five_batches_of_a_producer_are_enough(kernel: Any) -> None:
    """Of a chunk, the last five of each producer, in order; transactional ones are all kept."""
    plain = [make_producer_batch(n, producer_id=1 + n % 2) for n in range(40)]
    marked = [make_batch(producer_id=3, flags=TRANSACTIONAL) for _ in range(9)]
    size = len(plain[0])

    notable = scan(kernel, lay_out(make_batch(), *plain, *marked), chunk=1 << 20).notable

    assert notable == [0, *(size * n for n in range(31, 50))]


@BOTH
def test_a_batch_is_found_by_its_last_offset(kernel: Any) -> None:
    """Inside a batch the batch, in a gap the one after it, behind all where to read on."""
    first, second, third = make_batch(3), make_batch(1), make_batch(5)
    segment = b"junk" + lay_out(first, second, third, base=10)
    at = (4, 4 + len(first), 4 + len(first) + len(second))

    for offset, position in ((0, at[0]), (12, at[0]), (13, at[1]), (14, at[2]), (18, at[2])):
        assert kernel.find_batch(segment, 4, len(segment), offset) == position
    assert kernel.find_batch(segment, 4, len(segment), 19) == ~len(segment)


@BOTH
def test_a_search_says_where_the_next_header_is(kernel: Any) -> None:
    """Beyond the chunk, at a header cut short, or at its start if there is no batch."""
    segment = lay_out(make_batch(), make_batch([(None, b"x" * 500)]), make_batch())
    size = len(make_batch())

    assert kernel.find_batch(segment, 0, size + 61, 2) == ~(len(segment) - size)
    assert kernel.find_batch(segment, 0, size + 60, 2) == ~size
    assert kernel.find_batch(segment, 0, 60, 2) == ~0
    assert kernel.find_batch(bytes(100), 0, 100, 0) == ~0


@BOTH
def test_a_search_stays_inside_the_buffer(kernel: Any) -> None:
    """An end beyond the buffer is its end."""
    segment = lay_out(make_batch())

    assert kernel.find_batch(segment, 0, 10_000, 5) == ~len(segment)
    assert kernel.find_end(segment, 0, 10_000) == len(segment)


@BOTH
def test_the_last_whole_batch_ends_the_range(kernel: Any) -> None:
    """A cut falls back to a batch boundary, to the start if not even one fits."""
    segment = lay_out(make_batch(), make_batch(), make_batch())
    size = len(make_batch())

    for end in range(len(segment) + 1):
        assert kernel.find_end(segment, 0, end) == end // size * size
    assert kernel.find_end(segment, size, 2 * size + 5) == 2 * size


@BOTH
def test_buffers_are_free_after_a_scan(kernel: Any) -> None:
    """No view is left behind."""
    segment = lay_out(make_batch())
    scan(kernel, segment)
    kernel.find_batch(segment, 0, len(segment), 0)
    kernel.find_end(segment, 0, len(segment))

    segment += b"more"


@BOTH
@pytest.mark.parametrize("delta", [-1, -50])
def test_a_batch_that_ends_before_it_begins_is_damage(kernel: Any, delta: int) -> None:
    """Whatever its checksum says, and though its last offset follows the batch before."""
    first, second = make_batch(2), make_batch(1, base_offset=100, last_offset_delta=delta)

    found = scan(kernel, first + second)

    assert (found.end, found.status) == (len(first), constants.OFFSET_BACKWARDS)


@BOTH
def test_a_batch_ends_within_64_bits(kernel: Any) -> None:
    """The sum of an offset and a delta is not made where it has no room."""
    base = (1 << 63) - 10
    batch = make_batch(1, base_offset=base, last_offset_delta=1000)

    assert scan(kernel, batch, base=base).status == constants.OFFSET_OVERFLOW


@BOTH
@pytest.mark.parametrize("delta", [-(1 << 31), (1 << 31) - 1])
@pytest.mark.parametrize("base", [0, -(1 << 63), (1 << 63) - 1])
def test_a_lookup_believes_no_sum(kernel: Any, base: int, delta: int) -> None:
    """Found is a batch whose last offset is as high, in numbers without an end."""
    batch = make_batch(1, base_offset=base, last_offset_delta=delta)
    for offset in (0, (1 << 63) - 1):
        found = kernel.find_batch(batch, 0, len(batch), offset)

        assert (found == 0) == (base + delta >= offset)
