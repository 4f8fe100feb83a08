"""A log directory that is missing at a start, or that an empty folder stands for."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from siltstone.broker.__main__ import main
from siltstone.config.errors import StartError
from siltstone.storage import files
from siltstone.storage.directory.catalog import FILE_NAME
from siltstone.storage.directory.log_directory import LogDirError
from siltstone.storage.manager import LogManager
from tests.support.appending import append_unchecked
from tests.support.running import running


async def _start(*directories: Path) -> list[int]:
    """Start with some directories, and return the end of each log."""
    async with running(directories[0], _dirs(directories)) as home:
        return sorted(log.log_end_offset for log in home.logs.all_logs())


def _dirs(directories: Sequence[Path]) -> str:
    return f"log.dirs={','.join(map(str, directories))}"


@pytest.fixture
async def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories, each with a partition of a topic, and each partition with a record."""
    directories = tmp_path / "one", tmp_path / "other"
    async with running(directories[0], _dirs(directories)) as home:
        for log in (await home.topics.create("orders", 2, {})).logs:
            assert log is not None
            append_unchecked(log)
    assert all((each / "orders-0").exists() != (each / "orders-1").exists() for each in directories)
    return directories


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("has_folder", [True, False])
async def test_an_empty_folder_in_the_place_of_a_directory_stops_the_start(
    pair: tuple[Path, Path], index: int, has_folder: bool
) -> None:
    """Its disk is not mounted: partitions came up empty, and new records took their offsets."""
    place, away = pair[index], pair[index].with_name("away")
    place.rename(away)
    if has_folder:
        place.mkdir()

    with pytest.raises(StartError, match=rf"^log directory {place} \(directory.id .*\) is gone, "):
        await _start(*pair)

    assert list(place.iterdir()) == []
    place.rmdir()
    away.rename(place)
    assert await _start(*pair) == [1, 1]


async def test_a_directory_that_log_dirs_lacks_stops_the_start(pair: tuple[Path, Path]) -> None:
    """The sentence names what is gone, and the way to do without."""
    with pytest.raises(StartError, match=r"1 partitions, orders-. among them") as caught:
        await _start(pair[0])

    remedy = f"rm -f {pair[0] / files.LOG_DIRS}"
    assert str(caught.value).endswith(remedy)
    (pair[0] / files.LOG_DIRS).unlink()
    assert await _start(pair[0]) == [0, 1]


async def test_a_doctor_names_it(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the start does."""
    place = pair[1]
    place.rename(place.with_name("away"))
    place.mkdir()

    assert await asyncio.to_thread(main, ["doctor", "--set", _dirs(pair)]) == 1

    said = " ".join(capsys.readouterr().out.split())  # lines are as long as a terminal is wide
    assert f"FAULT log directories: log directory {place} (directory.id " in said
    assert list(place.iterdir()) == []


async def test_a_directory_without_partitions_may_go(pair: tuple[Path, Path]) -> None:
    """As soon as its partitions are elsewhere, it is forgotten, and may become another one."""
    for each in pair[1].glob("orders-*"):
        each.rename(pair[0] / each.name)

    assert await _start(pair[0]) == [1, 1]
    assert pair[1].name not in (pair[0] / files.LOG_DIRS).read_text()
    (pair[1] / files.META_PROPERTIES).unlink()
    assert await _start(*pair) == [1, 1]


async def test_a_start_that_fails_notes_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the ids of new directories back: the next start gives them others."""
    directories = tmp_path / "one", tmp_path / "other"

    def refuse(*_: object) -> None:
        raise LogDirError("it is full")

    with monkeypatch.context() as patch:
        patch.setattr(LogManager, "load", refuse)
        with pytest.raises(StartError, match="it is full"):
            await _start(*directories)

    assert await _start(*directories) == []


async def test_a_single_directory_needs_no_file(tmp_path: Path) -> None:
    """Nothing is left of which it could tell."""
    await _start(tmp_path)

    assert not (tmp_path / files.LOG_DIRS).exists()
    assert (tmp_path / files.META_PROPERTIES).exists()


async def test_a_catalogue_that_is_gone_with_the_first_directory(tmp_path: Path) -> None:
    """Nothing shows then which partitions it had."""
    one, other = tmp_path / "one", tmp_path / "other"
    async with running(one, _dirs([one, other])) as home:
        await home.topics.create("orders", 1, {})
    assert (one / FILE_NAME).exists()

    with pytest.raises(StartError, match="the catalogue of topics with it"):
        await _start(other)


async def test_a_damaged_file_is_refused(pair: tuple[Path, Path]) -> None:
    """With the way out, if no directory is missing."""
    path = pair[1] / files.LOG_DIRS
    path.write_bytes(path.read_bytes().replace(b"one", b"two"))

    with pytest.raises(StartError, match=r"its checksum is wrong.*; remove it if no"):
        await _start(*pair)

    path.unlink()
    assert await _start(*pair) == [1, 1]
