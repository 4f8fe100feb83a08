"""Batches turned into columns, compiled and in plain Python."""

from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.protocol.core import columns, constants, crc32c
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.core.rows import Filled, Selection
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.reference import columns as reference
from tests.support.batches import make_batch
from tests.support.forms import in_both_forms

BUFFERS = (
    "offset",
    "timestamp",
    "timestamp_type",
    "key_valid",
    "key_ends",
    "key",
    "value_valid",
    "value_ends",
    "value",
    "tombstone",
    "header_ends",
    "name_ends",
    "name",
    "header_value_valid",
    "header_value_ends",
    "header_value",
    "batch_position",
    "batch_offset",
    "producer_id",
)
BOTH = in_both_forms("kernel", columns, reference)

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


def survey(kernel: Any, data: bytes | bytearray, *, most: int = 100) -> Any:
    """Return a survey of a chunk."""
    surveyed = kernel.Survey(most)
    surveyed.scan(data, 0, 1000, True)
    return surveyed


def fill(
    kernel: Any,
    data: bytes | bytearray,
    *,
    names: tuple[str, ...] = BUFFERS,
    is_walked: bool = True,
) -> tuple[Filled, bytearray, dict[str, int]]:
    """Return counts, arena and layout of the columns of a chunk."""
    size = len(data) * 8 + 4096
    layout = {name: place * size for place, name in enumerate(names)}
    arena = bytearray(b"\xaa" * size * len(names))
    selection = Selection(
        start=0,
        end=(1 << 63) - 1,
        time_from=-(1 << 63),
        time_last=(1 << 63) - 1,
        time_scale=1,
        is_walked=is_walked,
    )
    filled = kernel.fill_columns(data, survey(kernel, data).rows, selection, layout, arena)
    return filled, arena, layout


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

    for is_walked in (True, False):
        filled, arena, _ = fill(columns, data, is_walked=is_walked)
        plain, plain_arena, _ = fill(reference, data, is_walked=is_walked)

        assert filled == plain
        assert arena == plain_arena


@BOTH
def test_a_buffer_begins_inside_the_arena(kernel: Any) -> None:
    """A value that does not is refused before anything is written."""
    data = make_batch(1)
    rows = survey(kernel, data).rows
    selection = Selection(0, 9, 0, 1 << 60, 1, is_walked=True)

    for start in (-1, 9):
        with pytest.raises(ValueError, match="offset does not begin inside the arena"):
            kernel.fill_columns(data, rows, selection, {"offset": start}, bytearray(8))


@BOTH
def test_only_wanted_buffers_are_written(kernel: Any) -> None:
    """Offsets alone, walked or told by the header."""
    data = make_batch(3, base_offset=4)

    for is_walked in (True, False):
        filled, arena, _ = fill(kernel, data, names=("offset",), is_walked=is_walked)

        assert filled == Filled(rows=3)
        assert numbers(arena, 0, 3) == [4, 5, 6]
        assert set(arena[24:]) == {0xAA}


@BOTH
def test_rows_may_be_chosen_anew(kernel: Any) -> None:
    """A reader strikes batches from the list; the sums follow."""
    listed = list(survey(kernel, make_batch(3) + make_batch(2, base_offset=3)).rows)
    rows = kernel.Rows()
    rows.append(listed[1]._replace(position=0))

    assert (len(listed), len(rows), rows.records, rows.size) == (2, 1, 2, listed[1].size)
    assert rows[0] == listed[1]._replace(position=0)
    with pytest.raises(IndexError):
        rows[1]


@BOTH
def test_a_full_survey_goes_on(kernel: Any) -> None:
    """Where there is no room for another batch, the next scan begins there."""
    data = make_batch(1) + make_batch(1, base_offset=1) + make_batch(1, base_offset=2)
    surveyed = survey(kernel, data, most=2)
    assert (surveyed.status, len(surveyed.rows)) == (constants.FULL, 2)

    surveyed.scan(data, surveyed.position, 1000, True)

    assert (surveyed.status, surveyed.position) == (constants.WANTS_MORE, len(data))
    assert [row.base_offset for row in surveyed.rows] == [2]
    with pytest.raises(ValueError, match="not inside the buffer"):
        surveyed.scan(data, -1, 0, True)


@BOTH
def test_keys_values_offsets_and_times_are_those_of_the_records(kernel: Any) -> None:
    """A null is a null and has no bytes; times are sums of base and delta."""
    data = make_batch([(b"a", b"xy"), (None, b""), (b"ccc", None)], base_offset=5, step_ms=7)

    filled, arena, layout = fill(kernel, data)

    assert filled.rows == 3
    assert numbers(arena, layout["offset"], 3) == [5, 6, 7]
    assert numbers(arena, layout["timestamp"], 3) == [
        1_700_000_000_000,
        1_700_000_000_007,
        1_700_000_000_014,
    ]
    assert numbers(arena, layout["key_ends"], 4, "i") == [0, 1, 1, 4]
    assert arena[layout["key"] : layout["key"] + 4] == b"accc"
    assert arena[layout["key_valid"]] == 0b101
    assert arena[layout["value_valid"]] == 0b011
    assert arena[layout["tombstone"]] == 0b100
    assert (filled.key_nulls, filled.value_nulls) == (1, 1)


@BOTH
def test_survey_lists_batches_and_stops_before_a_torn_one(kernel: Any) -> None:
    """Half a batch at the end of a chunk is no fault: the survey says what it needs."""
    first, second = make_batch(3), make_batch(2, base_offset=3)

    state = survey(kernel, first + second[:-1])

    assert (state.status, len(state.rows)) == (constants.WANTS_MORE, 1)
    assert (state.position, state.needed) == (len(first), len(second))
    assert state.rows[0].origin == 1000


@BOTH
def test_survey_passes_control_and_empty_batches_over(kernel: Any) -> None:
    """Markers, and what the cleaner has emptied, are no data."""
    marker = bytearray(make_batch(1))
    marker[22] |= 0x30
    marker[17:21] = crc32c(marker[21:]).to_bytes(4, "big")

    state = survey(kernel, marker + build_batch([], base_offset=1, last_offset_delta=4))

    assert (state.status, len(state.rows)) == (constants.WANTS_MORE, 0)
    assert state.last_offset == 5


@BOTH
@pytest.mark.parametrize(
    ("position", "value", "status"),
    [
        (8, 0xFF, constants.SHORT_LENGTH),
        (16, 1, constants.WRONG_MAGIC),
        (17, None, constants.WRONG_CRC),
        (HEADER_SIZE + 3, None, constants.WRONG_CRC),
    ],
    ids=["length", "magic", "crc", "record"],
)
def test_survey_names_the_fault(kernel: Any, position: int, value: int | None, status: int) -> None:
    """Each fault of a batch has its name, and the batches before it are listed."""
    data = make_batch(2) + make_batch(2, base_offset=2)
    at = len(data) // 2 + position
    data[at] = data[at] ^ 0x40 if value is None else value

    state = survey(kernel, data)

    assert state.status == status
    assert len(state.rows) == 1


@BOTH
def test_survey_refuses_offsets_that_go_back(kernel: Any) -> None:
    """A batch whose offsets do not follow those before it is a fault."""
    state = survey(kernel, make_batch(3) + make_batch(1, base_offset=2))

    assert state.status == constants.OFFSET_BACKWARDS


@BOTH
def test_survey_refuses_more_records_than_there_is_room_for(kernel: Any) -> None:
    """Memory is taken by a batch's count, so it must be one that fits its bytes."""
    data = make_batch(2)
    data[23:27] = (999).to_bytes(4, "big")
    data[57:61] = (1000).to_bytes(4, "big")
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")

    state = survey(kernel, data)

    assert state.status == constants.BAD_COUNT


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

            filled, _, _ = fill(kernel, data)

            assert filled.bad_row in {-1, 0}
            assert filled.rows <= 2
            assert filled.key_bytes + filled.value_bytes <= len(data)
