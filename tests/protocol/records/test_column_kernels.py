"""The kernels that turn batches into columns, compiled and as plain Python."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.core import crc32c
from protocol.records import column_kernels
from protocol.records import column_slots as slots
from protocol.records.batch import HEADER_SIZE
from protocol.records.build import build_batch
from protocol.records.choosing import load_uncompiled
from protocol.records.record import Record
from tests.support.batches import make_batch

PLAIN = load_uncompiled(column_kernels.COLUMNS)
BOTH = pytest.mark.parametrize("kernel", [column_kernels, PLAIN], ids=["chosen", "plain"])

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=200),
        st.integers(-5, 1 << 41),
        st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3),
    ),
    min_size=1,
    max_size=20,
)


def survey(kernel: Any, data: bytes | bytearray, *, most: int = 100) -> tuple[Any, Any]:
    """Return the rows and the state of a survey."""
    rows = array("q", bytes(8 * slots.ROW_NUMBERS * most))
    state = array("q", bytes(8 * slots.SURVEY_SLOTS))
    state[slots.LAST_OFFSET] = -1
    kernel.survey_batches(data, 0, 1000, True, rows, state)
    return rows, state


def fill(kernel: Any, data: bytes | bytearray) -> tuple[Any, bytearray, Any]:
    """Return state, arena and layout of all columns of a chunk."""
    rows, surveyed = survey(kernel, data)
    size = len(data) * 8 + 4096
    layout = array("q", [slot * size for slot in range(slots.BUFFERS)])
    arena = bytearray(b"\xaa" * size * slots.BUFFERS)
    state = array("q", bytes(8 * slots.FILL_SLOTS))
    state[slots.END] = state[slots.TIME_LAST] = (1 << 63) - 1
    state[slots.TIME_FROM] = -(1 << 63)
    state[slots.TIME_SCALE] = state[slots.IS_WALKED] = 1
    kernel.fill_columns(data, rows, surveyed[slots.BATCHES], state, layout, arena)
    return state, arena, layout


def numbers(arena: bytearray, start: int, count: int, kind: str = "q") -> list[int]:
    """Return the numbers of a buffer."""
    found = array(kind)
    found.frombytes(bytes(arena[start : start + count * found.itemsize]))
    return list(found)


@given(RECORDS)
def test_both_forms_fill_the_same_buffers(made: list[Any]) -> None:
    """Compiled or not, every byte of every buffer is the same, and nothing else is touched."""
    records = [
        Record(index, time, key, value, tuple((name.encode(), data) for name, data in headers))
        for index, (key, value, time, headers) in enumerate(made)
    ]
    data = build_batch(records)

    state, arena, _ = fill(column_kernels, data)
    plain_state, plain_arena, _ = fill(PLAIN, data)

    assert list(state) == list(plain_state)
    assert arena == plain_arena


@BOTH
def test_keys_values_offsets_and_times_are_those_of_the_records(kernel: Any) -> None:
    """A null is a null and has no bytes; times are sums of base and delta."""
    data = make_batch([(b"a", b"xy"), (None, b""), (b"ccc", None)], base_offset=5, step_ms=7)

    state, arena, layout = fill(kernel, data)

    assert state[slots.ROWS] == 3
    assert numbers(arena, layout[slots.OFFSET], 3) == [5, 6, 7]
    assert numbers(arena, layout[slots.TIMESTAMP], 3) == [
        1_700_000_000_000,
        1_700_000_000_007,
        1_700_000_000_014,
    ]
    assert numbers(arena, layout[slots.KEY_ENDS], 4, "i") == [0, 1, 1, 4]
    assert arena[layout[slots.KEY] : layout[slots.KEY] + 4] == b"accc"
    assert arena[layout[slots.KEY_VALID]] == 0b101
    assert arena[layout[slots.VALUE_VALID]] == 0b011
    assert arena[layout[slots.TOMBSTONE]] == 0b100
    assert (state[slots.KEY_NULLS], state[slots.VALUE_NULLS]) == (1, 1)


@BOTH
def test_survey_lists_batches_and_stops_before_a_torn_one(kernel: Any) -> None:
    """Half a batch at the end of a chunk is no fault: the survey says what it needs."""
    first, second = make_batch(3), make_batch(2, base_offset=3)

    rows, state = survey(kernel, first + second[:-1])

    assert (state[slots.STATUS], state[slots.BATCHES]) == (slots.WANTS_MORE, 1)
    assert (state[slots.POSITION], state[slots.NEEDED]) == (len(first), len(second))
    assert rows[slots.ROW_ORIGIN] == 1000


@BOTH
def test_survey_passes_control_and_empty_batches_over(kernel: Any) -> None:
    """Markers, and what the cleaner has emptied, are no data."""
    marker = bytearray(make_batch(1))
    marker[22] |= 0x30
    marker[17:21] = crc32c(marker[21:]).to_bytes(4, "big")

    _, state = survey(kernel, marker + build_batch([], base_offset=1, last_offset_delta=4))

    assert (state[slots.STATUS], state[slots.BATCHES]) == (slots.WANTS_MORE, 0)
    assert state[slots.LAST_OFFSET] == 5


@BOTH
@pytest.mark.parametrize(
    ("position", "value", "status"),
    [
        (8, 0xFF, slots.SHORT_LENGTH),
        (16, 1, slots.WRONG_MAGIC),
        (17, None, slots.WRONG_CRC),
        (HEADER_SIZE + 3, None, slots.WRONG_CRC),
    ],
    ids=["length", "magic", "crc", "record"],
)
def test_survey_names_the_fault(kernel: Any, position: int, value: int | None, status: int) -> None:
    """What is wrong with a batch is told apart, and those before it are listed."""
    data = make_batch(2) + make_batch(2, base_offset=2)
    at = len(data) // 2 + position
    data[at] = data[at] ^ 0x40 if value is None else value

    _, state = survey(kernel, data)

    assert state[slots.STATUS] == status
    assert state[slots.BATCHES] == 1


@BOTH
def test_survey_refuses_offsets_that_go_back(kernel: Any) -> None:
    """A batch whose offsets do not follow those before it is a fault."""
    _, state = survey(kernel, make_batch(3) + make_batch(1, base_offset=2))

    assert state[slots.STATUS] == slots.OFFSET_BACKWARDS


@BOTH
def test_survey_refuses_more_records_than_there_is_room_for(kernel: Any) -> None:
    """Memory is taken by a batch's count, so it must be one that fits its bytes."""
    data = make_batch(2)
    data[23:27] = (999).to_bytes(4, "big")
    data[57:61] = (1000).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")

    _, state = survey(kernel, data)

    assert state[slots.STATUS] == slots.BAD_COUNT


@BOTH
def test_damage_behind_a_right_crc_never_leaves_the_batch(kernel: Any) -> None:
    """Each byte of the records set to each of some values: all is read, or the row is named."""
    whole = build_batch(
        [Record(index, 5, b"key", b"value", ((b"h", b"x"), (b"i", None))) for index in range(2)]
    )
    for position in range(HEADER_SIZE, len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            data = bytearray(whole)
            data[position] = value
            data[17:21] = crc32c(data[21:]).to_bytes(4, "big")

            state, _, _ = fill(kernel, data)

            assert state[slots.BAD_ROW] in {-1, 0}
            assert state[slots.ROWS] <= 2
            assert state[slots.KEY_BYTES] + state[slots.VALUE_BYTES] <= len(data)
