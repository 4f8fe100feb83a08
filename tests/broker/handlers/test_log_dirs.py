"""DescribeLogDirs: what lies where, and how much room there is."""

import os
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.handlers.log_dirs import describe
from siltstone.protocol.messages.describe_log_dirs import DescribeLogDirsRequest as Request
from siltstone.protocol.messages.describe_log_dirs import DescribeLogDirsResponse as Response
from siltstone.storage import files
from tests.support.appending import append
from tests.support.ask import ask
from tests.support.kio_messages import request
from tests.support.services import ServicesOnDisk

KEY = 35


async def _describe(
    home: ServicesOnDisk,
    *topics: tuple[str, tuple[int, ...]],
    everything: bool = False,
    version: int = 5,
) -> list[Any]:
    rows = [{"topic": name, "partitions": parts} for name, parts in topics]
    wanted = request(KEY, 5, topics=None if everything else rows)
    answer = await ask(home, KEY, wanted, version)
    assert version < 3 or answer.error_code is ErrorCode.none
    return list(answer.results)


def _sizes(result: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, part.partition_index): part.partition_size
        for topic in result.topics
        for part in topic.partitions
    }


async def test_sizes_by_directory(tmp_path: Path) -> None:
    """Every directory by its absolute path, with the bytes of its partitions and of its disk."""
    home = await ServicesOnDisk(tmp_path, directories=2).open()
    await home.services.topics.create("t", 4, {})
    append(home.services.topics.logs["t", 2], 3)
    results = await _describe(home, everything=True)
    sizes = [_sizes(each) for each in results]

    assert [each.log_dir for each in results] == [str(path.resolve()) for path in home.paths]
    assert sum(len(each) for each in sizes) == 4
    assert (sizes[0] | sizes[1])["t", 2] == home.services.topics.logs["t", 2].size > 0
    disk = os.statvfs(tmp_path)
    assert {each.total_bytes for each in results} == {disk.f_blocks * disk.f_frsize}
    assert all(0 < each.usable_bytes <= each.total_bytes for each in results)
    assert not any(each.is_cordoned for each in results)
    for topic in (topic for each in results for topic in each.topics):
        assert {(part.offset_lag, part.is_future_key) for part in topic.partitions} == {(0, False)}
    await home.close()


async def test_only_what_is_asked_for(home: ServicesOnDisk) -> None:
    """An unknown partition is absent; hidden logs are too; the directory is named without any."""
    await home.services.topics.create("t", 2, {})
    home.services.topics.logs["hidden", 0] = home.services.topics.logs["t", 0]
    [some] = await _describe(home, ("t", (1, 7)), ("missing", (0,)), ("hidden", (0,)))
    [none] = await _describe(home)
    [everything] = await _describe(home, everything=True)

    assert set(_sizes(some)) == {("t", 1)}
    assert (none.topics, none.error_code) == ((), ErrorCode.none)
    assert set(_sizes(everything)) == {("t", 0), ("t", 1)}


async def test_a_failed_directory_says_so(home: ServicesOnDisk) -> None:
    """With its path, so that a person knows which disk to look at."""
    await home.services.topics.create("t", 1, {})
    home.services.logs.directories[0].fail(OSError(5, "Input/output error"))
    [result] = await _describe(home, everything=True)

    assert (result.error_code, result.topics) == (ErrorCode.kafka_storage_error, ())
    assert result.log_dir == str(home.paths[0])


@pytest.mark.parametrize("version", range(1, 6))
async def test_every_version_can_be_written(home: ServicesOnDisk, version: int) -> None:
    """With a topic in it."""
    await home.services.topics.create("t", 1, {})
    [result] = await _describe(home, everything=True, version=version)

    assert set(_sizes(result)) == {("t", 0)}


async def test_no_disk_is_asked_by_a_request(
    home: ServicesOnDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is that of the last look, so the answer comes in the same turn of the loop."""
    await home.services.topics.create("t", 1, {})
    monkeypatch.setattr(files, "find_room", None)
    asking = describe(home.context(KEY), Request(topics=None))

    with pytest.raises(StopIteration) as done:
        asking.send(None)
    answer: Response = done.value.value
    assert answer.results[0].usable_bytes > 0
