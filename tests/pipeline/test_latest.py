"""The last row of each key, against a dict."""

import random

import pyarrow as pa
import pytest

from siltstone.pipeline import latest
from siltstone.pipeline.latest import LatestRows, shares


def batch(rows: list[tuple[bytes | None, int, int]]) -> pa.RecordBatch:
    """Return rows of (key, partition, offset)."""
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row[0] for row in rows], pa.binary()),
            pa.array([row[1] for row in rows], pa.int32()),
            pa.array([row[2] for row in rows], pa.int64()),
        ],
        ["key", "partition", "offset"],
    )


def made_up(seed: int, count: int = 2000) -> list[tuple[bytes | None, int, int]]:
    """Return rows of few keys, some without one."""
    chance = random.Random(seed)
    return [
        (
            None if chance.random() < 0.05 else b"k%d" % chance.randrange(300),
            chance.randrange(2),
            offset,
        )
        for offset in range(count)
    ]


@pytest.mark.parametrize("fold_bytes", [1, 500, 5000, 1 << 30])
def test_equals_a_dict(monkeypatch: pytest.MonkeyPatch, fold_bytes: int) -> None:
    """However often survivors are looked through, the last row of each key is left, in order."""
    monkeypatch.setattr(latest, "FOLD_BYTES", fold_bytes)
    made = made_up(fold_bytes)
    rows = LatestRows()
    for start in range(0, len(made), 37):
        rows.add(batch(made[start : start + 37]))

    found = rows.finish()

    expected = {key: offset for key, _, offset in made if key is not None}
    assert found is not None
    assert dict(zip(found["key"].to_pylist(), found["offset"].to_pylist(), strict=True)) == expected
    assert found["offset"].to_pylist() == sorted(expected.values())
    assert rows.without_key == sum(key is None for key, _, _ in made)


def test_rows_in_any_order() -> None:
    """Where columns order the rows, it does not matter which come first."""
    made = made_up(9)
    mixed = random.Random(3).sample(made, len(made))
    rows = LatestRows(by=("offset",), keys=("key", "partition"))
    for start in range(0, len(mixed), 100):
        rows.add(batch(mixed[start : start + 100]))

    found = rows.finish()

    expected = {(key, partition): offset for key, partition, offset in made if key is not None}
    assert found is not None
    assert {(row["key"], row["partition"]): row["offset"] for row in found.to_pylist()} == expected


def test_nothing_has_no_latest() -> None:
    """Without rows there is no table."""
    assert LatestRows().finish() is None


def test_shares_are_whole_and_the_same_everywhere() -> None:
    """Each row is in one share, and a key always in the same."""
    table = pa.Table.from_batches([batch([row for row in made_up(1) if row[0] is not None])])
    again = pa.Table.from_batches([batch([row for row in made_up(2) if row[0] is not None])])

    first, second = dict(shares(table, 4)), dict(shares(again, 4))

    assert sum(part.num_rows for part in first.values()) == table.num_rows
    for number in first.keys() & second.keys():
        others = {
            key
            for other, part in first.items()
            if other != number
            for key in part["key"].to_pylist()
        }
        assert others.isdisjoint(second[number]["key"].to_pylist())
