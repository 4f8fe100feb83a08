"""The loops that write and read a journal: compiled by Cython, or as plain Python as they stand.

A commit is a batch of its own, and a million committed offsets are read back while clients wait
for them, so that one call makes the entries of many batches. The types of the compiled form stand
in `_journal_kernels.pxd`. Import `journal_kernels`, which chooses.
"""
# ruff: noqa: C901, PLR0912, PLR0915, SIM113  # kernels: numbers in, one branch a rule

from typing import TYPE_CHECKING, Any

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from protocol.records import _portable as cython

if not cython.compiled:
    from protocol.records._portable import (
        INT64_MAX,
        acquire,
        acquire_target,
        checksum,
        copy,
        no_region,
        no_target,
        octets_of,
        prepare,
        read_int16,
        read_int32,
        read_int64,
        read_uint32,
        release,
        release_target,
        text_of,
        write_zigzag,
        zigzag_size,
    )

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

COMPILED: bool = cython.compiled

prepare()


def pack_rows(
    rows: "Sequence[tuple[bytes, bytes | None]]",
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
) -> bytearray:
    """Return one plain batch of keys and values, transactional if there is a producer."""
    size = 61
    count = 0
    for key, value in rows:
        body = _body_size(count, len(key), -1 if value is None else len(value))
        size += zigzag_size(body) + body
        count += 1
    batch = bytearray(size)
    target = no_target()
    acquire_target(batch, target)
    output = target.buf
    at = 61
    delta = 0
    source: Any
    for key, value in rows:
        value_size = -1 if value is None else len(value)
        at = write_zigzag(output, at, _body_size(delta, len(key), value_size))
        output[at] = 0
        at = write_zigzag(output, at + 1, 0)
        at = write_zigzag(output, at, delta)
        source = key
        at = write_zigzag(output, at, len(key))
        copy(output, at, source, 0, len(key))
        at = write_zigzag(output, at + len(key), value_size)
        if value is not None:
            source = value
            copy(output, at, source, 0, value_size)
            at += value_size
        at = write_zigzag(output, at, 0)
        delta += 1
    _put_fixed(output, 8, size - 12, 4)
    _put_fixed(output, 12, -1, 4)
    output[16] = 2
    _put_fixed(output, 21, 0 if producer_id < 0 else 16, 2)
    _put_fixed(output, 23, count - 1, 4)
    _put_fixed(output, 27, timestamp, 8)
    _put_fixed(output, 35, timestamp, 8)
    _put_fixed(output, 43, producer_id, 8)
    _put_fixed(output, 51, producer_epoch, 2)
    _put_fixed(output, 53, -1, 4)
    _put_fixed(output, 57, count, 4)
    _put_fixed(output, 17, checksum(output, 21, size), 4)
    release_target(target)
    return batch


def read_journal(
    buffer: "Buffer", position: int, most: int, has_offsets: bool
) -> tuple[list[tuple[Any, ...]], int, int]:
    """Return the entries of whole batches from `position` on, where it ended, and why.

    It ends after the batch in which `most` entries were reached, or before one that is not wholly
    there (0), that is compressed (1), that is damaged (2), that is no batch at all (3) or behind
    whose last entry there is a record that can not be told from the next (4). Entries are those of
    `journal.Entry`. With `has_offsets` the key of a committed offset, if it and its value can be
    read, is the tuple of group, topic and partition instead of bytes.
    """
    entries: list[tuple[Any, ...]] = []
    region = no_region()
    acquire(buffer, region)
    try:
        data = region.buf
        size = region.len
        status = 0
        group_at = group_size = topic_at = topic_size = 0
        group = topic = ""
        while len(entries) < most and position + 61 <= size:
            length = read_int32(data, position + 8)
            end = position + length + 12
            if length < 49 or data[position + 16] != 2:
                status = 3
                break
            if end > size:
                break
            attributes = read_int16(data, position + 21)
            if checksum(data, position + 21, end) != read_uint32(data, position + 17):
                status = 2
                break
            if attributes & 7:
                status = 1
                break
            base_offset = read_int64(data, position)
            producer_id = read_int64(data, position + 43)
            producer_epoch = read_int16(data, position + 51)
            count = read_int32(data, position + 57)
            at = position + 61
            while count > 0:
                count -= 1
                number, at = _read_number(data, at, end)
                if at < 0 or number < 1 or number > end - at:
                    status = 4
                    break
                stop = at + number
                _, at = _read_number(data, at + 1, stop)
                if at >= 0:
                    delta, at = _read_number(data, at, stop)
                if at >= 0:
                    key_size, at = _read_number(data, at, stop)
                key = at
                if at < 0 or key_size > stop - at:
                    status = 4
                    break
                value_size, at = _read_number(data, at + max(key_size, 0), stop)
                value = at
                if at < 0 or value_size > stop - at:
                    status = 4
                    break
                if delta < 0 or delta > 2147483647 or base_offset > INT64_MAX - delta:
                    status = 3
                    break
                at = stop
                offset = base_offset + delta
                if attributes & 32:
                    if key_size >= 4 and 0 <= read_int16(data, key + 2) <= 1:
                        kind = 2 + read_int16(data, key + 2)
                        entries.append((offset, kind, b"", None, producer_id, producer_epoch))
                    continue
                kind = 1 if attributes & 16 else 0
                read = None if value_size < 0 else octets_of(data, value, value + value_size)
                is_taken_apart = has_offsets and _is_offset(data, key, key_size, value, value_size)
                if is_taken_apart:
                    first = read_int16(data, key + 2)
                    second = read_int16(data, key + 4 + first)
                    try:
                        if first != group_size or not _is_same(data, group_at, key + 4, first):
                            group = text_of(data, key + 4, key + 4 + first)
                            group_at = key + 4
                            group_size = first
                        if second != topic_size or not _is_same(
                            data, topic_at, key + 6 + first, second
                        ):
                            topic = text_of(data, key + 6 + first, key + 6 + first + second)
                            topic_at = key + 6 + first
                            topic_size = second
                    except UnicodeDecodeError:
                        is_taken_apart = False  # a name is not UTF-8
                if is_taken_apart:
                    name = (group, topic, read_int32(data, key + 6 + first + second))
                    entries.append((offset, kind, name, read, producer_id, producer_epoch))
                else:
                    raw = octets_of(data, key, key + max(key_size, 0))
                    entries.append((offset, kind, raw, read, producer_id, producer_epoch))
            if status:
                break
            position = end
    finally:
        release(region)
    return entries, position, status


def _is_offset(data: memoryview, key: int, key_size: int, value: int, value_size: int) -> bool:
    """Whether it is a committed offset with a value that can be read, or with none."""
    if key_size < 10 or read_int16(data, key) < 0 or read_int16(data, key) > 1:
        return False
    first = read_int16(data, key + 2)
    if first < 0 or first > key_size - 10:
        return False
    if read_int16(data, key + 4 + first) != key_size - 10 - first:
        return False
    if value_size < 20:
        return value_size < 0
    version = read_int16(data, value)
    if version < 0 or version > 3:
        return False
    head = 16 if version == 3 else 12
    tail = 16 if version == 1 else 8
    metadata = value_size - head - tail
    return metadata >= 0 and read_int16(data, value + head - 2) == metadata


def _is_same(data: memoryview, one: int, other: int, size: int) -> bool:
    """Whether two ranges have the same bytes."""
    while size > 0:
        size -= 1
        if data[one + size] != data[other + size]:
            return False
    return True


def _read_number(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return a zig-zag number and the position after it; position -1 if it is broken."""
    rest = 0
    shift = 0
    while position < end and shift <= 63:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (rest >> 1) ^ -(rest & 1), position
        shift += 7
    return 0, -1


def _body_size(delta: int, key_size: int, value_size: int) -> int:
    """Return what a record takes besides its own length; -1 is the size of no value."""
    size = 3 + zigzag_size(delta) + zigzag_size(key_size) + key_size
    return size + zigzag_size(value_size) + max(value_size, 0)


def _put_fixed(output: memoryview, position: int, number: int, size: int) -> None:
    """Write a big-endian number of so many bytes."""
    while size > 0:
        size -= 1
        output[position + size] = number & 0xFF
        number >>= 8
