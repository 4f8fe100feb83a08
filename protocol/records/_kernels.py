"""The loops over the records of a batch: compiled by Cython, or as plain Python as they stand.

What comes here came from the wire: no length, count or varint is believed before it was compared
with the end of what is there. Answers are the numbers of `verdicts.py`. The types of the compiled
form stand in `_kernels.pxd`. Import `kernels`, which chooses.
"""
# ruff: noqa: C901, PLR0911, PLR0913, PLR0917  # kernels: plain numbers in, one branch a rule

from typing import TYPE_CHECKING

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.core.constants import (
        BAD_BODY,
        BAD_COUNT,
        BAD_CRC,
        BAD_FIELD,
        BAD_HEADERS,
        BAD_LENGTH,
        BAD_NUMBER,
        BAD_TIMESTAMP,
        BYTES_LEFT,
        FINE,
        NEEDS_REWRITE,
        NULL_KEY,
        RECORDS_MISSING,
        TIMESTAMP_OUTSIDE,
        UNEVEN_OFFSETS,
    )
    from protocol.records._portable import (
        INT64_MAX,
        INT64_MIN,
        acquire,
        acquire_target,
        checksum,
        checksum_software,
        continue_checksum,
        copy,
        no_region,
        no_target,
        prepare,
        read_int16,
        read_int32,
        read_int64,
        read_uint32,
        read_varint,
        read_varlong,
        release,
        release_target,
        write_zigzag,
        zigzag_size,
    )

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def check_batch(buffer: "Buffer", low: int, high: int, keys_required: bool) -> tuple[int, int, int]:
    """Check the CRC of a buffer that is exactly one batch and, if uncompressed, its records.

    `low` and `high` are the limits of timestamps, inclusive; -1 is always allowed. The GIL is let
    go for batches of 256 KiB and more.

    Returns:
        The verdict, the index of the record it speaks of, and the largest timestamp, never below
        -1; of a compressed batch 0, 0 and the header's max timestamp.
    """
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    size = region.len
    if size < 61 or read_int32(data, 8) != size - 12:
        release(region)
        return BAD_LENGTH, 0, -1
    if size >= 262144:
        with cython.nogil:
            verdict, index, timestamp = _check_batch(data, size, low, high, keys_required)
    else:
        verdict, index, timestamp = _check_batch(data, size, low, high, keys_required)
    release(region)
    return verdict, index, timestamp


def take_plain(
    buffer: "Buffer", low: int, high: int, keys_required: bool, flags: int, codecs: int
) -> tuple[int, int, int, int, int, int, int]:
    """Check a buffer that is exactly one batch as clients mostly send them.

    Every rule about the bytes holds and nothing has to be corrected; `low` and `high` are those of
    `check_batch`. `flags` are the attributes that may be set beside the codec, `codecs` has a bit
    for each codec that is stored as it came. A compressed batch is judged by its header, so not
    where a key is required.

    Returns:
        Count, last offset delta, attributes, max timestamp, producer id and epoch, base sequence;
        zeros: look closer.
    """
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    size = region.len
    verdict = -1
    largest = -1
    if size > 61 and _is_plain(data, size, flags, codecs, keys_required, low, high):
        if size >= 262144:
            with cython.nogil:
                verdict, _index, largest = _check_batch(data, size, low, high, keys_required)
        else:
            verdict, _index, largest = _check_batch(data, size, low, high, keys_required)
    plain = (0, 0, 0, 0, 0, 0, 0)
    if verdict == 0 and largest == read_int64(data, 35):
        plain = (
            read_int32(data, 57),
            read_int32(data, 23),
            read_int16(data, 21),
            largest,
            read_int64(data, 43),
            read_int16(data, 51),
            read_int32(data, 53),
        )
    release(region)
    return plain


def walk_records(
    buffer: "Buffer",
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
) -> tuple[int, int, int]:
    """Check `count` records that fill `start` to `end`, decompressed ones too; see `check_batch`.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    region = no_region()
    acquire(buffer, region)
    if start < 0 or start > end or end > region.len:
        release(region)
        raise ValueError(f"bytes {start} to {end} are not inside the buffer")
    data = region.buf
    if end - start >= 262144:
        with cython.nogil:
            verdict, index, timestamp = _walk(
                data, start, end, count, base_timestamp, low, high, keys_required
            )
    else:
        verdict, index, timestamp = _walk(
            data, start, end, count, base_timestamp, low, high, keys_required
        )
    release(region)
    return verdict, index, timestamp


def list_bad_records(
    buffer: "Buffer",
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
    most: int,
) -> list[tuple[int, int, int]]:
    """Return (index, NULL_KEY or TIMESTAMP_OUTSIDE, timestamp) of what `walk_records` flagged.

    The records must have passed the walk; `most` of them are listed. A record without a key is
    not looked at for its timestamp, as in Kafka.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    bad: list[tuple[int, int, int]] = []
    region = no_region()
    acquire(buffer, region)
    try:
        if start < 0 or start > end or end > region.len:
            raise ValueError(f"bytes {start} to {end} are not inside the buffer")
        position = start
        for index in range(count):
            position, delta, _offset, key_size, _attributes = _read_record(
                region.buf, position, end
            )
            if position < 0 or len(bad) == most:
                break
            timestamp = base_timestamp + delta
            if keys_required and key_size < 0:
                bad.append((index, NULL_KEY, timestamp))
            elif timestamp != -1 and (timestamp < low or timestamp > high):
                bad.append((index, TIMESTAMP_OUTSIDE, timestamp))
    finally:
        release(region)
    return bad


def rewrite_records(buffer: "Buffer", start: int, end: int, count: int, output: "Buffer") -> int:
    """Write records that passed the walk with attributes 0 and offset deltas 0, 1, 2, ….

    Timestamp deltas become relative to the first record's timestamp.

    Returns:
        The bytes that the records take; nothing useful is in `output` if it is shorter. -1 where
        timestamps lie more than 64 bits apart.

    Raises:
        ValueError: the range is not inside the buffer.
    """
    region = no_region()
    target = no_target()
    acquire(buffer, region)
    if start < 0 or start > end or end > region.len:
        release(region)
        raise ValueError(f"bytes {start} to {end} are not inside the buffer")
    acquire_target(output, target)
    data = region.buf
    room = target.len
    octets = target.buf
    with cython.nogil:
        size = _rewrite(data, start, end, count, octets, room)
    release_target(target)
    release(region)
    return size


def crc32c(buffer: "Buffer", portable: bool) -> int:
    """Return the CRC-32C of the kernel; `portable` asks for the one without the instruction."""
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    size = region.len
    with cython.nogil:
        value = checksum_software(data, 0, size) if portable else checksum(data, 0, size)
    release(region)
    return value


def continue_crc32c(buffer: "Buffer", value: int = 0) -> int:
    """Return the CRC-32C of what gave `value` with the buffer behind it; 0 starts."""
    region = no_region()
    acquire(buffer, region)
    data = region.buf
    size = region.len
    with cython.nogil:
        result = continue_checksum(value, data, 0, size)
    release(region)
    return result


def _is_plain(  # the rules
    data: memoryview,
    size: int,
    flags: int,
    codecs: int,
    keys_required: bool,
    low: int,
    high: int,
) -> bool:
    """Judge the header: first offset 0, magic 2, a codec and flags that may be."""
    attributes = read_int16(data, 21)
    if (
        read_int64(data, 0) != 0
        or read_int32(data, 8) != size - 12
        or data[16] != 2
        or attributes & ~(flags | 7)
        or not codecs >> (attributes & 7) & 1
        or read_int32(data, 57) != read_int32(data, 23) + 1
        or (read_int64(data, 43) >= 0 and read_int32(data, 53) < 0)
    ):
        return False
    if attributes & 7 == 0:
        return True
    first = read_int64(data, 27)
    return not keys_required and low <= first <= read_int64(data, 35) <= high


def _check_batch(
    data: memoryview, size: int, low: int, high: int, keys_required: bool
) -> tuple[int, int, int]:
    if checksum(data, 21, size) != read_uint32(data, 17):
        return BAD_CRC, 0, -1
    count = read_int32(data, 57)
    if read_int16(data, 21) & 7:
        return (FINE if count > 0 else BAD_COUNT), 0, read_int64(data, 35)
    return _walk(data, 61, size, count, read_int64(data, 27), low, high, keys_required)


def _walk(
    data: memoryview,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    low: int,
    high: int,
    keys_required: bool,
) -> tuple[int, int, int]:
    """Compare deltas, not timestamps: no record can make a sum overflow."""
    if count < 1:
        return BAD_COUNT, 0, -1
    low_delta = _difference(low, base_timestamp)
    high_delta = _difference(high, base_timestamp)
    none_delta = -1 - base_timestamp
    smallest = INT64_MAX
    largest = INT64_MIN
    flags = FINE
    position = start
    index = 0
    while index < count:
        if position >= end:
            return RECORDS_MISSING, index, -1
        position, delta, offset_delta, key_size, attributes = _read_record(data, position, end)
        if position < 0:
            return position, index, -1
        if offset_delta != index:
            flags |= UNEVEN_OFFSETS
        if attributes != 0 or (index == 0 and delta != 0):
            flags |= NEEDS_REWRITE
        if key_size < 0 and keys_required:
            flags |= NULL_KEY
        if (delta < low_delta or delta > high_delta) and delta != none_delta:
            flags |= TIMESTAMP_OUTSIDE
        smallest = min(smallest, delta)
        largest = max(largest, delta)
        index += 1
    if position != end:
        return BYTES_LEFT, index, -1
    if _is_outside(base_timestamp, smallest) or _is_outside(base_timestamp, largest):
        return BAD_TIMESTAMP, 0, -1
    largest += base_timestamp
    return flags, 0, max(largest, -1)


def _read_record(data: memoryview, position: int, end: int) -> tuple[int, int, int, int, int]:
    """Return next position or verdict, timestamp delta, offset delta, key size, attributes."""
    size, position = read_varint(data, position, end)
    if position < 0:
        return BAD_NUMBER, 0, 0, 0, 0
    stop = position + size
    if size < 1 or stop > end:
        return BAD_LENGTH, 0, 0, 0, 0
    attributes = data[position]
    delta, position = read_varlong(data, position + 1, stop)
    if position < 0:
        return BAD_NUMBER, 0, 0, 0, 0
    offset_delta, position = read_varint(data, position, stop)
    if position < 0:
        return BAD_NUMBER, 0, 0, 0, 0
    key_size, position = _read_field(data, position, stop)
    if position < 0:
        return position, 0, 0, 0, 0
    _value_size, position = _read_field(data, position, stop)
    if position < 0:
        return position, 0, 0, 0, 0
    headers, position = read_varint(data, position, stop)
    if position < 0:
        return BAD_NUMBER, 0, 0, 0, 0
    if headers != 0:
        position = _skip_headers(data, position, stop, headers)
        if position < 0:
            return position, 0, 0, 0, 0
    if position != stop:
        return BAD_BODY, 0, 0, 0, 0
    return stop, delta, offset_delta, key_size, attributes


def _read_field(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return size and position after a key or value, or the verdict in its place."""
    size, position = read_varint(data, position, end)
    if position < 0:
        return 0, BAD_NUMBER
    if size < -1 or size > end - position:
        return 0, BAD_FIELD
    return size, position + max(size, 0)


def _skip_headers(data: memoryview, position: int, end: int, count: int) -> int:
    """Return the position after the headers, or the verdict."""
    if count < 0 or count > end - position:
        return BAD_HEADERS
    while count > 0:
        size, position = _read_field(data, position, end)
        if position < 0:
            return position
        if size < 0:
            return BAD_HEADERS
        size, position = _read_field(data, position, end)
        if position < 0:
            return position
        count -= 1
    return position


def _rewrite(
    data: memoryview, position: int, end: int, count: int, output: memoryview, room: int
) -> int:
    size = 0
    first = 0
    index = 0
    while index < count:
        stop, delta, _offset, _key_size, _attributes = _read_record(data, position, end)
        if stop < 0:
            return stop
        if index == 0:
            first = delta
        if _is_far(delta, first):
            return -1
        tail = _find_key(data, position, stop)
        head = 1 + zigzag_size(delta - first) + zigzag_size(index)
        length = head + stop - tail
        position = stop
        at = size
        size += zigzag_size(length) + length
        if size <= room:
            at = write_zigzag(output, at, length)
            output[at] = 0
            at = write_zigzag(output, at + 1, delta - first)
            at = write_zigzag(output, at, index)
            copy(output, at, data, tail, stop)
        index += 1
    return size


def _find_key(data: memoryview, position: int, end: int) -> int:
    """Return where the key's size stands in a record that is known to be whole."""
    _number, position = read_varint(data, position, end)
    _number, position = read_varlong(data, position + 1, end)
    _number, position = read_varint(data, position, end)
    return position


def _difference(a: int, b: int) -> int:
    """Return a - b, held within 64 bits."""
    if _is_far(a, b):
        return INT64_MIN if b > 0 else INT64_MAX
    return a - b


def _is_far(a: int, b: int) -> bool:
    """Whether the difference leaves 64 bits."""
    if b > 0:
        return a < INT64_MIN + b
    return a > INT64_MAX + b


def _is_outside(base: int, delta: int) -> bool:
    """Whether the sum leaves 64 bits."""
    if delta > 0:
        return base > INT64_MAX - delta
    return base < INT64_MIN - delta
