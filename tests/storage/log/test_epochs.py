"""Leader epochs and their checkpoint."""

from pathlib import Path

import pytest

from siltstone.storage.directory.checkpoint import MalformedCheckpoint
from siltstone.storage.log.epochs import LeaderEpochs


def epochs(folder: Path, *entries: tuple[int, int]) -> LeaderEpochs:
    """Return epochs that begin at these offsets."""
    made = LeaderEpochs(folder)
    for epoch, offset in entries:
        made.assign(epoch, offset)
    return made


def test_file_is_kafkas(tmp_path: Path) -> None:
    """Version, count, `epoch start_offset` lines (LeaderEpochCheckpointFile)."""
    epochs(tmp_path, (0, 0), (3, 120))

    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n3 120\n"
    assert LeaderEpochs.load(tmp_path).entries == ((0, 0), (3, 120))


def test_new_folder_has_no_epochs(tmp_path: Path) -> None:
    """No file, no entries, no epoch."""
    loaded = LeaderEpochs.load(tmp_path)

    assert loaded.entries == ()
    assert loaded.latest == -1
    assert loaded.end_offset_for(0, 10) == (-1, -1)


@pytest.mark.parametrize("lines", ["0 0\n0 5", "1 5\n2 5", "2 0\n1 5", "0 x", "0", "-1 0"])
def test_damaged_file_is_refused(tmp_path: Path, lines: str) -> None:
    """Both columns increase strictly."""
    count = lines.count("\n") + 1
    (tmp_path / "leader-epoch-checkpoint").write_text(f"0\n{count}\n{lines}\n")

    with pytest.raises(MalformedCheckpoint, match="leader-epoch-checkpoint line"):
        LeaderEpochs.load(tmp_path)


def test_latest_epoch_again_is_no_news(tmp_path: Path) -> None:
    """Nothing is written for it."""
    made = epochs(tmp_path, (2, 10))
    (tmp_path / "leader-epoch-checkpoint").unlink()

    assert not made.assign(2, 15)
    assert not made.assign(-1, 15)
    assert not (tmp_path / "leader-epoch-checkpoint").exists()


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ((5, 30), ((1, 0), (3, 10), (4, 20), (5, 30))),
        ((5, 15), ((1, 0), (3, 10), (5, 15))),
        ((5, 10), ((1, 0), (5, 10))),
        ((3, 25), ((1, 0), (3, 25))),
        ((4, 15), ((1, 0), (3, 10), (4, 15))),
        ((0, 0), ((0, 0),)),
    ],
)
def test_assignment_drops_what_contradicts_it(
    tmp_path: Path, new: tuple[int, int], expected: tuple[tuple[int, int], ...]
) -> None:
    """From the end: entries of the same or a later epoch, or from the same offset on."""
    made = epochs(tmp_path, (1, 0), (3, 10), (4, 20))

    assert made.assign(*new)

    assert made.entries == expected
    assert LeaderEpochs.load(tmp_path).entries == expected


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (4, (4, 100)),
        (5, (-1, -1)),
        (-1, (-1, -1)),
        (0, (0, 7)),
        (1, (1, 10)),
        (2, (1, 10)),
        (3, (3, 20)),
    ],
)
def test_end_offset(tmp_path: Path, asked: int, answer: tuple[int, int]) -> None:
    """Latest, above all, undefined, below all, known, and between two known ones."""
    made = epochs(tmp_path, (1, 7), (3, 10), (4, 20))

    assert made.end_offset_for(asked, 100) == answer


def test_epoch_of_an_offset(tmp_path: Path) -> None:
    """The epoch that wrote it."""
    made = epochs(tmp_path, (1, 7), (3, 10))

    assert [made.epoch_of(offset) for offset in (6, 7, 9, 10, 99)] == [-1, 1, 1, 3, 3]


def test_truncation_of_the_end(tmp_path: Path) -> None:
    """Epochs that begin at or after the offset go."""
    made = epochs(tmp_path, (1, 0), (3, 10), (4, 20))

    made.truncate_end(20)
    assert made.entries == ((1, 0), (3, 10))
    made.truncate_end(0)
    assert LeaderEpochs.load(tmp_path).entries == ()


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (0, ((1, 5), (3, 10), (4, 20))),
        (5, ((1, 5), (3, 10), (4, 20))),
        (7, ((1, 7), (3, 10), (4, 20))),
        (10, ((3, 10), (4, 20))),
        (99, ((4, 99),)),
    ],
)
def test_truncation_of_the_start(
    tmp_path: Path, offset: int, expected: tuple[tuple[int, int], ...]
) -> None:
    """The epoch in which the new start lies begins there."""
    made = epochs(tmp_path, (1, 5), (3, 10), (4, 20))

    made.truncate_start(offset)

    assert made.entries == expected


def test_recovery_writes_once(tmp_path: Path) -> None:
    """Assignments may stay in memory until `flush`."""
    made = LeaderEpochs(tmp_path)
    made.assign(1, 0, write=False)
    made.assign(2, 5, write=False)
    assert not (tmp_path / "leader-epoch-checkpoint").exists()

    made.flush()

    assert LeaderEpochs.load(tmp_path).entries == ((1, 0), (2, 5))
    made.clear()
    assert LeaderEpochs.load(tmp_path).entries == ()
