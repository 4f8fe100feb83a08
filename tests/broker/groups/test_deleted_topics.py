"""Offsets of deleted topics: one walk for all, and none is taken for a new topic's."""

import asyncio
import errno
import shutil
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.coordination import journal
from siltstone.broker.groups import expiry
from siltstone.broker.groups.offsets import Offsets
from siltstone.broker.topics.retired import RetiredNames
from siltstone.broker.topics.topic import Topic
from siltstone.protocol.errors import KafkaStorageError
from siltstone.protocol.messages.consumer_offsets import OffsetCommitValue
from siltstone.protocol.records.journal import Producer
from siltstone.storage.log.log import Log
from siltstone.storage.randomness import random_id
from tests.support import group_requests
from tests.support.committed import new_offsets
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

SETS = ("offsets.topic.num.partitions=1",)
TOPICS = tuple(f"t{number}" for number in range(5))
UNKNOWN_TOPIC_OR_PARTITION = 3


class Walk:
    """A walk over the groups that waits at its first step, and at each later one, until `go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._may_go = asyncio.Event()
        monkeypatch.setattr(expiry, "LoopShare", lambda: self)

    async def rest(self) -> None:
        """Stand in for `LoopShare.rest`."""
        await self._may_go.wait()

    def go(self) -> None:
        """Let walks go on."""
        self._may_go.set()


async def commit(caller: Caller, home: Running, groups: int, value: int = 5) -> None:
    """Have so many groups commit an offset of each topic."""
    await caller.ask(group_requests.find("g"))
    await home.groups.loaded.wait()
    for number in range(groups):
        offsets = {(name, 0): value for name in TOPICS}
        await caller.ask(group_requests.commit(f"g{number}", offsets))


async def committed(caller: Caller, group: str, topic: str = "t0") -> int:
    """Return what a client is told that a group has committed; -1 for nothing."""
    answer = await caller.ask(group_requests.fetch(group, (topic, 0)))
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    everything = (await caller.ask(group_requests.fetch(group))).groups[0].topics
    assert (topic in [each.name for each in everything]) == (offset >= 0)
    return offset


async def walked(home: Running) -> None:
    """Wait until no group has offsets of a deleted topic."""
    await give_turns_until(lambda: not home.topics.retired, "names are still retired")


async def replace(home: Running, name: str = "t0") -> None:
    """Delete a topic and make another one of its name."""
    await home.topics.delete(home.topics.topics[name])
    await home.topics.create(name, 1, {})


async def begin(home: Running, groups: int) -> Caller:
    """Make the topics, and have so many groups commit an offset of each."""
    caller = await home.call()
    for name in TOPICS:
        await home.topics.create(name, 1, {})
    await commit(caller, home, groups)
    return caller


async def test_topics_that_are_deleted_together_take_one_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand topics and 50,000 groups would keep everybody waiting for a minute."""
    async with running(tmp_path, *SETS) as home:
        await begin(home, 3)
        walks = 0
        find_groups = Offsets.find_groups

        def walk(offsets: Offsets, topics: frozenset[str]) -> Iterator[list[str]]:
            nonlocal walks
            walks += 1
            return find_groups(offsets, topics)

        monkeypatch.setattr(Offsets, "find_groups", walk)
        *deleted, kept = (home.topics.topics[name] for name in TOPICS)
        await asyncio.gather(*(home.topics.delete(topic) for topic in deleted))
        await walked(home)

        assert walks <= 2  # those whose deletion is written meanwhile come with the next one
        left = [list(home.groups.offsets.topics(f"g{number}")) for number in range(3)]
        assert left == [[kept.name]] * 3


async def test_groups_without_its_offsets_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk has no step for any of them."""
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
        delete = Offsets.delete_old

        def look(offsets: Offsets, group_id: str, number: int, names: AbstractSet[str]) -> int:
            asked.append(group_id)
            return delete(offsets, group_id, number, names)

        monkeypatch.setattr(Offsets, "delete_old", look)
        await home.topics.delete(home.topics.topics["t0"])
        await walked(home)

        assert asked == ["g7"]
        assert list(home.groups.offsets.topics("g7")) == ["t1"]


async def test_without_groups_no_name_is_kept(tmp_path: Path) -> None:
    """Nobody would release it: a broker that makes and deletes topics would keep all names."""
    async with running(tmp_path, *SETS) as home:
        await home.topics.create("t0", 1, {})
        await home.topics.delete(home.topics.topics["t0"])

        assert not home.topics.retired


async def test_a_new_topic_of_the_name_does_not_wait_for_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is used meanwhile: no group has an offset of it but those that commit one."""
    async with running(tmp_path, *SETS) as home:
        caller = await begin(home, 3)
        walk = Walk(monkeypatch)
        await replace(home)

        assert [await committed(caller, f"g{each}") for each in range(3)] == [-1] * 3
        await commit(caller, home, 1, 7)
        assert [await committed(caller, f"g{each}") for each in range(2)] == [7, -1]

        walk.go()
        await walked(home)
        assert [await committed(caller, f"g{each}") for each in range(3)] == [7, -1, -1]
        assert [await committed(caller, f"g{each}", "t1") for each in range(3)] == [7, 5, 5]


@pytest.mark.parametrize("has_committed", [True, False])
def test_a_commit_looks_at_its_own_topics(has_committed: bool) -> None:
    """However many names are retired, and many topics have such a one."""

    class Unwalked(dict[str, Topic]):
        """Is never walked over."""

        def keys(self) -> Any:
            raise AssertionError("all topics are walked over")

    names = [f"t{number}" for number in range(1000)]
    topics = Unwalked({name: Topic(name, random_id(), ()) for name in names})
    retired = RetiredNames(topics)
    table = Offsets(lambda *_: 0, retired=retired)
    for name in names:
        offsets = new_offsets((name, 0, OffsetCommitValue(5, -1, "", 1)))
        if has_committed:
            table.append("g", 0, offsets)
        else:
            table.append_transactional("g", 0, offsets, Producer(5, 0))
    retired.update({name: random_id() for name in names})
    assert table.delete_old("g", 0, retired.names) == 1000
    table.append("g", 0, new_offsets(("t5", 0, OffsetCommitValue(7, -1, "", 1))))

    assert list(table.topics("g")) == ["t5"]


async def test_a_topic_may_be_deleted_again_during_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The walk that began for the first does not let the offsets of the second pass."""
    async with running(tmp_path, *SETS) as home:
        caller = await begin(home, 3)
        walk = Walk(monkeypatch)
        await replace(home)
        await commit(caller, home, 2, 7)
        await replace(home)
        assert [await committed(caller, f"g{each}") for each in range(3)] == [-1] * 3
        await commit(caller, home, 1, 9)

        walk.go()
        await walked(home)
        assert [await committed(caller, f"g{each}") for each in range(3)] == [9, -1, -1]
        assert home.groups.offsets.count == 3 * len(TOPICS) - 2


@pytest.mark.parametrize("is_walked", [False, True], ids=["before the walk", "behind it"])
async def test_a_kill_changes_no_offset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_walked: bool
) -> None:
    """Offsets of the new topic stay, and those of the old one never come back."""
    async with running(tmp_path / "data", *SETS) as home:
        caller = await begin(home, 3)
        walk = Walk(monkeypatch)
        await replace(home)
        await commit(caller, home, 1, 7)
        if is_walked:
            walk.go()
            await walked(home)
            await commit(caller, home, 2, 8)
        expected = [await committed(caller, f"g{each}") for each in range(3)]
        shutil.copytree(tmp_path / "data", tmp_path / "killed")
    walk.go()
    async with running(tmp_path / "killed", *SETS) as home:
        caller = await home.call()
        await caller.ask(group_requests.find("g"))
        await home.groups.loaded.wait()
        assert [await committed(caller, f"g{each}") for each in range(3)] == expected
        await walked(home)
        assert [await committed(caller, f"g{each}") for each in range(3)] == expected
    assert expected == ([8, 8, -1] if is_walked else [7, -1, -1])


async def test_offsets_of_open_transactions_go_with_their_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the old topic are not pending any more; those of the new one are committed."""

    def stage(home: Running, group: str, producer: Producer, value: int) -> None:
        home.groups.offsets.append_transactional(
            group, 0, new_offsets(("t0", 0, OffsetCommitValue(value, -1, "", 1))), producer
        )

    old, new = Producer(5, 0), Producer(6, 0)
    async with running(tmp_path, *SETS) as home:
        caller = await begin(home, 2)
        offsets = home.groups.offsets
        walk = Walk(monkeypatch)
        for group in ("g0", "g1", "g8"):
            stage(home, group, old, 6)
            assert offsets.is_pending(group, "t0", 0)
        await replace(home)
        assert not any(offsets.is_pending(each, "t0", 0) for each in ("g0", "g1", "g8"))
        stage(home, "g0", new, 7)
        assert offsets.is_pending("g0", "t0", 0)
        for each in (old, new):
            offsets.complete(0, each.id, is_commit=True)

        told = [await committed(caller, each) for each in ("g0", "g1", "g8")]
        walk.go()
        await walked(home)
        again = [await committed(caller, each) for each in ("g0", "g1", "g8")]
        assert told == again == [7, -1, -1]


async def test_an_offset_with_a_time_to_expire_waits_for_the_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of such a one, of clients before Kafka 2.1, has no room for the topic's id."""

    async def try_it() -> int:
        request = group_requests.commit("g0", {("t0", 0): 7}, version=4, retention_ms=100_000)
        code: int = (await caller.ask(request)).topics[0].partitions[0].error_code
        return code

    async with running(tmp_path, *SETS) as home:
        caller = await begin(home, 1)
        walk = Walk(monkeypatch)
        await replace(home)
        assert await try_it() == UNKNOWN_TOPIC_OR_PARTITION
        walk.go()
        await walked(home)
        assert await try_it() == 0
        assert await committed(caller, "g0") == 7


async def test_what_the_journal_does_not_take_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then the old offsets do not show, and the name is kept on the disk."""

    def refuse(*_: Any) -> int:
        raise KafkaStorageError("no room")

    async with running(tmp_path, *SETS) as home:
        caller = await begin(home, 2)
        with monkeypatch.context() as patch:
            patch.setattr(home.groups.offsets, "_append", refuse)
            await replace(home)
            await give_turns_until(
                lambda: not home.broker.coordinators.get()._deleted_topics._is_walking,
                "the walk goes on",
            )
        assert "t0" in home.topics.retired
        assert await committed(caller, "g1") == -1
        await home.broker.coordinators.get().catch_up()
        await walked(home)
        assert home.groups.offsets.count == 2 * (len(TOPICS) - 1)


async def test_a_name_is_released_when_the_deletions_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power failure would bring old offsets back, and nothing would tell that they are."""
    async with running(tmp_path, *SETS) as home:
        await begin(home, 2)
        journal = home.topics.logs["__consumer_offsets", 0]
        written = []

        async def release(*_: Any) -> None:
            written.append((journal.recovery_point, journal.log_end_offset))
            home.topics.retired.remove(home.topics.retired.copy())

        monkeypatch.setattr(home.topics, "release", release)
        assert journal.recovery_point < journal.log_end_offset
        await replace(home)
        await walked(home)
        [(flushed, end)] = written
        assert flushed == end


async def test_a_name_is_kept_while_the_deletions_are_not_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next walk tries again."""

    def fail(_: Any) -> None:
        raise KafkaStorageError("no room")

    async with running(tmp_path, *SETS) as home:
        await begin(home, 2)
        with monkeypatch.context() as patch:
            patch.setattr(Log, "flush", fail)
            await replace(home)
            await give_turns_until(
                lambda: not home.broker.coordinators.get()._deleted_topics._is_walking,
                "the walk goes on",
            )
        assert "t0" in home.topics.retired
        await home.broker.coordinators.get().catch_up()
        await walked(home)


async def test_a_start_goes_on_with_it(tmp_path: Path) -> None:
    """The broker may die before the walk, and the name is the topic's that comes next."""
    async with running(tmp_path / "data", *SETS) as home:
        await begin(home, 3)
        home.groups.loaded.clear()  # as if the journal were still being read
        await home.topics.delete(home.topics.topics["t0"])
    for _ in range(2):
        async with running(tmp_path / "data", *SETS) as home:
            if "t0" not in home.topics.topics:
                await home.topics.create("t0", 1, {})
            await walked(home)
            assert list(home.groups.offsets.topics("g0")) == list(TOPICS[1:])
            assert home.groups.offsets.count == 3 * (len(TOPICS) - 1)


async def test_a_start_that_cannot_read_the_journal_keeps_the_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not know which groups have offsets of a deleted topic; a later start does."""
    async with running(tmp_path / "data", *SETS) as home:
        await begin(home, 3)
        home.groups.loaded.clear()
        await home.topics.delete(home.topics.topics["t0"])

    def refuse(_: object) -> None:
        raise OSError(errno.EIO, "planned")

    with monkeypatch.context() as patched:
        patched.setattr(journal, "_read", refuse)
        async with running(tmp_path / "data", *SETS) as home:
            await home.groups.loaded.wait()
            names = "offsets of deleted topics"
            await give_turns_until(
                lambda: all(each.get_name() != names for each in asyncio.all_tasks()), "it walks"
            )
            assert home.topics.retired
    async with running(tmp_path / "data", *SETS) as home:
        await walked(home)
        assert list(home.groups.offsets.topics("g0")) == list(TOPICS[1:])


async def test_a_start_that_can_read_part_of_the_journal_deletes_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that nobody can ask for would fill the memory until the next start."""
    sets = ("offsets.topic.num.partitions=2",)
    async with running(tmp_path / "data", *sets) as home:
        await begin(home, 2)  # each group is in a partition of its own
        home.groups.loaded.clear()
        await home.topics.delete(home.topics.topics["t0"])

    read, calls = journal._read, 0

    def refuse_first(source: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(errno.EIO, "planned")
        return read(source)

    monkeypatch.setattr(journal, "_read", refuse_first)
    async with running(tmp_path / "data", *sets) as home:
        await home.groups.loaded.wait()
        await give_turns_until(
            lambda: home.groups.offsets.count == len(TOPICS) - 1, "they are deleted"
        )
        assert home.topics.retired
