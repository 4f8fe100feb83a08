"""The loops over the batches of a segment: compiled by Cython, or as plain Python as they stand.

What comes here came from the disk, maybe torn or damaged: a batch is believed when it is wholly
there and its checksum holds. The types of the compiled form stand in `_segment_kernels.pxd`.
Import `kernels`, which chooses.
"""
# ruff: noqa: C901, PLR0912, PLR0915  # kernels: numbers in, one branch a rule

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.core.constants import (
        BASE_OFFSET,
        BATCHES,
        ENTRIES,
        ENTRY_NUMBERS,
        FIRST_TIMESTAMP,
        FULL,
        INDEXED,
        INTERVAL,
        LAST_OFFSET,
        LEADER_EPOCH,
        MAX_TIMESTAMP,
        MAX_TIMESTAMP_OFFSET,
        NEEDED,
        NOTABLE,
        OFFSET_BACKWARDS,
        OFFSET_OVERFLOW,
        POSITION,
        SHORT_LENGTH,
        STATUS,
        TABLE,
        TABLE_PRODUCERS,
        WANTS_MORE,
        WRONG_CRC,
        WRONG_MAGIC,
    )
    from protocol.records._portable import (
        INT64_MAX,
        acquire,
        acquire_numbers,
        checksum,
        no_numbers,
        no_region,
        prepare,
        read_int16,
        read_int32,
        read_int64,
        read_uint32,
        release,
        release_numbers,
        sum_reaches,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def scan_batches(buffer: "Buffer", state: "Buffer", entries: "Buffer", notable: "Buffer") -> None:
    """Walk the whole batches of a chunk of a segment, without the GIL (`LogSegment.recover`).

    Checked are length, magic, CRC and that offsets rise within the segment. The walk stops before
    the first batch that is bad or not wholly in the chunk, or when an array is full: the next call
    gets the bytes from `state[POSITION]` on. All three arrays are int64:

        state    slots by `verdicts`; the caller sets those of the segment before the first call
        entries  filled with ENTRIES rows of four: what the sparse indexes get, by Kafka's rule
        notable  filled with NOTABLE file positions of batches that Python must see, in order:
                 new leader epochs, transactional and control ones, and of every producer the
                 last five in the chunk, which is all that its state remembers
    """
    region = no_region()
    numbers = no_numbers()
    found = no_numbers()
    marked = no_numbers()
    acquire(buffer, region)
    acquire_numbers(state, numbers)
    acquire_numbers(entries, found)
    acquire_numbers(notable, marked)
    data = region.buf
    slots = numbers.buf
    rows = found.buf
    marks = marked.buf
    size = region.len
    most_entries = found.len // (8 * ENTRY_NUMBERS)
    most_marks = marked.len // 8
    with cython.nogil:
        _scan(data, size, slots, rows, most_entries, marks, most_marks)
    release_numbers(marked)
    release_numbers(found)
    release_numbers(numbers)
    release(region)


def find_batch(buffer: "Buffer", start: int, end: int, offset: int) -> int:
    """Return the position of the first batch whose last offset is at or above `offset`.

    Only headers are read. Where there is none, the answer is ~p: p is where the next header is to
    be read, maybe beyond `end`; p is `start` again if what is there is cut short or no batch.
    """
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    end = min(end, region.len)
    position = max(start, 0)
    while position + 61 <= end:
        length = read_int32(data, position + 8)
        if length < 49:
            break
        if sum_reaches(read_int64(data, position), read_int32(data, position + 23), offset):
            release(region)
            return position
        position += length + 12
    release(region)
    return -1 - position


def find_end(buffer: "Buffer", start: int, end: int) -> int:
    """Return where the last whole batch between `start` and `end` ends; `start` without one."""
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    end = min(end, region.len)
    position = max(start, 0)
    while position + 61 <= end:
        length = read_int32(data, position + 8)
        if length < 49 or position + length + 12 > end:
            break
        position += length + 12
    release(region)
    return position


def _scan(
    data: memoryview,
    size: int,
    state: memoryview,
    entries: memoryview,
    most_entries: int,
    notable: memoryview,
    most_notable: int,
) -> None:
    origin = state[POSITION]
    position = 0
    row = 0
    marks = 0
    status = WANTS_MORE
    state[NEEDED] = 61
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
        if row == most_entries or marks == most_notable:
            status = FULL
            break
        if checksum(data, position + 21, position + length + 12) != read_uint32(
            data, position + 17
        ):
            status = WRONG_CRC
            break
        first = read_int64(data, position)
        delta = read_int32(data, position + 23)
        if first < state[BASE_OFFSET] or first >= INT64_MAX - max(delta, 0):
            status = OFFSET_OVERFLOW
            break
        last = first + delta
        if first - state[BASE_OFFSET] > 2147483647 or last - state[BASE_OFFSET] > 2147483647:
            status = OFFSET_OVERFLOW
            break
        if delta < 0 or last <= state[LAST_OFFSET]:
            status = OFFSET_BACKWARDS
            break
        state[LAST_OFFSET] = last
        timestamp = read_int64(data, position + 35)
        if state[BATCHES] == 0:
            state[FIRST_TIMESTAMP] = timestamp
        state[BATCHES] += 1
        if timestamp > state[MAX_TIMESTAMP]:
            state[MAX_TIMESTAMP] = timestamp
            state[MAX_TIMESTAMP_OFFSET] = last
        if origin + position - state[INDEXED] > state[INTERVAL]:
            entries[row * ENTRY_NUMBERS] = last
            entries[row * ENTRY_NUMBERS + 1] = origin + position
            entries[row * ENTRY_NUMBERS + 2] = state[MAX_TIMESTAMP]
            entries[row * ENTRY_NUMBERS + 3] = state[MAX_TIMESTAMP_OFFSET]
            row += 1
            state[INDEXED] = origin + position
        epoch = read_int32(data, position + 12)
        if epoch > state[LEADER_EPOCH] or read_int16(data, position + 21) & 0x30:
            notable[marks] = -1 - position
            marks += 1
            state[LEADER_EPOCH] = max(state[LEADER_EPOCH], epoch)
        elif read_int64(data, position + 43) >= 0:
            notable[marks] = position
            marks += 1
        position += length + 12
    state[POSITION] = origin + position
    state[STATUS] = status
    state[ENTRIES] = row
    state[NOTABLE] = _thin(data, state, notable, marks, origin)


def _thin(data: memoryview, state: memoryview, notable: memoryview, marks: int, origin: int) -> int:
    """Keep what is marked negative, and the last five of each producer; return how many are left.

    Going backwards, a table of 256 producer ids counts; ids that share a place push each other out
    and keep more, which does no harm. The kept ones gather at the end and then move to the front.
    """
    for slot in range(TABLE, TABLE + 2 * TABLE_PRODUCERS):
        state[slot] = -1
    kept = marks
    mark = marks - 1
    while mark >= 0:
        position = notable[mark]
        seen = 0
        if position < 0:
            position = -1 - position
        else:
            producer_id = read_int64(data, position + 43)
            place = TABLE + 2 * (producer_id & (TABLE_PRODUCERS - 1))
            seen = state[place + 1] + 1 if state[place] == producer_id else 0
            state[place] = producer_id
            state[place + 1] = seen
        if seen < 5:
            kept -= 1
            notable[kept] = origin + position
        mark -= 1
    left = marks - kept
    for mark in range(left):
        notable[mark] = notable[kept + mark]
    return left
