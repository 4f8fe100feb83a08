"""Reading by time: exact, whatever order the records' times have."""

import random

import pytest

from siltstone.pipeline.reading.scanned import Scanned
from tests.support.archives import Archive
from tests.support.batches import make_batch

START = 1_700_000_000_000


def disordered(seed: int) -> list[list[bytearray]]:
    """Return segments of batches whose records' times are in no order, also within a batch."""
    rng = random.Random(seed)
    segments = []
    for _ in range(4):
        batches = []
        for _ in range(30):
            first = START + rng.randint(0, 100_000)
            batches.append(
                make_batch(rng.randint(1, 8), timestamp=first, step_ms=rng.randint(-900, 900))
            )
        segments.append(batches)
    return segments


@pytest.mark.parametrize("seed", range(10))
def test_a_window_has_exactly_its_records(archive: Archive, seed: int) -> None:
    """The lower bound counts, the upper one does not, and disorder changes nothing."""
    archive.fill(disordered(seed), interval=random.Random(seed).choice([0, 300, 4096]))
    everything = archive.read(("offset", "timestampMs"))
    rows = list(zip(*(column.to_pylist() for column in everything.columns), strict=True))
    rng = random.Random(seed)
    for _ in range(15):
        low, high = sorted(START + rng.randint(-2000, 102_000) for _ in range(2))

        found = archive.read(
            ("offset",), {"timestampFrom": str(low), "timestampTo": str(high), "splitBytes": "1000"}
        )

        assert found["offset"].to_pylist() == [row[0] for row in rows if low <= row[1] < high]


def test_a_small_window_of_an_ordered_log_reads_few_bytes(archive: Archive) -> None:
    """A hundredth of the time costs at most a fiftieth of the bytes."""
    archive.fill_plain(20_000, per_batch=20, batches=250, interval=0)
    whole, window = Scanned(), Scanned()
    archive.read(("offset",), scanned=whole)

    found = archive.read(
        ("offset",),
        {
            "timestampFrom": str(START + 10_000_000),
            "timestampTo": str(START + 10_200_000),
            "timestampOrder": "batch",
        },
        scanned=window,
    )

    assert found["offset"].to_pylist() == list(range(10_000, 10_200))
    assert window.bytes_read * 50 <= whole.bytes_read


@pytest.mark.parametrize("seed", range(5))
def test_the_first_offset_at_or_after_a_time(archive: Archive, seed: int) -> None:
    """A start by time is the first record by offset that is so late, as ListOffsets has it."""
    archive.fill(disordered(seed), interval=0)
    everything = archive.read(("offset", "timestampMs"))
    rows = list(zip(*(column.to_pylist() for column in everything.columns), strict=True))
    for asked in range(START, START + 90_000, 9_999):
        expected = next(offset for offset, time in rows if time >= asked)

        (split, *_) = archive.plan(startingTimestamp=str(asked))

        assert split.start_offset == expected
