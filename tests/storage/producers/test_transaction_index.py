"""The index of aborted transactions."""

from pathlib import Path

import pytest

from siltstone.storage.producers import transaction_index
from siltstone.storage.producers.transaction_index import AbortedTransaction, find_aborted

FIRST = AbortedTransaction(4000, 100, 110, 111)
SECOND = AbortedTransaction(4001, 105, 120, 121)
THIRD = AbortedTransaction(4000, 130, 140, 141)
ALL = [FIRST, SECOND, THIRD]


def test_entry_is_kafkas() -> None:
    """Version, producer id, first offset, marker, last stable offset: 34 bytes."""
    assert transaction_index.encode(FIRST).hex() == (
        "00000000000000000fa00000000000000064000000000000006e000000000000006f"
    )


def test_round_trip(tmp_path: Path) -> None:
    """Entries come back in the order they were appended."""
    path = tmp_path / "0.txnindex"
    transaction_index.append(path, ALL[:1])
    transaction_index.append(path, ALL[1:])

    assert transaction_index.read(path) == ALL
    assert path.stat().st_size == 3 * 34


def test_torn_entry_does_not_count_and_is_overwritten(tmp_path: Path) -> None:
    """A crash in the middle of an entry leaves nothing that could be misread."""
    path = tmp_path / "0.txnindex"
    path.write_bytes(transaction_index.encode(FIRST) + b"\0" * 7)

    assert transaction_index.read(path) == [FIRST]
    transaction_index.append(path, [SECOND])
    assert transaction_index.read(path) == [FIRST, SECOND]


def test_no_aborts_no_file(tmp_path: Path) -> None:
    """A segment without aborts has no .txnindex, also after rebuilding it."""
    path = tmp_path / "0.txnindex"
    transaction_index.append(path, ALL)

    transaction_index.rewrite(path, [])

    assert not path.exists()
    assert transaction_index.read(path) == []


@pytest.mark.parametrize(
    ("fetch_offset", "upper", "found", "is_complete"),
    [
        (0, 1000, ALL, False),
        (0, 100, [], True),
        (0, 101, [FIRST], True),
        (111, 125, [SECOND], True),
        (110, 111, [FIRST], True),
        (141, 1000, [], False),
        (121, 130, [], True),
    ],
)
def test_lookup(
    fetch_offset: int, upper: int, found: list[AbortedTransaction], is_complete: bool
) -> None:
    """Entries that overlap the range; one whose LSO is above it ends the search."""
    assert find_aborted(ALL, fetch_offset, upper) == (found, is_complete)


@pytest.mark.parametrize(
    ("data", "damage"),
    [
        (b"", None),
        (transaction_index.encode(FIRST), None),
        (b"x", "multiple of 34"),
        (b"\0\1" + transaction_index.encode(FIRST)[2:], "version 1"),
        (transaction_index.encode(AbortedTransaction(1, 5, 9, 10)), "below the segment"),
        (transaction_index.encode(AbortedTransaction(1, -5, 109, 110)), "offsets -5, 109, 110"),
        (transaction_index.encode(AbortedTransaction(1, 110, 109, 110)), "offsets 110, 109, 110"),
        (transaction_index.encode(AbortedTransaction(1, 105, 109, -1)), "offsets 105, 109, -1"),
    ],
)
def test_damage(tmp_path: Path, data: bytes, damage: str | None) -> None:
    """Length, version and offsets below the segment's base are noticed."""
    path = tmp_path / "0.txnindex"
    path.write_bytes(data)

    found = transaction_index.find_damage(path, 100)

    assert (found is None) if damage is None else (damage in (found or ""))


def test_missing_index_is_sound(tmp_path: Path) -> None:
    """No file: no aborts."""
    assert transaction_index.find_damage(tmp_path / "0.txnindex", 0) is None
