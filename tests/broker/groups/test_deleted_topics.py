"""Offsets of deleted topics: one walk for all, and none is taken for a new topic's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from siltstone.broker.groups.offsets import Offsets
from siltstone.protocol.errors import TopicAlreadyExists
from tests.support import group_requests
from tests.support.running import running
from tests.support.waiting import equals, give_turns_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.running import Caller, Running

SETS = ("offsets.topic.num.partitions=1",)
TOPICS = tuple(f"t{number}" for number in range(5))


async def commit(caller: Caller, home: Running, groups: int) -> None:
    """Have so many groups commit an offset of each topic."""
    await caller.ask(group_requests.find("g"))
    await home.groups.loaded.wait()
    for number in range(groups):
        offsets = {(name, 0): 5 for name in TOPICS}
        await caller.ask(group_requests.commit(f"g{number}", offsets))


async def test_topics_that_are_deleted_together_take_one_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand topics and 50,000 groups would keep everybody waiting for a minute."""
    async with running(tmp_path, *SETS) as home:
        caller = await home.call()
        for name in TOPICS:
            await home.topics.create(name, 1, {})
        await commit(caller, home, 3)
        walks = 0
        find_groups = Offsets.find_groups

        def walk(offsets: Offsets, topics: frozenset[str]) -> Iterator[list[str]]:
            nonlocal walks
            walks += 1
            return find_groups(offsets, topics)

        monkeypatch.setattr(Offsets, "find_groups", walk)
        *deleted, kept = (home.topics.topics[name] for name in TOPICS)
        await asyncio.gather(*(home.topics.delete(topic) for topic in deleted))
        await give_turns_until(lambda: home.topics.retired, "no retired names", equals(set()))

        assert walks <= 2  # those whose deletion is written meanwhile come with the next one
        left = [list(home.groups.offsets.topics(f"g{number}")) for number in range(3)]
        assert left == [[kept.name]] * 3


async def test_groups_without_its_offsets_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is a step of the walk: making the topic again waits for all of it."""
    async with running(tmp_path, *SETS) as home:
        caller = await home.call()
        await home.topics.create("t0", 1, {})
        await home.topics.create("t1", 1, {})
        await caller.ask(group_requests.find("g"))
        await home.groups.loaded.wait()
        for number in range(100):
            await caller.ask(group_requests.commit(f"g{number}", {("t1", 0): 5}))
        await caller.ask(group_requests.commit("g7", {("t0", 0): 5}))
        asked: list[str] = []
        find = Offsets.list_of_topics

        def look(offsets: Offsets, group_id: str, names: frozenset[str]) -> list[tuple[str, int]]:
            asked.append(group_id)
            return find(offsets, group_id, names)

        monkeypatch.setattr(Offsets, "list_of_topics", look)
        await home.topics.delete(home.topics.topics["t0"])
        await give_turns_until(lambda: home.topics.retired, "no retired names", equals(set()))

        assert asked == ["g7"]
        assert list(home.groups.offsets.topics("g7")) == ["t1"]


async def test_without_groups_no_name_is_kept(tmp_path: Path) -> None:
    """Nobody would release it: a broker that makes and deletes topics would keep all names."""
    async with running(tmp_path, *SETS) as home:
        await home.topics.create("t0", 1, {})
        await home.topics.delete(home.topics.topics["t0"])

        assert not home.topics.retired


async def test_a_new_topic_of_the_name_waits_for_the_walk(tmp_path: Path) -> None:
    """Else what is committed for it would be taken for the old one's."""
    async with running(tmp_path, *SETS) as home:
        caller = await home.call()
        for name in TOPICS:
            await home.topics.create(name, 1, {})
        await commit(caller, home, 50)
        await home.topics.delete(home.topics.topics["t0"])
        await home.topics.create("t0", 1, {})
        assert not any("t0" in home.groups.offsets.topics(f"g{each}") for each in range(50))

        await commit(caller, home, 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert home.groups.offsets.find("g0", "t0", 0) is not None


async def test_a_start_goes_on_with_it(tmp_path: Path) -> None:
    """The broker may die before the walk, and the name is the topic's that comes next."""
    async with running(tmp_path / "data", *SETS) as home:
        caller = await home.call()
        for name in TOPICS:
            await home.topics.create(name, 1, {})
        await commit(caller, home, 3)
        home.groups.loaded.clear()  # as if the journal were still being read
        await home.topics.delete(home.topics.topics["t0"])
        making = asyncio.create_task(home.topics.create("t0", 1, {}))
        await asyncio.sleep(0)
        assert "t0" in home.groups.offsets.topics("g0")
    with pytest.raises(TopicAlreadyExists, match="still being deleted; try again"):
        await making
    async with running(tmp_path / "data", *SETS) as home:
        await home.topics.create("t0", 1, {})
        assert not home.topics.retired
        assert list(home.groups.offsets.topics("g0")) == list(TOPICS[1:])
    async with running(tmp_path / "data", *SETS) as home:
        assert not home.topics.retired
        assert list(home.groups.offsets.topics("g0")) == list(TOPICS[1:])
