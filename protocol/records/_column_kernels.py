"""The loops that turn batches into columns: compiled by Cython, or as plain Python as they stand.

Two steps: a survey checks the batches of a chunk and lists those of data; what the list still has
is then written as the buffers of Arrow arrays. Numbers are those of `column_slots.py`, the types of
the compiled form stand in `_column_kernels.pxd`. Import `column_kernels`, which chooses.
"""
# ruff: noqa: C901, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917  # kernels: one branch a rule

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.records._portable import (
        INT64_MAX,
        INT64_MIN,
        acquire,
        acquire_numbers,
        acquire_target,
        checksum,
        copy,
        no_numbers,
        no_region,
        no_target,
        prepare,
        read_int16,
        read_int32,
        read_int64,
        read_uint32,
        release,
        release_numbers,
        release_target,
    )
    from protocol.records._portable_columns import store_bit, store_int32, store_int64
    from protocol.records.column_slots import (
        BAD_COUNT,
        BAD_ROW,
        BATCH_OFFSET,
        BATCH_POSITION,
        BATCHES,
        END,
        FLAGS,
        FULL,
        HEADER_BYTES,
        HEADER_ENDS,
        HEADER_NULLS,
        HEADER_VALID,
        HEADER_VALUE,
        HEADER_VALUE_ENDS,
        HEADERS,
        IS_WALKED,
        KEY,
        KEY_BYTES,
        KEY_ENDS,
        KEY_NULLS,
        KEY_VALID,
        LAST_OFFSET,
        NAME,
        NAME_BYTES,
        NAME_ENDS,
        NEEDED,
        OFFSET,
        OFFSET_BACKWARDS,
        POSITION,
        PRODUCER_ID,
        RECORDS,
        ROW_ATTRIBUTES,
        ROW_BASE_OFFSET,
        ROW_COUNT,
        ROW_LAST_OFFSET,
        ROW_MAX_TIMESTAMP,
        ROW_NUMBERS,
        ROW_ORIGIN,
        ROW_POSITION,
        ROW_PRODUCER_ID,
        ROW_SIZE,
        ROWS,
        SHORT_LENGTH,
        START,
        STATUS,
        TIME_FROM,
        TIME_LAST,
        TIME_SCALE,
        TIMESTAMP,
        TIMESTAMP_TYPE,
        TOMBSTONE,
        VALUE,
        VALUE_BYTES,
        VALUE_ENDS,
        VALUE_NULLS,
        VALUE_VALID,
        WANTS_MORE,
        WRONG_CRC,
        WRONG_MAGIC,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def survey_batches(
    buffer: "Buffer", start: int, origin: int, is_verified: bool, rows: "Buffer", state: "Buffer"
) -> None:
    """List the whole batches of data from ``start`` on, without the GIL.

    Checked are length, magic, that offsets rise, that there is room for the records and, if
    ``is_verified``, the CRC. Batches of control records are passed over. ``rows`` and ``state`` are
    int64; ``origin`` is where in its file the buffer begins.
    """
    region = no_region()
    listed = no_numbers()
    numbers = no_numbers()
    acquire(buffer, region)
    acquire_numbers(rows, listed)
    acquire_numbers(state, numbers)
    data = region.buf
    size = region.len
    rows_ = listed.buf
    most = listed.len // (8 * ROW_NUMBERS)
    state_ = numbers.buf
    with cython.nogil:
        _survey(data, start, size, origin, is_verified, rows_, most, state_)
    release_numbers(numbers)
    release_numbers(listed)
    release(region)


def fill_columns(
    buffer: "Buffer", rows: "Buffer", count: int, state: "Buffer", layout: "Buffer", arena: "Buffer"
) -> None:
    """Write the records of the first ``count`` rows into the arena, without the GIL.

    The batches are uncompressed and were surveyed; ``layout`` says where each buffer begins, and
    every one of them has room for all their records. The walk stops at a record that does not
    parse; what was written before it is whole.
    """
    region = no_region()
    listed = no_numbers()
    numbers = no_numbers()
    places = no_numbers()
    target = no_target()
    acquire(buffer, region)
    acquire_numbers(rows, listed)
    acquire_numbers(state, numbers)
    acquire_numbers(layout, places)
    acquire_target(arena, target)
    data = region.buf
    rows_ = listed.buf
    state_ = numbers.buf
    layout_ = places.buf
    arena_ = target.buf
    with cython.nogil:
        _fill(data, rows_, count, state_, layout_, arena_)
    release_target(target)
    release_numbers(places)
    release_numbers(numbers)
    release_numbers(listed)
    release(region)


def _survey(
    data: memoryview,
    position: int,
    size: int,
    origin: int,
    is_verified: bool,
    rows: memoryview,
    most: int,
    state: memoryview,
) -> None:
    status = WANTS_MORE
    row = 0
    state[NEEDED] = 61
    state[RECORDS] = 0
    state[FLAGS] = 0
    while position + 61 <= size:
        length = read_int32(data, position + 8)
        if length < 49:
            status = SHORT_LENGTH
            break
        if data[position + 16] != 2:
            status = WRONG_MAGIC
            break
        if length + 12 > size - position:
            state[NEEDED] = length + 12
            break
        if row == most:
            status = FULL
            break
        base = read_int64(data, position)
        delta = read_int32(data, position + 23)
        if base <= state[LAST_OFFSET] or delta < 0 or base > INT64_MAX - delta:
            status = OFFSET_BACKWARDS
            break
        if is_verified and checksum(data, position + 21, position + length + 12) != read_uint32(
            data, position + 17
        ):
            status = WRONG_CRC
            break
        count = read_int32(data, position + 57)
        attributes = read_int16(data, position + 21) & 0xFF
        is_plain = attributes & 7 == 0
        if count < 0 or count > delta + 1 or (is_plain and 7 * count > length - 49):
            status = BAD_COUNT
            break
        state[LAST_OFFSET] = base + delta
        if attributes & 0x20 == 0 and count > 0:
            at = row * ROW_NUMBERS
            rows[at + ROW_POSITION] = position
            rows[at + ROW_SIZE] = length + 12
            rows[at + ROW_ORIGIN] = origin + position
            rows[at + ROW_BASE_OFFSET] = base
            rows[at + ROW_LAST_OFFSET] = base + delta
            rows[at + ROW_COUNT] = count
            rows[at + ROW_ATTRIBUTES] = attributes
            rows[at + ROW_MAX_TIMESTAMP] = read_int64(data, position + 35)
            rows[at + ROW_PRODUCER_ID] = read_int64(data, position + 43)
            state[RECORDS] += count
            state[FLAGS] |= attributes
            row += 1
        position += length + 12
    state[STATUS] = status
    state[POSITION] = position
    state[BATCHES] = row


def _fill(
    data: memoryview,
    rows: memoryview,
    count: int,
    state: memoryview,
    layout: memoryview,
    arena: memoryview,
) -> None:
    for slot in range(ROWS, BAD_ROW):
        state[slot] = 0
    state[BAD_ROW] = -1
    if layout[KEY_ENDS] >= 0:
        store_int32(arena, layout[KEY_ENDS], 0, 0)
    if layout[VALUE_ENDS] >= 0:
        store_int32(arena, layout[VALUE_ENDS], 0, 0)
    if layout[HEADER_ENDS] >= 0:
        store_int32(arena, layout[HEADER_ENDS], 0, 0)
        store_int32(arena, layout[NAME_ENDS], 0, 0)
        store_int32(arena, layout[HEADER_VALUE_ENDS], 0, 0)
    row = 0
    while row < count:
        at = row * ROW_NUMBERS
        first = state[ROWS]
        base = rows[at + ROW_BASE_OFFSET]
        last = rows[at + ROW_LAST_OFFSET]
        held = rows[at + ROW_COUNT]
        is_inside = base >= state[START] and last < state[END]
        is_even = layout[OFFSET] < 0 or held == last - base + 1
        if state[IS_WALKED] == 0 and is_inside and is_even:
            if layout[OFFSET] >= 0:
                for index in range(held):
                    store_int64(arena, layout[OFFSET], first + index, base + index)
            state[ROWS] = first + held
        else:
            is_fine = _fill_batch(
                data,
                rows[at + ROW_POSITION],
                rows[at + ROW_SIZE],
                held,
                base,
                last,
                rows[at + ROW_ATTRIBUTES],
                state,
                layout,
                arena,
            )
            if not is_fine:
                state[BAD_ROW] = row
                return
        if layout[TIMESTAMP_TYPE] >= 0:
            kind = rows[at + ROW_ATTRIBUTES] >> 3 & 1
            for index in range(first, state[ROWS]):
                store_int32(arena, layout[TIMESTAMP_TYPE], index, kind)
        if layout[BATCH_POSITION] >= 0:
            for index in range(first, state[ROWS]):
                store_int64(arena, layout[BATCH_POSITION], index, rows[at + ROW_ORIGIN])
        if layout[BATCH_OFFSET] >= 0:
            for index in range(first, state[ROWS]):
                store_int64(arena, layout[BATCH_OFFSET], index, base)
        if layout[PRODUCER_ID] >= 0:
            for index in range(first, state[ROWS]):
                store_int64(arena, layout[PRODUCER_ID], index, rows[at + ROW_PRODUCER_ID])
        row += 1


def _fill_batch(
    data: memoryview,
    start: int,
    size: int,
    count: int,
    base: int,
    last: int,
    attributes: int,
    state: memoryview,
    layout: memoryview,
    arena: memoryview,
) -> bool:
    """Write the wanted records of one batch; tell whether all of them parse."""
    position = start + 61
    end = start + size
    base_timestamp = read_int64(data, start + 27)
    append_time = read_int64(data, start + 35)
    is_append_time = attributes & 8 != 0
    scale = state[TIME_SCALE]
    previous = base - 1
    index = 0
    while index < count:
        length, position = _read_number(data, position, end, 28)
        if position < 0 or length < 1 or length > end - position:
            return False
        stop = position + length
        time_delta, position = _read_number(data, position + 1, stop, 63)
        offset_delta, position = _read_number(data, position, stop, 28)
        key_size, key = _read_number(data, position, stop, 28)
        if position < 0 or key < 0 or key_size < -1 or key_size > stop - key:
            return False
        value_size, value = _read_number(data, key + max(key_size, 0), stop, 28)
        if value < 0 or value_size < -1 or value_size > stop - value:
            return False
        held, headers = _read_number(data, value + max(value_size, 0), stop, 28)
        if headers < 0 or held < 0 or held > stop - headers:
            return False
        if offset_delta > last - base:
            return False
        offset = base + offset_delta
        if offset <= previous:
            return False
        previous = offset
        if is_append_time:
            timestamp = append_time
        elif _is_outside(base_timestamp, time_delta):
            return False
        else:
            timestamp = base_timestamp + time_delta
        if held == 0:
            if headers != stop:
                return False
        elif _walk_headers(data, headers, stop, held) == 0:
            return False
        position = stop
        index += 1
        if offset < state[START] or offset >= state[END]:
            continue
        if timestamp < state[TIME_FROM] or timestamp > state[TIME_LAST]:
            continue
        row = state[ROWS]
        if layout[OFFSET] >= 0:
            store_int64(arena, layout[OFFSET], row, offset)
        if layout[TIMESTAMP] >= 0:
            store_int64(arena, layout[TIMESTAMP], row, _scaled(timestamp, scale))
        if layout[KEY_ENDS] >= 0:
            store_bit(arena, layout[KEY_VALID], row, key_size >= 0)
            if key_size >= 0:
                copy(arena, layout[KEY] + state[KEY_BYTES], data, key, key + key_size)
                state[KEY_BYTES] += key_size
            else:
                state[KEY_NULLS] += 1
            store_int32(arena, layout[KEY_ENDS], row + 1, state[KEY_BYTES])
        if layout[VALUE_ENDS] >= 0:
            store_bit(arena, layout[VALUE_VALID], row, value_size >= 0)
            if value_size >= 0:
                copy(arena, layout[VALUE] + state[VALUE_BYTES], data, value, value + value_size)
                state[VALUE_BYTES] += value_size
            else:
                state[VALUE_NULLS] += 1
            store_int32(arena, layout[VALUE_ENDS], row + 1, state[VALUE_BYTES])
        if layout[TOMBSTONE] >= 0:
            store_bit(arena, layout[TOMBSTONE], row, value_size < 0)
        if layout[HEADER_ENDS] >= 0:
            if held > 0:
                _fill_headers(data, headers, stop, held, state, layout, arena)
            store_int32(arena, layout[HEADER_ENDS], row + 1, state[HEADERS])
        state[ROWS] = row + 1
    return position == end


def _walk_headers(data: memoryview, position: int, end: int, count: int) -> bool:
    """Tell whether the headers of a record are what is left of it."""
    while count > 0:
        size, position = _read_number(data, position, end, 28)
        if position < 0 or size < 0 or size > end - position:
            return False
        size, position = _read_number(data, position + size, end, 28)
        if position < 0 or size < -1 or size > end - position:
            return False
        position += max(size, 0)
        count -= 1
    return position == end


def _fill_headers(
    data: memoryview,
    position: int,
    end: int,
    count: int,
    state: memoryview,
    layout: memoryview,
    arena: memoryview,
) -> None:
    header = state[HEADERS]
    while count > 0:
        size, position = _read_number(data, position, end, 28)
        copy(arena, layout[NAME] + state[NAME_BYTES], data, position, position + size)
        state[NAME_BYTES] += size
        store_int32(arena, layout[NAME_ENDS], header + 1, state[NAME_BYTES])
        size, position = _read_number(data, position + size, end, 28)
        store_bit(arena, layout[HEADER_VALID], header, size >= 0)
        if size >= 0:
            copy(arena, layout[HEADER_VALUE] + state[HEADER_BYTES], data, position, position + size)
            state[HEADER_BYTES] += size
            position += size
        else:
            state[HEADER_NULLS] += 1
        store_int32(arena, layout[HEADER_VALUE_ENDS], header + 1, state[HEADER_BYTES])
        header += 1
        count -= 1
    state[HEADERS] = header


def _read_number(data: memoryview, position: int, end: int, last_shift: int) -> tuple[int, int]:
    """Return a zig-zag number and the position after it; position -1 if it is broken.

    ``last_shift`` is 28 for a number of 32 bits, 63 for one of 64.
    """
    if position < 0:
        return 0, -1
    rest = 0
    shift = 0
    while position < end and shift <= last_shift:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == last_shift and byte > (15 if shift == 28 else 1):
                break
            return (rest >> 1) ^ -(rest & 1), position
        shift += 7
    return 0, -1


def _scaled(timestamp: int, scale: int) -> int:
    """Return a time in a finer unit, the end of time where it does not fit."""
    if timestamp > INT64_MAX // scale:
        return INT64_MAX
    if timestamp < -(INT64_MAX // scale):
        return INT64_MIN
    return timestamp * scale


def _is_outside(base: int, delta: int) -> bool:
    """Whether the sum leaves 64 bits."""
    if delta > 0:
        return base > INT64_MAX - delta
    return base < INT64_MIN - delta
