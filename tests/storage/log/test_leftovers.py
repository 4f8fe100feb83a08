"""Files of an interrupted swap: each row of the table in docs/on-disk-format.md."""

from pathlib import Path

import pytest

from siltstone.config.topic import TopicConfig
from tests.support.batches import make_batch
from tests.support.invariants import check_folder, check_log
from tests.support.logs import LogFolder, bytes_of, offsets_in

BATCH_BYTES = len(make_batch([(b"k", b"v" * 10)]))
KINDS = (".log", ".index", ".timeindex")


@pytest.fixture
def folder(tmp_path: Path) -> LogFolder:
    """Segments 0, 2, 4 and 6 of two batches each, closed."""
    folder = LogFolder(tmp_path, TopicConfig(segment_bytes=2 * BATCH_BYTES))
    for _ in range(7):
        folder.append()
    folder.close()
    return folder


def _name(base_offset: int, kind: str, suffix: str = "") -> str:
    return f"{base_offset:020d}{kind}{suffix}"


def _write_cleaned(folder: LogFolder, base: int, kept: list[int], suffixes: dict[str, str]) -> None:
    """Write the cleaned segment of what segments 0 and 2 held, each file with its suffix."""
    data = (folder.path / _name(0, ".log")).read_bytes()
    data += (folder.path / _name(2, ".log")).read_bytes()
    batches = [data[BATCH_BYTES * at : BATCH_BYTES * (at + 1)] for at in kept]
    for kind, suffix in suffixes.items():
        content = b"".join(batches) if kind == ".log" else b""
        (folder.path / _name(base, kind, suffix)).write_bytes(content)


def _offsets(folder: LogFolder, is_clean: bool) -> list[int]:
    log = folder.reopen(is_clean=is_clean)
    check_folder(log)
    check_log(log)
    return offsets_in(bytes_of(log, 0))


clean_and_crashed = pytest.mark.parametrize("is_clean", [True, False])


@clean_and_crashed
@pytest.mark.parametrize("count", [1, 2, 3])
def test_only_cleaned_files_are_undone(folder: LogFolder, count: int, is_clean: bool) -> None:
    """A segment that was being written is deleted, the originals are untouched."""
    _write_cleaned(folder, 0, [1, 3], dict.fromkeys(KINDS[:count], ".cleaned"))

    assert _offsets(folder, is_clean) == list(range(7))


@clean_and_crashed
@pytest.mark.parametrize("swapped", [1, 2])
def test_a_mixture_is_undone(folder: LogFolder, swapped: int, is_clean: bool) -> None:
    """Files that became .swap while others of the segment are .cleaned are deleted as well."""
    suffixes = dict.fromkeys(KINDS, ".cleaned") | dict.fromkeys(KINDS[:swapped], ".swap")
    _write_cleaned(folder, 0, [1, 3], suffixes)

    assert _offsets(folder, is_clean) == list(range(7))


@clean_and_crashed
def test_a_group_of_several_segments_is_undone_whole(folder: LogFolder, is_clean: bool) -> None:
    """The higher segment is .swap already, the lower one still .cleaned: both go."""
    _write_cleaned(folder, 0, [1], dict.fromkeys(KINDS, ".cleaned"))
    _write_cleaned(folder, 2, [3], dict.fromkeys(KINDS, ".swap"))

    assert _offsets(folder, is_clean) == list(range(7))


@clean_and_crashed
def test_a_swap_below_the_cleaned_ones_is_completed(folder: LogFolder, is_clean: bool) -> None:
    """A .swap below every .cleaned is a finished group of its own."""
    _write_cleaned(folder, 0, [1], dict.fromkeys(KINDS, ".swap"))
    (folder.path / _name(4, ".log", ".cleaned")).write_bytes(b"half")

    assert _offsets(folder, is_clean) == [1, 2, 3, 4, 5, 6]


@clean_and_crashed
@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_complete_swap_is_finished(folder: LogFolder, renamed: int, is_clean: bool) -> None:
    """With .log.swap there the cleaning is completed, however many originals are .deleted."""
    _write_cleaned(folder, 0, [1, 3], dict.fromkeys(KINDS, ".swap"))
    for base in (0, 2)[:renamed]:
        for kind in KINDS:
            path = folder.path / _name(base, kind)
            path.rename(path.with_name(path.name + ".deleted"))

    assert _offsets(folder, is_clean) == [1, 3, 4, 5, 6]


@clean_and_crashed
@pytest.mark.parametrize("final", [1, 2])
def test_a_half_renamed_swap_is_finished(folder: LogFolder, final: int, is_clean: bool) -> None:
    """When the .log has its final name, the indexes that are still .swap follow."""
    for base in (0, 2):
        for kind in KINDS:
            if base or kind == ".log":
                (folder.path / _name(base, kind)).rename(
                    folder.path / _name(base, kind, ".deleted")
                )
    suffixes = dict.fromkeys(KINDS, ".swap") | dict.fromkeys(KINDS[:final], "")
    data = b"".join((folder.path / _name(base, ".log", ".deleted")).read_bytes() for base in (0, 2))
    for kind in KINDS[1:]:
        (folder.path / _name(0, kind)).unlink()
    for kind, suffix in suffixes.items():
        content = data[BATCH_BYTES : 2 * BATCH_BYTES] if kind == ".log" else b""
        (folder.path / _name(0, kind, suffix)).write_bytes(content)

    assert _offsets(folder, is_clean) == [1, 4, 5, 6]


@clean_and_crashed
def test_leftover_deleted_files_go(folder: LogFolder, is_clean: bool) -> None:
    """All final, old files still .deleted: they are removed."""
    for kind in KINDS:
        (folder.path / _name(99, kind, ".deleted")).write_bytes(b"old")

    assert _offsets(folder, is_clean) == list(range(7))


@clean_and_crashed
@pytest.mark.parametrize(
    "whole", [_name(3, ".snapshot"), "leader-epoch-checkpoint", ".siltstone-moved"]
)
def test_half_written_files_go(folder: LogFolder, whole: str, is_clean: bool) -> None:
    """A kill left them before they replaced a file; other programs' files stay."""
    (folder.path / f"{whole}.tmp").write_bytes(b"half")
    (folder.path / "notes.tmp").write_bytes(b"an operator's")

    assert _offsets(folder, is_clean) == list(range(7))
    assert not (folder.path / f"{whole}.tmp").exists()
    assert (folder.path / "notes.tmp").exists()


def test_snapshots_of_replaced_segments_go(folder: LogFolder) -> None:
    """A snapshot inside the range that was swapped belongs to no segment any more."""
    _write_cleaned(folder, 0, [1, 3], dict.fromkeys(KINDS, ".swap"))

    folder.reopen(is_clean=True)

    assert not (folder.path / _name(2, ".snapshot")).exists()
    assert folder.log.producers.snapshots == (4, 6, 7)
