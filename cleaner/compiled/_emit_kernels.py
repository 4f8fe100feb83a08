"""The cleaner's last step over a chunk: writing what stays of it (storage.md §8.10, §3.2).

Compiled by Cython, or plain Python as it stands. The batches come from `plan_batches` in
`_kernels.py`, which has checked every number in them. The numbers stand in `slots.py`, the types of
C in `_emit_kernels.pxd`.
"""
# ruff: noqa: F403, F405  # the numbers of slots.py and the names of C's side, as `cimport` has them
# ruff: noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917  # kernels: plain numbers in

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.cleaner.compiled._portable import *
    from siltstone.cleaner.compiled.slots import *
    from siltstone.protocol.records._portable import *

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def emit_batches(
    buffer: "Buffer", state: "Buffer", plans: "Buffer", fates: "Buffer", output: "Buffer"
) -> None:
    """Carry out the plans from PLAN on, writing what stays behind the OUTPUT bytes of ``output``.

    Of a batch that was opened (OPENED) OUTCOME says what became of it; unchanged, nothing is
    written; rebuilt, what is written is not compressed and has no checksum yet.
    """
    region = no_region()
    numbers = no_numbers()
    planned = no_numbers()
    found = no_region()
    target = no_target()
    acquire(buffer, region)
    acquire_numbers(state, numbers)
    acquire_numbers(plans, planned)
    acquire(fates, found)
    acquire_target(output, target)
    data = region.buf
    state_ = numbers.buf
    plans_ = planned.buf
    fates_ = found.buf
    output_ = target.buf
    room = target.len
    with cython.nogil:
        _emit(data, state_, plans_, fates_, output_, room)
    release_target(target)
    release(found)
    release_numbers(planned)
    release_numbers(numbers)
    release(region)


def index_batches(buffer: "Buffer", index: "Buffer", offsets: "Buffer", times: "Buffer") -> None:
    """Write the index entries of batches that are about to be appended (storage.md §3.2).

    POSITION is where in the buffer the walk begins, and afterwards how far it came: to the end, or
    to a batch that does not fit into the segment. ``offsets`` and ``times`` have room for an entry
    of each batch that there may be.
    """
    region = no_region()
    numbers = no_numbers()
    first = no_target()
    second = no_target()
    acquire(buffer, region)
    acquire_numbers(index, numbers)
    acquire_target(offsets, first)
    acquire_target(times, second)
    data = region.buf
    size = region.len
    index_ = numbers.buf
    offsets_ = first.buf
    times_ = second.buf
    with cython.nogil:
        _index(data, size, index_, offsets_, times_)
    release_target(second)
    release_target(first)
    release_numbers(numbers)
    release(region)


def _emit(
    data: memoryview,
    state: memoryview,
    plans: memoryview,
    fates: memoryview,
    output: memoryview,
    room: int,
) -> None:
    at = state[OUTPUT]
    state[STATUS] = DONE
    while state[PLAN] < state[PLANS]:
        plan = state[PLAN] * PLAN_NUMBERS
        position = plans[plan]
        size = plans[plan + 1]
        mode = plans[plan + 2] & MODE
        fate = plans[plan + 3]
        count = read_int32(data, position + 57)
        kept, tombstones = _count_kept(mode, fates, fate, count)
        is_stamped = mode == STAMP or (
            tombstones > 0 and not read_int16(data, position + 21) & 0x40
        )
        needed = size
        if kept == 0:
            needed = 61
        elif kept != count or is_stamped:
            needed = size + GROWTH * kept
        if at + needed > room:
            state[NEEDED] = needed
            state[STATUS] = OUTPUT_FULL
            break
        start = at
        if kept > 0 and kept == count and not is_stamped:
            state[OUTCOME] = UNCHANGED
            if not state[OPENED]:
                copy(output, at, data, position, position + size)
                at += size
        elif kept > 0:
            state[OUTCOME] = REBUILT
            at = _rebuild(
                data, position, size, mode, fate, fates, is_stamped, kept, state, output, at
            )
            state[BATCHES_REBUILT] += 1
            state[HORIZONS_SET] += is_stamped
        elif plans[plan + 2] & RETAIN_EMPTY:
            state[OUTCOME] = EMPTIED
            at = _empty(data, position, output, at)
            state[BATCHES_EMPTIED] += count > 0
        else:
            state[OUTCOME] = NOTHING
        if state[OUTCOME] != NOTHING:
            state[BATCHES_WRITTEN] += 1
            state[RECORDS_WRITTEN] += kept
            horizon = INT64_MAX
            if state[OUTCOME] == UNCHANGED:
                horizon = _horizon_of(data, position)
            elif state[OUTCOME] == REBUILT:
                horizon = _horizon_of(output, start)
            state[NEXT_HORIZON] = min(state[NEXT_HORIZON], horizon)
        state[PLAN] += 1
    state[OUTPUT] = at


def _count_kept(mode: int, fates: memoryview, fate: int, count: int) -> tuple[int, int]:
    """Return how many records of a batch stay, and how many of these are tombstones."""
    if mode == DROP:
        return 0, 0
    if mode != SOME:
        return count, 0
    kept = 0
    tombstones = 0
    for index in range(fate, fate + count):
        kept += fates[index] <= KEEP_TOMBSTONE
        tombstones += fates[index] == KEEP_TOMBSTONE
    return kept, tombstones


def _horizon_of(batch: memoryview, position: int) -> int:
    """Return the delete horizon of a batch, INT64_MAX if it has none."""
    if read_int16(batch, position + 21) & 0x40:
        return read_int64(batch, position + 27)
    return INT64_MAX


def _empty(data: memoryview, position: int, output: memoryview, at: int) -> int:
    """Write the header of a batch of which nothing else stays; return where it ends."""
    copy(output, at, data, position, position + 61)
    _write_head(output, at, at + 61, read_int16(data, position + 21) & 0x38, -1, 0)
    write_int32(output, at + 17, checksum(output, at + 21, at + 61))
    return at + 61


def _write_head(
    output: memoryview, at: int, end: int, attributes: int, base: int, count: int
) -> None:
    """Write what is new in the copied header of a batch: length, attributes, base time, count."""
    write_int32(output, at + 8, end - at - 12)
    write_int16(output, at + 21, attributes)
    write_int64(output, at + 27, base)
    write_int32(output, at + 57, count)


def _rebuild(
    data: memoryview,
    position: int,
    size: int,
    mode: int,
    fate: int,
    fates: memoryview,
    is_stamped: int,
    kept: int,
    state: memoryview,
    output: memoryview,
    at: int,
) -> int:
    """Write a batch of the records that stay; return where it ends (``buildRetainedRecordsInto``).

    Times are told from another base, so that a reader sees the same ones.
    """
    attributes = read_int16(data, position + 21)
    base = read_int64(data, position + 27)
    append_time = read_int64(data, position + 35)
    count = read_int32(data, position + 57)
    end = position + size
    new_base = base
    is_based = attributes & 0x40
    if is_stamped:
        new_base = wrapping_add(state[NOW], state[RETENTION])
        is_based = 1
    largest = -1
    copy(output, at, data, position, position + 61)
    here = at + 61
    there = position + 61
    for index in range(count):
        start = there
        length, body = read_varint(data, start, end)
        there = body + length
        if mode == SOME and fates[fate + index] > KEEP_TOMBSTONE:
            continue
        delta, tail = read_varlong(data, body + 1, there)
        timestamp = append_time if attributes & 8 else wrapping_add(base, delta)
        if not is_based:
            new_base = timestamp
            is_based = 1
        largest = max(largest, timestamp)
        new_delta = wrapping_subtract(timestamp, new_base)
        if new_delta != delta:
            here = write_zigzag(output, here, 1 + zigzag_size(new_delta) + there - tail)
            output[here] = data[body]
            here = write_zigzag(output, here + 1, new_delta)
            start = tail
        copy(output, here, data, start, there)
        here += there - start
    write_int64(output, at + 35, append_time if attributes & 8 else largest)
    if is_stamped:
        attributes |= 0x40
    _write_head(output, at, here, attributes, new_base, kept)
    if not state[OPENED]:
        write_int32(output, at + 17, checksum(output, at + 21, here))
    return here


def _index(
    data: memoryview, size: int, index: memoryview, offsets: memoryview, times: memoryview
) -> None:
    position = index[POSITION]
    offset_at = 0
    time_at = 0
    index[STATUS] = DONE
    base = index[BASE_OFFSET]
    while position + 61 <= size:
        batch_size = read_int32(data, position + 8) + 12
        last_offset = read_int64(data, position) + read_int32(data, position + 23)
        timestamp = read_int64(data, position + 35)
        if last_offset - base > 2147483647 or index[SEGMENT_SIZE] + batch_size > 2147483647:
            index[STATUS] = WANTS_SEGMENT
            break
        if index[SEGMENT_SIZE] == 0:
            index[FIRST_TIMESTAMP] = timestamp
        if timestamp > index[MAX_TIMESTAMP]:
            index[MAX_TIMESTAMP] = timestamp
            index[MAX_TIMESTAMP_OFFSET] = last_offset
        if index[SINCE_INDEX] > index[INTERVAL]:
            write_int32(offsets, offset_at, last_offset - base)
            write_int32(offsets, offset_at + 4, index[SEGMENT_SIZE])
            offset_at += 8
            if index[MAX_TIMESTAMP] > index[LAST_TIME]:
                write_int64(times, time_at, index[MAX_TIMESTAMP])
                write_int32(times, time_at + 8, index[MAX_TIMESTAMP_OFFSET] - base)
                time_at += 12
                index[LAST_TIME] = index[MAX_TIMESTAMP]
            index[SINCE_INDEX] = 0
        index[SINCE_INDEX] += batch_size
        index[SEGMENT_SIZE] += batch_size
        index[END_OFFSET] = last_offset + 1
        position += batch_size
    index[POSITION] = position
    index[OFFSET_BYTES] = offset_at
    index[TIME_BYTES] = time_at
