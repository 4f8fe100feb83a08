"""Writes the segments of a set, a million records in about a second.

What all records of a place in their batch have in common is made once; a batch then is one join.
"""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Final

from siltstone.protocol.records import compression
from siltstone.protocol.records.build import build_batch, frame_batch, put_varint
from siltstone.protocol.records.record import Record
from siltstone.storage.files import segment_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.clean.sets import DataSet

SEGMENT_BYTES: Final = 64 << 20
FIRST_TIMESTAMP: Final = 1_750_000_000_000
KEY_BYTES: Final = 16

_VALUES = 1 << 15
_STATES = ("paid", "open", "sent", "held")
_NULL = b"\x01"
_NO_HEADERS = b"\x00"


def fill(data_set: DataSet, folder: Path) -> None:
    """Write a set's segments, the last one with a single record: the active one is not cleaned."""
    folder.mkdir(parents=True)
    offset = size = 0
    file = _open(folder, 0)
    for count, batch in _batches(data_set):
        if size + len(batch) > SEGMENT_BYTES:
            os.close(file)
            file, size = _open(folder, offset), 0
        size += os.write(file, batch)
        offset += count
    os.close(file)
    file = _open(folder, offset)
    last = Record(offset, FIRST_TIMESTAMP + offset, key_of(0), b"last")
    os.write(file, build_batch([last], base_offset=offset, leader_epoch=0))
    os.close(file)


def key_of(number: int) -> bytes:
    """Return a key of 16 bytes."""
    return b"key-%012d" % number


def values_of(data_set: DataSet) -> list[bytes]:
    """Return the values to draw from."""
    random = Random(1)
    return [_value(random, data_set.value_bytes) for _ in range(min(_VALUES, data_set.records))]


def numbers_of(data_set: DataSet) -> Iterator[list[int]]:
    """Yield the key numbers of each batch."""
    random = Random(2)
    for offset in range(0, data_set.records, data_set.batch_records):
        count = min(data_set.batch_records, data_set.records - offset)
        if data_set.keys:
            yield random.choices(range(data_set.keys), k=count)
        else:
            yield list(range(offset, offset + count))


def _batches(data_set: DataSet) -> Iterator[tuple[int, bytes]]:
    """Yield batches, each with the number of its records."""
    random = Random(3)
    has_values = data_set.value_bytes > 0
    tails = [value + _NO_HEADERS for value in values_of(data_set)] if has_values else [_NO_HEADERS]
    middle = _varint(data_set.value_bytes) if has_values else _NULL
    heads = [_head(index, data_set.value_bytes) for index in range(data_set.batch_records)]
    offset = 0
    for numbers in numbers_of(data_set):
        count = len(numbers)
        parts = [middle] * (4 * count)
        parts[0::4] = heads[:count]
        parts[1::4] = [key_of(number) for number in numbers]
        parts[3::4] = random.choices(tails, k=count)
        batch = frame_batch(
            compression.compress(data_set.codec, b"".join(parts)),
            count,
            base_offset=offset,
            codec=data_set.codec,
            leader_epoch=0,
            base_timestamp=FIRST_TIMESTAMP + offset,
            max_timestamp=FIRST_TIMESTAMP + offset + count - 1,
        )
        yield count, bytes(batch)
        offset += count


def _head(index: int, value_bytes: int) -> bytes:
    """Return a record up to its key: length, attributes, time and offset delta, key length."""
    body = b"\x00" + _varint(index) + _varint(index) + _varint(KEY_BYTES)
    value = _varint(value_bytes) if value_bytes else _NULL
    return _varint(len(body) + KEY_BYTES + len(value) + value_bytes + len(_NO_HEADERS)) + body


def _value(random: Random, size: int) -> bytes:
    """Return a document that a codec makes three to five times smaller, of exactly a size."""
    text = b""
    while len(text) < size:
        text += (
            b'{"id":%d,"customer":%d,"status":"%s","amount":%d.%02d,"currency":"EUR","note":"none"}'
            % (
                random.randrange(10_000_000),
                random.randrange(100_000),
                random.choice(_STATES).encode(),
                random.randrange(1000),
                random.randrange(100),
            )
        )
    return text[:size]


def _varint(number: int) -> bytes:
    output = bytearray()
    output += put_varint(number)
    return bytes(output)


def _open(folder: Path, base_offset: int) -> int:
    path = folder / segment_file_name(base_offset)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
