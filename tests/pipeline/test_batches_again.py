"""Batches that are sent again: as they are where that is right, and else built again."""

import pytest

from siltstone.pipeline.sinks.batches import again
from siltstone.protocol.core.constants import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from siltstone.protocol.records.batch import BatchHeader, has_valid_crc
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record, iterate_records

NOW = 1_700_000_000_000
ALL = (0, 1 << 62)


def records(*offsets: int) -> list[Record]:
    """Return records with headers, null keys and tombstones among them."""
    return [
        Record(
            at,
            NOW + at,
            None if at % 5 == 0 else b"k%d" % at,
            None if at % 3 == 0 else b"v%d" % at,
            ((b"h", b"x"),) if at % 2 else (),
        )
        for at in offsets
    ]


def sent(
    batch: bytearray, start: int = ALL[0], end: int = ALL[1]
) -> tuple[bytearray, list[Record]]:
    """Send a batch again and return it with its records, as a broker accepts them."""
    header = BatchHeader.read(batch)
    made, count = again(header, memoryview(batch), start, end)
    found = BatchHeader.read(made)
    assert has_valid_crc(memoryview(made), found.crc)
    assert (found.base_offset, found.leader_epoch) == (0, -1)
    assert (found.producer_id, found.producer_epoch, found.base_sequence) == (-1, -1, -1)
    assert found.attributes & ~CODEC_MASK == 0
    assert found.count == found.last_offset_delta + 1 == count
    return made, list(iterate_records(made))


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_dense_batch_keeps_its_bytes(codec: int) -> None:
    """Of a batch without gaps only the header changes, whichever client produced it."""
    rows = records(*range(40, 60))
    batch = build_batch(
        rows,
        base_offset=40,
        codec=codec,
        flags=TRANSACTIONAL,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
    )

    made, found = sent(batch)

    assert made[61:] == batch[61:]
    assert [row._replace(offset=0) for row in found] == [row._replace(offset=0) for row in rows]


def test_gaps_are_closed() -> None:
    """A cleaned batch has gaps, which no broker takes from a producer."""
    rows = records(40, 43, 49)

    _, found = sent(build_batch(rows, base_offset=40, last_offset_delta=12, codec=3))

    assert [(row.key, row.value, row.timestamp, row.headers) for row in found] == [
        (row.key, row.value, row.timestamp, row.headers) for row in rows
    ]


def test_ranges_cut_batches() -> None:
    """Only the offsets that are meant are sent."""
    _, found = sent(build_batch(records(*range(10)), base_offset=0), 3, 7)

    assert [row.timestamp - NOW for row in found] == [3, 4, 5, 6]


def test_nothing_in_range() -> None:
    """A batch of which nothing is meant is not sent."""
    batch = build_batch(records(0, 5), base_offset=0)

    assert again(BatchHeader.read(batch), memoryview(batch), 1, 5) == (bytearray(), 0)


@pytest.mark.parametrize("flags", [LOG_APPEND_TIME, DELETE_HORIZON])
def test_times_of_others(flags: int) -> None:
    """The broker's time, and times that count from a delete horizon, become the records' own."""
    batch = build_batch(
        records(0, 1, 2),
        base_offset=0,
        flags=flags,
        base_timestamp=NOW + 99,
        max_timestamp=NOW + 50,
    )
    expected = [row.timestamp for row in iterate_records(batch)]

    _, found = sent(batch)

    assert [row.timestamp for row in found] == expected
