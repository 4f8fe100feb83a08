"""The cleaner's loops over batches and records. Compiled by Cython, or run as plain Python.

Each is one call without the GIL over a chunk of a segment. `map_keys` puts keys into the offset
map; `plan_batches` decides what becomes of each record and batch, by the rules that stand below
under names of their own, and `emit_batches` writes what stays. The bytes come from the disk: a
batch is believed if its checksum is right, and no number in it before it was compared with the end
of the buffer. Keys are hashed some records ahead of the look-up, so that the map's slots can be
fetched from memory meanwhile.

The numbers stand in `slots.py` and in `protocol.core.constants`, the types of C in `_kernels.pxd`.
It is one file because a compiler inlines within one unit. Uncompiled, these loops hold the GIL;
then a pass runs in a process of its own, never in a thread.
"""
# ruff: noqa: F403, F405  # the numbers of slots.py and the names of C's side, as `cimport` has them
# ruff: noqa: C901, PLR0911, PLR0912, PLR0913, PLR0915, PLR0917  # kernels: plain numbers in

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.cleaner.compiled._portable import *
    from siltstone.cleaner.compiled.slots import *
    from siltstone.protocol.core.constants import (
        ATTRIBUTES_POSITION,
        BAD_COUNT,
        BAD_RECORD,
        BASE_TIMESTAMP_POSITION,
        CODEC_MASK,
        CONTROL,
        COUNT_POSITION,
        CRC_POSITION,
        DELETE_HORIZON,
        HEADER_SIZE,
        LAST_OFFSET_DELTA_POSITION,
        LENGTH_POSITION,
        LOG_APPEND_TIME,
        LOG_OVERHEAD,
        MAGIC,
        MAGIC_POSITION,
        MAX_TIMESTAMP_POSITION,
        MIN_LENGTH,
        MIN_RECORD_BYTES,
        OFFSET_BACKWARDS,
        PRODUCER_EPOCH_POSITION,
        PRODUCER_ID_POSITION,
        SHORT_LENGTH,
        TOO_LARGE,
        TRANSACTIONAL,
        WRONG_CRC,
        WRONG_MAGIC,
    )
    from siltstone.protocol.records._portable import *

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def map_keys(
    buffer: "Buffer",
    state: "Buffer",
    slots: "Buffer",
    transactions: "Buffer",
    aborted: "Buffer",
    rows: "Buffer",
) -> None:
    """Put the keys of a chunk's whole batches into the map; later offsets replace earlier ones.

    Not mapped are markers, aborted data, records below the first dirty offset and records without a
    key (Kafka: ``buildOffsetMapForSegment``). The caller makes room for transactions.
    """
    region = no_region()
    numbers = no_numbers()
    table = no_numbers()
    open_ = no_numbers()
    index = no_numbers()
    window = no_numbers()
    acquire(buffer, region)
    acquire_numbers(state, numbers)
    acquire_numbers(slots, table)
    acquire_numbers(transactions, open_)
    acquire_numbers(aborted, index)
    acquire_numbers(rows, window)
    slot_count = table.len // (8 * SLOT_NUMBERS)
    room = open_.len // (8 * TRANSACTION_NUMBERS)
    with cython.nogil:
        _map(
            region.buf, region.len, numbers.buf, table.buf, slot_count, open_.buf, room, index.buf,
            window.buf,
        )  # fmt: skip
    release_numbers(window)
    release_numbers(index)
    release_numbers(open_)
    release_numbers(table)
    release_numbers(numbers)
    release(region)


def move_slots(old: "Buffer", start: int, end: int, new: "Buffer") -> None:
    """Put the slots from ``start`` to ``end`` of a map into a larger, empty one."""
    source = no_numbers()
    target = no_numbers()
    acquire_numbers(old, source)
    acquire_numbers(new, target)
    old_ = source.buf
    new_ = target.buf
    count = target.len // (8 * SLOT_NUMBERS)
    with cython.nogil:
        _move(old_, start, end, new_, count)
    release_numbers(target)
    release_numbers(source)


def count_records(buffer: "Buffer") -> int:
    """Return the sum of the counts of a chunk's batches, also of a last one that is cut."""
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    size = region.len
    position = 0
    total = 0
    while position + HEADER_SIZE <= size:
        length = read_int32(data, position + LENGTH_POSITION)
        if length < MIN_LENGTH:
            break
        total += max(read_int32(data, position + COUNT_POSITION), 0)
        position += length + LOG_OVERHEAD
    release(region)
    return total


def add_keys(keys: "Buffer", ends: "Buffer", sums: "Buffer") -> None:
    """Add the public digests of joined keys to a sum; ``ends`` says where each key ends."""
    region = no_region()
    numbers = no_numbers()
    total = no_numbers()
    acquire(keys, region)
    acquire_numbers(ends, numbers)
    acquire_numbers(sums, total)
    data = region.buf
    ends_ = numbers.buf
    count = numbers.len // 8
    sums_ = total.buf
    with cython.nogil:
        _add(data, ends_, count, sums_)
    release_numbers(total)
    release_numbers(numbers)
    release(region)


def plan_batches(
    buffer: "Buffer",
    state: "Buffer",
    slots: "Buffer",
    transactions: "Buffer",
    aborted: "Buffer",
    producers: "Buffer",
    plans: "Buffer",
    fates: "Buffer",
    rows: "Buffer",
) -> None:
    """Decide what becomes of the whole batches of a chunk and of each of their records.

    ``fates`` has a byte for each record that may be in the chunk: a seventh of its bytes. Each
    batch is planned only once, since it may begin or end a transaction.
    """
    region = no_region()
    numbers = no_numbers()
    table = no_numbers()
    open_ = no_numbers()
    index = no_numbers()
    last = no_numbers()
    planned = no_numbers()
    target = no_target()
    window = no_numbers()
    acquire(buffer, region)
    acquire_numbers(state, numbers)
    acquire_numbers(slots, table)
    acquire_numbers(transactions, open_)
    acquire_numbers(aborted, index)
    acquire_numbers(producers, last)
    acquire_numbers(plans, planned)
    acquire_target(fates, target)
    acquire_numbers(rows, window)
    slot_count = table.len // (8 * SLOT_NUMBERS)
    room = open_.len // (8 * TRANSACTION_NUMBERS)
    producer_count = last.len // (8 * PRODUCER_NUMBERS)
    most = planned.len // (8 * PLAN_NUMBERS)
    with cython.nogil:
        _plan(
            region.buf, region.len, numbers.buf, table.buf, slot_count, open_.buf, room, index.buf,
            last.buf, producer_count, planned.buf, most, target.buf, window.buf,
        )  # fmt: skip
    release_numbers(window)
    release_target(target)
    release_numbers(planned)
    release_numbers(last)
    release_numbers(index)
    release_numbers(open_)
    release_numbers(table)
    release_numbers(numbers)
    release(region)


def emit_batches(
    buffer: "Buffer", state: "Buffer", plans: "Buffer", fates: "Buffer", output: "Buffer"
) -> None:
    """Carry out the plans from PLAN on, and write what stays behind the OUTPUT bytes of ``output``.

    For a batch that was opened (OPENED), OUTCOME says what became of it. If it is unchanged,
    nothing is written; if it is rebuilt, it is written without compression and without a checksum.
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
    """Write the index entries of batches that are about to be appended.

    The walk begins at POSITION in the buffer, which afterwards says how far it came: to the end, or
    to a batch that does not fit into the segment. ``offsets`` and ``times`` have room for an entry
    for each batch.
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


def _map(
    data: memoryview,
    size: int,
    state: memoryview,
    slots: memoryview,
    slot_count: int,
    transactions: memoryview,
    room: int,
    aborted: memoryview,
    rows: memoryview,
) -> None:
    position = 0
    pending = 0
    covered = state[LATEST]
    status = DONE
    while True:
        batch_size = _check_batch(data, position, size, state)
        if batch_size <= 0:
            status = batch_size
            break
        if _lacks_room(state, room):
            status = WANTS_PRODUCERS
            break
        attributes = read_int16(data, position + ATTRIBUTES_POSITION)
        if attributes & CONTROL and attributes & CODEC_MASK and not state[OPENED]:
            status = OPEN
            break
        base_offset = read_int64(data, position)
        last_offset = base_offset + read_int32(data, position + LAST_OFFSET_DELTA_POSITION)
        count = read_int32(data, position + COUNT_POSITION)
        skipped = attributes & CONTROL
        if attributes & (TRANSACTIONAL | CONTROL):
            _begin_aborted(state, aborted, transactions, room, base_offset, last_offset)
            if attributes & CONTROL:
                skipped |= _note_control(
                    data, position, batch_size, state, aborted, transactions, room
                )
            elif _note_data(data, position, state, transactions, room):
                skipped = 1
        if not skipped and last_offset >= state[FIRST_DIRTY] and count > 0:
            if attributes & CODEC_MASK and not state[OPENED]:
                status = OPEN
                break
            at = position + HEADER_SIZE
            end = position + batch_size
            for _index_in_batch in range(count):
                at, offset_delta, key_start, key_size, _value_size = _read_record(data, at, end)
                if at < 0 or offset_delta < 0 or offset_delta > last_offset - base_offset:
                    status = BAD_RECORD
                    break
                offset = base_offset + offset_delta
                if key_size >= 0 and offset >= state[FIRST_DIRTY]:
                    row = pending * ROW_NUMBERS
                    digest_key(data, key_start, key_size, state, SEED, rows, row)
                    rows[row + 2] = offset
                    rows[row + 3] = covered
                    prefetch(slots, home_of(rows[row], slot_count) * SLOT_NUMBERS)
                    pending += 1
                    if pending == WINDOW:
                        pending = 0
                        if _put(state, slots, slot_count, rows, WINDOW):
                            status = FULL
                            break
            if status != DONE:
                break
            if at != end:
                status = BAD_RECORD
                break
            state[MAP_RECORDS] += count
        state[MAP_BATCHES] += 1
        state[LAST_OFFSET] = last_offset
        if last_offset >= state[FIRST_DIRTY]:
            covered = last_offset
        position += batch_size
    if status != FULL:
        if _put(state, slots, slot_count, rows, pending):
            status = FULL
        else:
            state[LATEST] = max(state[LATEST], covered)
    state[POSITION] = position
    state[STATUS] = status


def _put(
    state: memoryview, slots: memoryview, slot_count: int, rows: memoryview, count: int
) -> int:
    """Put a window of keys into the map; return 1 if there is no room for one."""
    for index in range(count):
        row = index * ROW_NUMBERS
        if state[MAP_KEYS] >= state[MAP_LIMIT]:
            state[LATEST] = max(state[LATEST], rows[row + 3])
            return 1
        offset = rows[row + 2]
        if _put_slot(slots, slot_count, rows[row], rows[row + 1], offset + 1):
            state[MAP_KEYS] += 1
        state[LATEST] = offset
    return 0


def _put_slot(slots: memoryview, slot_count: int, low: int, high: int, mark: int) -> int:
    """Return 1 if the key is new."""
    slot = home_of(low, slot_count)
    while True:
        at = slot * SLOT_NUMBERS
        if slots[at + 2] == 0:
            slots[at] = low
            slots[at + 1] = high
            slots[at + 2] = mark
            return 1
        if slots[at] == low and slots[at + 1] == high:
            slots[at + 2] = mark
            return 0
        slot += 1
        if slot == slot_count:
            slot = 0


def _find_slot(slots: memoryview, slot_count: int, low: int, high: int) -> int:
    """Return the offset of a key, -1 if the map does not have it."""
    slot = home_of(low, slot_count)
    while True:
        at = slot * SLOT_NUMBERS
        if slots[at + 2] == 0:
            return -1
        if slots[at] == low and slots[at + 1] == high:
            return slots[at + 2] - 1
        slot += 1
        if slot == slot_count:
            slot = 0


def _move(old: memoryview, start: int, end: int, new: memoryview, count: int) -> None:
    for slot in range(start, end):
        at = slot * SLOT_NUMBERS
        if old[at + 2]:
            _put_slot(new, count, old[at], old[at + 1], old[at + 2])


def _check_batch(data: memoryview, position: int, size: int, state: memoryview) -> int:
    """Return the size of a sound batch, 0 if it is cut short, or its fault."""
    if position + HEADER_SIZE > size:
        state[NEEDED] = HEADER_SIZE
        return 0
    length = read_int32(data, position + LENGTH_POSITION)
    if length < MIN_LENGTH:
        return SHORT_LENGTH
    if data[position + MAGIC_POSITION] != MAGIC:
        return WRONG_MAGIC
    if length > INT32_MAX - LOG_OVERHEAD:
        return TOO_LARGE
    if length + LOG_OVERHEAD > size - position:
        state[NEEDED] = length + LOG_OVERHEAD
        return 0
    end = position + length + LOG_OVERHEAD
    if not state[OPENED] and checksum(data, position + ATTRIBUTES_POSITION, end) != read_uint32(
        data, position + CRC_POSITION
    ):
        return WRONG_CRC
    delta = read_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    base_offset = read_int64(data, position)
    if delta < 0 or base_offset <= state[LAST_OFFSET] or base_offset >= INT64_MAX - delta:
        return OFFSET_BACKWARDS
    count = read_int32(data, position + COUNT_POSITION)
    if count < 0 or count > delta + 1:
        return BAD_COUNT
    plain = state[OPENED] or not read_int16(data, position + ATTRIBUTES_POSITION) & CODEC_MASK
    if plain and count * MIN_RECORD_BYTES > length - MIN_LENGTH:
        return BAD_COUNT
    return length + LOG_OVERHEAD


def _lacks_room(state: memoryview, room: int) -> int:
    """Whether one more batch could fill the table of transactions above three quarters."""
    coming = state[ABORTED_COUNT] - state[ABORTED_NEXT] + 1
    return (state[PRODUCERS_USED] + coming) * 4 > room * 3


def _find_producer(state: memoryview, transactions: memoryview, room: int, producer_id: int) -> int:
    """Return where the numbers of a producer begin; it is added if it is new.

    Its id is not negative.
    """
    slot = home_of(spread(producer_id), room)
    mark = wrapping_add(producer_id, 1)
    while True:
        at = slot * TRANSACTION_NUMBERS
        if transactions[at] == mark:
            return at
        if transactions[at] == 0:
            transactions[at] = mark
            state[PRODUCERS_USED] += 1
            return at
        slot += 1
        if slot == room:
            slot = 0


def _begin_aborted(
    state: memoryview,
    aborted: memoryview,
    transactions: memoryview,
    room: int,
    base_offset: int,
    last_offset: int,
) -> None:
    """Open the aborted transactions that begin at or before the last offset of a batch."""
    number = state[ABORTED_NEXT]
    while number < state[ABORTED_COUNT] and aborted[number * ABORTED_NUMBERS + 1] <= last_offset:
        at = number * ABORTED_NUMBERS
        number += 1
        if aborted[at] >= 0 and aborted[at + 2] >= base_offset:
            producer = _find_producer(state, transactions, room, aborted[at])
            if transactions[producer + 2] == 0:
                transactions[producer + 2] = number
                transactions[producer + 3] = 0
    state[ABORTED_NEXT] = number


def _note_data(
    data: memoryview, position: int, state: memoryview, transactions: memoryview, room: int
) -> int:
    """Return 1 if a batch belongs to an aborted transaction. May be called twice for a batch."""
    producer_id = read_int64(data, position + PRODUCER_ID_POSITION)
    if producer_id < 0:
        return 0
    at = _find_producer(state, transactions, room, producer_id)
    if transactions[at + 2]:
        transactions[at + 3] = 1
        return 1
    transactions[at + 1] = 1
    return 0


def _note_control(
    data: memoryview,
    position: int,
    size: int,
    state: memoryview,
    aborted: memoryview,
    transactions: memoryview,
    room: int,
) -> int:
    """Return 1 if a control batch may go: it is empty, or no data of its transaction is left."""
    if read_int32(data, position + COUNT_POSITION) == 0:
        return 1
    stop, _offset, key_start, key_size, _value_size = _read_record(
        data, position + HEADER_SIZE, position + size
    )
    if stop < 0 or key_size < 4:
        return 0
    kind = read_int16(data, key_start + 2)
    producer_id = read_int64(data, position + PRODUCER_ID_POSITION)
    if (kind != 0 and kind != 1) or producer_id < 0:  # noqa: PLR1714  # a set would be an object
        return 0
    at = _find_producer(state, transactions, room, producer_id)
    if kind == 1:
        seen = transactions[at + 1]
        transactions[at + 1] = 0
        return 0 if seen else 1
    number = transactions[at + 2]
    seen = transactions[at + 3]
    transactions[at + 2] = 0
    transactions[at + 3] = 0
    if number and seen:
        aborted[(number - 1) * ABORTED_NUMBERS + 3] = 1
        return 0
    return 1


def _is_last_of_producer(
    data: memoryview, position: int, last_offset: int, producers: memoryview, count: int
) -> int:
    """Whether a batch is the last one of an active producer (KAFKA-5490)."""
    producer_id = read_int64(data, position + PRODUCER_ID_POSITION)
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if producers[middle * PRODUCER_NUMBERS] < producer_id:
            low = middle + 1
        else:
            high = middle
    at = low * PRODUCER_NUMBERS
    if low == count or producers[at] != producer_id:
        return 0
    if producers[at + 1] >= 0:
        return producers[at + 1] == last_offset
    is_control = read_int16(data, position + ATTRIBUTES_POSITION) & CONTROL
    return (
        is_control != 0
        and read_int16(data, position + PRODUCER_EPOCH_POSITION) == producers[at + 2]
    )


# The rules of what stays, for `_plan` and `_judge_records`, which go through batches and records.
# Kafka: ``Cleaner.checkBatchRetention``, ``Cleaner.shouldRetainRecord`` and
# ``MemoryRecords.filterTo``. Whether a batch stays for its transaction is decided before, by
# `_note_data` and `_note_control`.


def _has_expired(attributes: int, base_timestamp: int, now: int) -> int:
    """Whether a batch has a delete horizon that is reached (KIP-534).

    The horizon is kept in the field of the base timestamp.
    """
    return attributes & DELETE_HORIZON != 0 and base_timestamp <= now


def _mode_of_control(attributes: int, count: int, is_discardable: int, is_expired: int) -> int:
    """Decide on a control batch: a marker of which no data is left goes with its horizon."""
    if count == 0 or (is_discardable and is_expired):
        return DROP
    if is_discardable and not attributes & DELETE_HORIZON:
        return STAMP
    return WHOLE


def _mode_of_data(
    attributes: int, count: int, is_discardable: int, base_offset: int, latest: int
) -> int:
    """Decide on a batch of data by its header: aborted data goes at once.

    A batch that the map does not cover stays whole. Its records are read only if tombstones among
    them need a horizon.
    """
    if is_discardable or count == 0:
        return DROP
    if attributes & DELETE_HORIZON and base_offset > latest:
        return WHOLE
    return SOME


def _fate_of_record(
    offset: int, latest: int, key_size: int, value_size: int, is_expired: int
) -> int:
    """Decide on a record, if no later one has its key; the first rule that applies wins."""
    if offset > latest:  # the map does not cover it
        return KEEP if value_size >= 0 else KEEP_TOMBSTONE
    if key_size < 0:
        return NULL_KEY
    if value_size >= 0:
        return KEEP
    return EXPIRED if is_expired else KEEP_TOMBSTONE


def _is_superseded(offset: int, last_offset_of_key: int) -> int:
    """Whether a later record has the same key; this rule precedes those of `_fate_of_record`."""
    return last_offset_of_key > offset


def _keeps_header(
    data: memoryview,
    position: int,
    last_offset: int,
    first_uncleanable: int,
    producers: memoryview,
    producer_count: int,
) -> int:
    """Whether the header of a batch stays when none of its records does.

    Recovery learns a producer's sequence from its last batch (KAFKA-5490), and the log end offset
    from the last batch of the pass (KAFKA-17076).
    """
    return last_offset + 1 == first_uncleanable or _is_last_of_producer(
        data, position, last_offset, producers, producer_count
    )


def _plan(
    data: memoryview,
    size: int,
    state: memoryview,
    slots: memoryview,
    slot_count: int,
    transactions: memoryview,
    room: int,
    aborted: memoryview,
    producers: memoryview,
    producer_count: int,
    plans: memoryview,
    most: int,
    fates: memoryview,
    rows: memoryview,
) -> None:
    position = 0
    plan = 0
    fate = 0
    pending = 0
    status = DONE
    while True:
        batch_size = _check_batch(data, position, size, state)
        if batch_size <= 0:
            status = batch_size
            break
        if plan == most:
            status = PLANS_FULL
            break
        if _lacks_room(state, room):
            status = WANTS_PRODUCERS
            break
        attributes = read_int16(data, position + ATTRIBUTES_POSITION)
        is_closed = attributes & CODEC_MASK and not state[OPENED]
        if is_closed and attributes & CONTROL:
            status = OPEN
            break
        base_offset = read_int64(data, position)
        last_offset = base_offset + read_int32(data, position + LAST_OFFSET_DELTA_POSITION)
        count = read_int32(data, position + COUNT_POSITION)
        is_discardable = 0
        if attributes & (CONTROL | TRANSACTIONAL):
            _begin_aborted(state, aborted, transactions, room, base_offset, last_offset)
            if attributes & CONTROL:
                is_discardable = _note_control(
                    data, position, batch_size, state, aborted, transactions, room
                )
            else:
                is_discardable = _note_data(data, position, state, transactions, room)
        is_expired = _has_expired(
            attributes, read_int64(data, position + BASE_TIMESTAMP_POSITION), state[NOW]
        )
        if attributes & CONTROL:
            mode = _mode_of_control(attributes, count, is_discardable, is_expired)
            if mode == DROP:
                _note_dropped(state, BY_MARKER, count, batch_size - HEADER_SIZE)
                state[HORIZONS_REACHED] += count
        else:
            mode = _mode_of_data(attributes, count, is_discardable, base_offset, state[LATEST])
            if is_discardable:
                _note_dropped(state, BY_ABORTED, count, batch_size - HEADER_SIZE)
            elif mode == SOME and is_closed:
                status = OPEN
                break
        first_fate = fate
        end = position + batch_size
        if mode == SOME:
            status, pending = _judge_records(
                data, position, end, is_expired, state, slots, slot_count, rows, pending, fates,
                fate,
            )  # fmt: skip
            if status != DONE:
                break
            fate += count
        elif mode == STAMP and _find_records_end(data, position + HEADER_SIZE, end, count) != end:
            status = BAD_RECORD
            break
        if mode >= STAMP and batch_size + GROWTH * count > INT32_MAX:
            status = TOO_LARGE
            break
        if _keeps_header(data, position, last_offset, state[UPPER], producers, producer_count):
            mode |= RETAIN_EMPTY
        plans[plan * PLAN_NUMBERS] = position
        plans[plan * PLAN_NUMBERS + 1] = batch_size
        plans[plan * PLAN_NUMBERS + 2] = mode
        plans[plan * PLAN_NUMBERS + 3] = first_fate
        plan += 1
        state[RECORDS_READ] += count
        state[BATCHES_READ] += 1
        state[LAST_OFFSET] = last_offset
        position = end
    _judge(data, state, slots, slot_count, rows, pending, fates)
    state[PLANS] = plan
    state[PLAN] = 0
    state[POSITION] = position
    state[STATUS] = status


def _judge_records(
    data: memoryview,
    position: int,
    end: int,
    is_expired: int,
    state: memoryview,
    slots: memoryview,
    slot_count: int,
    rows: memoryview,
    pending: int,
    fates: memoryview,
    fate: int,
) -> tuple[int, int]:
    """Decide on the records of a batch, whose fates begin at ``fate``.

    Records with a key that the map covers are collected in ``rows`` until a window is full.

    Returns:
        DONE or BAD_RECORD, and how many of ``rows`` are filled.
    """
    latest = state[LATEST]
    base_offset = read_int64(data, position)
    last_delta = read_int32(data, position + LAST_OFFSET_DELTA_POSITION)
    count = read_int32(data, position + COUNT_POSITION)
    at = position + HEADER_SIZE
    for _index_in_batch in range(count):
        start = at
        at, offset_delta, key_start, key_size, value_size = _read_record(data, at, end)
        if at < 0 or offset_delta < 0 or offset_delta > last_delta:
            return BAD_RECORD, pending
        offset = base_offset + offset_delta
        decided = _fate_of_record(offset, latest, key_size, value_size, is_expired)
        if offset > latest:
            fates[fate] = decided
        elif decided == NULL_KEY:
            fates[fate] = decided
            _note_dropped(state, BY_NULL_KEY, 1, at - start)
        else:
            row = pending * ROW_NUMBERS
            digest_key(data, key_start, key_size, state, SEED, rows, row)
            rows[row + 2] = offset
            rows[row + 3] = fate
            rows[row + 4] = at - start
            rows[row + 5] = key_start
            rows[row + 6] = key_size
            rows[row + 7] = decided
            prefetch(slots, home_of(rows[row], slot_count) * SLOT_NUMBERS)
            pending += 1
            if pending == WINDOW:
                pending = 0
                _judge(data, state, slots, slot_count, rows, WINDOW, fates)
        fate += 1
    return DONE if at == end else BAD_RECORD, pending


def _add(keys: memoryview, ends: memoryview, count: int, sums: memoryview) -> None:
    start = 0
    for index in range(count):
        end = ends[index]
        add_digest(keys, start, end - start, sums, 0)
        start = end


def _judge(
    data: memoryview,
    state: memoryview,
    slots: memoryview,
    slot_count: int,
    rows: memoryview,
    count: int,
    fates: memoryview,
) -> None:
    """Decide on a window of records that have a key and are covered by the map."""
    for index in range(count):
        row = index * ROW_NUMBERS
        fate = rows[row + 7]
        if _is_superseded(rows[row + 2], _find_slot(slots, slot_count, rows[row], rows[row + 1])):
            fate = SUPERSEDED
            _note_dropped(state, BY_SUPERSEDED, 1, rows[row + 4])
        elif fate == EXPIRED:
            _note_dropped(state, BY_TOMBSTONE, 1, rows[row + 4])
            state[HORIZONS_REACHED] += 1
        else:
            add_digest(data, rows[row + 5], rows[row + 6], state, DIGEST)
        fates[rows[row + 3]] = fate


def _note_dropped(state: memoryview, reason: int, count: int, size: int) -> None:
    state[DROPPED + 2 * reason] += count
    state[DROPPED + 2 * reason + 1] += size


def _find_records_end(data: memoryview, position: int, end: int, count: int) -> int:
    """Return where ``count`` records end, -1 if one of them does not parse."""
    for _index_in_batch in range(count):
        position, _offset, _key_start, _key_size, _value_size = _read_record(data, position, end)
        if position < 0:
            break
    return position


def _read_record(data: memoryview, position: int, end: int) -> tuple[int, int, int, int, int]:
    """Return next position (-1: broken), offset delta, where the key is, key and value size."""
    size, position = read_varint(data, position, end)
    stop = position + size
    if position < 0 or size < 1 or stop > end:
        return -1, 0, 0, 0, 0
    _delta, position = read_varlong(data, position + 1, stop)
    if position < 0:
        return -1, 0, 0, 0, 0
    offset_delta, position = read_varint(data, position, stop)
    if position < 0:
        return -1, 0, 0, 0, 0
    key_size, key_start = read_varint(data, position, stop)
    if key_start < 0 or key_size < -1 or key_size > stop - key_start:
        return -1, 0, 0, 0, 0
    value_size, position = read_varint(data, key_start + max(key_size, 0), stop)
    if position < 0 or value_size < -1 or value_size > stop - position:
        return -1, 0, 0, 0, 0
    return stop, offset_delta, key_start, key_size, value_size


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
        count = read_int32(data, position + COUNT_POSITION)
        kept, tombstones = _count_kept(mode, fates, fate, count)
        is_stamped = mode == STAMP or (
            tombstones > 0 and not read_int16(data, position + ATTRIBUTES_POSITION) & DELETE_HORIZON
        )
        needed = size
        if kept == 0:
            needed = HEADER_SIZE
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
    """Return how many records of a batch stay, and how many of those are tombstones."""
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
    if read_int16(batch, position + ATTRIBUTES_POSITION) & DELETE_HORIZON:
        return read_int64(batch, position + BASE_TIMESTAMP_POSITION)
    return INT64_MAX


def _empty(data: memoryview, position: int, output: memoryview, at: int) -> int:
    """Write a batch of which only the header stays; return where it ends."""
    copy(output, at, data, position, position + HEADER_SIZE)
    _write_head(
        output,
        at,
        at + HEADER_SIZE,
        read_int16(data, position + ATTRIBUTES_POSITION)
        & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        -1,
        0,
    )
    write_int32(
        output, at + CRC_POSITION, checksum(output, at + ATTRIBUTES_POSITION, at + HEADER_SIZE)
    )
    return at + HEADER_SIZE


def _write_head(
    output: memoryview, at: int, end: int, attributes: int, base: int, count: int
) -> None:
    """Write the fields of a copied header that change: length, attributes, times and counts."""
    write_int32(output, at + LENGTH_POSITION, end - at - LOG_OVERHEAD)
    write_int16(output, at + ATTRIBUTES_POSITION, attributes)
    write_int64(output, at + BASE_TIMESTAMP_POSITION, base)
    write_int32(output, at + COUNT_POSITION, count)


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

    Deltas are computed from the new base timestamp, so that records keep their timestamps.
    """
    attributes = read_int16(data, position + ATTRIBUTES_POSITION)
    base = read_int64(data, position + BASE_TIMESTAMP_POSITION)
    append_time = read_int64(data, position + MAX_TIMESTAMP_POSITION)
    count = read_int32(data, position + COUNT_POSITION)
    end = position + size
    new_base = base
    is_based = attributes & DELETE_HORIZON
    if is_stamped:
        new_base = wrapping_add(state[NOW], state[RETENTION])
        is_based = 1
    largest = -1
    copy(output, at, data, position, position + HEADER_SIZE)
    here = at + HEADER_SIZE
    there = position + HEADER_SIZE
    for index in range(count):
        start = there
        length, body = read_varint(data, start, end)
        there = body + length
        if mode == SOME and fates[fate + index] > KEEP_TOMBSTONE:
            continue
        delta, tail = read_varlong(data, body + 1, there)
        timestamp = append_time if attributes & LOG_APPEND_TIME else wrapping_add(base, delta)
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
    if attributes & LOG_APPEND_TIME:
        largest = append_time
    write_int64(output, at + MAX_TIMESTAMP_POSITION, largest)
    if is_stamped:
        attributes |= DELETE_HORIZON
    _write_head(output, at, here, attributes, new_base, kept)
    if not state[OPENED]:
        write_int32(output, at + CRC_POSITION, checksum(output, at + ATTRIBUTES_POSITION, here))
    return here


def _index(
    data: memoryview, size: int, index: memoryview, offsets: memoryview, times: memoryview
) -> None:
    position = index[POSITION]
    offset_at = 0
    time_at = 0
    index[STATUS] = DONE
    base = index[BASE_OFFSET]
    while position + HEADER_SIZE <= size:
        batch_size = read_int32(data, position + LENGTH_POSITION) + LOG_OVERHEAD
        last_offset = read_int64(data, position) + read_int32(
            data, position + LAST_OFFSET_DELTA_POSITION
        )
        timestamp = read_int64(data, position + MAX_TIMESTAMP_POSITION)
        if last_offset - base > INT32_MAX or index[SEGMENT_SIZE] + batch_size > INT32_MAX:
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
