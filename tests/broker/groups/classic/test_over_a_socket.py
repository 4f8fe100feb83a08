"""Classic groups and committed offsets through a broker's socket, read by kio."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.expiry import expire
from tests.support import group_requests as ask
from tests.support.running import Caller, Running, running
from tests.support.waiting import equals, give_turns_until

QUICK = ("group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=3")
LONG = "m" * 4097


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with the topic orders, of two partitions."""
    async with running(tmp_path / "data", *QUICK) as started:
        await started.topics.create("orders", 2, {})
        await (await started.call()).ask(ask.find("g"))
        yield started


async def enter(caller: Caller, group: str, **options: Any) -> tuple[str, int]:
    """Make a stable group of one member; return its id and the generation."""
    first = await caller.ask(ask.join(group, **options))
    joined = await caller.ask(ask.join(group, first.member_id, **options))
    answer = await caller.ask(
        ask.sync(group, joined.member_id, joined.generation_id, {joined.member_id: b"mine"})
    )
    assert answer.assignment == b"mine"
    return str(joined.member_id), int(joined.generation_id)


def codes(answer: Any) -> list[str]:
    """Return the names of all codes in an answer, in order, without NONE where there are others."""
    holders = (answer, *getattr(answer, "members", ()), *getattr(answer, "groups", ()))
    found = [each.error_code.name for each in holders if hasattr(each, "error_code")]
    for topic in getattr(answer, "topics", ()):
        found += [each.error_code.name for each in topic.partitions]
    found += [each.error_code.name for each in getattr(answer, "results", ())]
    return [name for name in found if name != "none"] or ["none"]


ORDERS = {("orders", 0): 5}
REFUSALS: dict[str, tuple[Callable[[str], Any], str]] = {
    "join without a group": (lambda m: ask.join(""), "invalid_group_id"),
    "join of a group that does not exist": (lambda m: ask.join("no", "m"), "unknown_member_id"),
    "session too short": (lambda m: ask.join("g", session_ms=5999), "invalid_session_timeout"),
    "session too long": (lambda m: ask.join("g", session_ms=1_800_001), "invalid_session_timeout"),
    "join without an id": (lambda m: ask.join("g"), "member_id_required"),
    "join with another type": (
        lambda m: ask.join("g", protocol_type="connect"),
        "inconsistent_group_protocol",
    ),
    "join without a protocol": (
        lambda m: ask.join("g", protocols=()),
        "inconsistent_group_protocol",
    ),
    "join with an unknown id": (lambda m: ask.join("g", "nobody"), "unknown_member_id"),
    "sync without a group": (lambda m: ask.sync("", m, 1), "invalid_group_id"),
    "sync of a group that does not exist": (lambda m: ask.sync("no", m, 1), "unknown_member_id"),
    "sync of a stale generation": (lambda m: ask.sync("g", m, 0), "illegal_generation"),
    "sync without the type": (
        lambda m: ask.sync("g", m, 1, protocol=(None, "range")),
        "inconsistent_group_protocol",
    ),
    "sync without the protocol": (
        lambda m: ask.sync("g", m, 1, protocol=("consumer", None)),
        "inconsistent_group_protocol",
    ),
    "beat of an unknown instance": (lambda m: ask.beat("g", m, 1, "i"), "unknown_member_id"),
    "leave without a group": (lambda m: ask.leave("", (m, None)), "invalid_group_id"),
    "leave of a group that does not exist": (
        lambda m: ask.leave("no", (m, None)),
        "unknown_member_id",
    ),
    "commit of a member of no group": (
        lambda m: ask.commit("no", ORDERS, member=(m, 1, None)),
        "illegal_generation",
    ),
    "the same to whom knows the code": (
        lambda m: ask.commit("no", ORDERS, member=(m, 1, None), version=9),
        "group_id_not_found",
    ),
    "commit with as many characters, one of them of four bytes": (
        lambda m: ask.commit("g", ORDERS, member=(m, 1, None), metadata=LONG[2:] + "\U0001f600"),
        "offset_metadata_too_large",
    ),
    "describe of no group": (lambda m: ask.describe("no"), "group_id_not_found"),
    "delete of no group": (lambda m: ask.delete("no"), "group_id_not_found"),
    "delete of a group with members": (lambda m: ask.delete("g"), "non_empty_group"),
    "offset delete of no group": (
        lambda m: ask.delete_offsets("no", ("orders", 0)),
        "group_id_not_found",
    ),
    "offset delete of nothing in no group": (
        lambda m: ask.delete_offsets("no"),
        "group_id_not_found",
    ),
    "offset delete without a group": (
        lambda m: ask.delete_offsets("", ("orders", 0)),
        "invalid_group_id",
    ),
    "offset delete of an unknown topic": (
        lambda m: ask.delete_offsets("g", ("nowhere", 0)),
        "unknown_topic_or_partition",
    ),
    "offset delete of what may be read": (
        lambda m: ask.delete_offsets("g", ("orders", 0)),
        "group_subscribed_to_topic",
    ),
}


async def test_every_refusal_has_kafkas_code(home: Running) -> None:
    """By table; the group is stable, with one member, whose metadata cannot be read."""
    caller = await home.call()
    member_id, generation = await enter(caller, "g")
    assert generation == 1
    answers = {name: await caller.ask(make(member_id)) for name, (make, _) in REFUSALS.items()}

    assert {name: codes(answer) for name, answer in answers.items()} == {
        name: [code] for name, (_, code) in REFUSALS.items()
    }


async def test_a_commit_that_commits_nothing_makes_no_group(home: Running) -> None:
    """Metadata that is too long leaves nothing behind."""
    caller = await home.call()

    refused = await caller.ask(ask.commit("g", ORDERS, metadata=LONG))
    (described,) = (await caller.ask(ask.describe("g"))).groups

    assert codes(refused) == ["offset_metadata_too_large"]
    assert described.error_code is ErrorCode.group_id_not_found


async def test_a_topic_named_twice_is_answered_once_if_something_is_unknown(home: Running) -> None:
    """As Kafka merges its answers; clients look topics up by name."""
    caller = await home.call()
    offsets = {("orders", 0): 1, ("orders", 9): 2, ("orders", 1): 3}

    committed = await caller.ask(ask.commit("g", offsets))
    deleted = await caller.ask(ask.delete_offsets("g", *offsets))

    for answer in (committed, deleted):
        (topic,) = answer.topics
        found = {each.partition_index: each.error_code.name for each in topic.partitions}
        assert found == {0: "none", 1: "none", 9: "unknown_topic_or_partition"}


async def test_a_topic_that_was_made_after_the_join_is_subscribed_to(home: Running) -> None:
    """Its offsets stay while a member names it, as those of the others do."""
    caller = await home.call()
    metadata = b"\0\0\0\0\0\1\0\5later\xff\xff\xff\xff"
    member_id, generation = await enter(caller, "g", protocols=(("range", metadata),))
    await home.topics.create("later", 1, {})
    await caller.ask(ask.commit("g", {("later", 0): 1}, member=(member_id, generation, None)))

    deleted = await caller.ask(ask.delete_offsets("g", ("later", 0), ("orders", 0)))

    found = {topic.name: topic.partitions[0].error_code.name for topic in deleted.topics}
    assert found == {"later": "group_subscribed_to_topic", "orders": "none"}


async def test_an_assignment_is_shown_while_the_group_rebalances(home: Running) -> None:
    """Members read on with it until they have joined."""
    caller = await home.call()
    await enter(caller, "g")
    newcomer = await home.call()
    first = await newcomer.ask(ask.join("g"))
    await newcomer.client.send(newcomer.frame(ask.join("g", first.member_id)))

    async def describe() -> Any:
        return (await caller.ask(ask.describe("g"))).groups[0]

    group = await give_turns_until(
        describe, "a rebalance", lambda group: group.group_state == "PreparingRebalance"
    )

    assert {each.member_assignment for each in group.members} == {b"mine", b""}
    assert {each.member_metadata for each in group.members} == {b""}
    await newcomer.client.close()


async def test_old_versions_say_it_their_way(home: Running) -> None:
    """DescribeGroups before 6 calls a missing group dead; JoinGroup 0 needs no second round.

    Its refusal has no protocol, which is an empty name there.
    """
    caller = await home.call()
    refused = await caller.ask(ask.old_join(""))
    assert (refused.error_code, refused.protocol_name) == (ErrorCode.invalid_group_id, "")
    (described,) = (await caller.ask(ask.describe("no", 5))).groups
    joined = await caller.ask(ask.old_join("old"))

    assert (described.error_code, described.group_state) == (ErrorCode.none, "Dead")
    assert (joined.error_code, joined.generation_id) == (ErrorCode.none, 1)
    assert joined.protocol_name == "range"
    assert [each.metadata for each in joined.members] == [b"x"]


async def test_offsets_come_back_as_they_were_committed(home: Running) -> None:
    """One that was not is -1 without an error, also of an unknown topic; null metadata is empty."""
    caller = await home.call()
    await caller.ask(ask.commit("g", {("orders", 0): 7}, metadata="mine"))
    await caller.ask(ask.commit("g", {("orders", 1): -1}, metadata=None))
    wanted = (("orders", 0), ("orders", 1), ("nowhere", 5))
    (named,) = (await caller.ask(ask.fetch("g", *wanted))).groups
    (everything,) = (await caller.ask(ask.fetch("g"))).groups
    (nobody,) = (await caller.ask(ask.fetch("nobody", ("orders", 0)))).groups

    rows = [
        (each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code.name)
        for topic in named.topics
        for each in topic.partitions
    ]
    assert rows == [(7, -1, "mine", "none"), (-1, -1, "", "none"), (-1, -1, "", "none")]
    assert {topic.name for topic in everything.topics} == {"orders"}
    assert nobody.topics[0].partitions[0].committed_offset == -1
    assert nobody.error_code is ErrorCode.none


async def test_groups_are_listed_by_state_and_type(home: Running) -> None:
    """Filters know no upper and lower case, and what they do not know matches nothing."""
    caller = await home.call()
    await enter(caller, "members")
    await caller.ask(ask.commit("simple", ORDERS))

    async def names(*states: str, types: tuple[str, ...] = ()) -> set[tuple[str, str, str, str]]:
        listed = (await caller.ask(ask.list_groups(*states, types=types))).groups
        return {(g.group_id, g.protocol_type, g.group_state, g.group_type) for g in listed}

    stable = ("members", "consumer", "Stable", "classic")
    simple = ("simple", "", "Empty", "classic")
    assert await names() == {stable, simple}
    assert await names("sTABLE", "dead") == {stable}
    assert await names("EMPTY") == {simple}
    assert await names("nonsense") == set()
    assert await names(types=("Classic",)) == {stable, simple}
    assert await names(types=("consumer",)) == set()


async def test_a_deleted_group_is_gone_with_its_offsets(home: Running) -> None:
    """Also after a restart: its records are tombstones."""
    caller = await home.call()
    await caller.ask(ask.commit("g", ORDERS))
    deleted = await caller.ask(ask.delete("g"))
    (fetched,) = (await caller.ask(ask.fetch("g"))).groups

    assert codes(deleted) == ["none"]
    assert fetched.topics == ()
    assert home.groups.offsets.count == 0


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    """Offsets, and members with their assignments: they go on as if nothing had been."""
    folder = tmp_path / "data"
    async with running(folder, *QUICK) as first:
        await first.topics.create("orders", 2, {})
        caller = await first.call()
        await caller.ask(ask.find("g"))
        member_id, generation = await enter(caller, "g")
        await caller.ask(ask.commit("g", ORDERS, member=(member_id, generation, None)))
        await caller.ask(ask.commit("simple", {("orders", 1): 9}, metadata="s"))
        await caller.ask(ask.commit("deleted", ORDERS))
        await caller.ask(ask.delete("deleted"))
    async with running(folder, *QUICK) as second:
        caller = await second.call()
        beat = await caller.ask(ask.beat("g", member_id, generation))
        synced = await caller.ask(ask.sync("g", member_id, generation))
        (mine,) = (await caller.ask(ask.fetch("g", ("orders", 0)))).groups
        (simple,) = (await caller.ask(ask.fetch("simple"))).groups
        listed = (await caller.ask(ask.list_groups())).groups

    assert codes(beat) == ["none"]
    assert synced.assignment == b"mine"
    assert mine.topics[0].partitions[0].committed_offset == 5
    assert simple.topics[0].partitions[0].committed_offset == 9
    assert {each.group_id for each in listed} == {"g", "simple"}


async def test_a_member_whose_connection_is_cut_is_missed_in_time(home: Running) -> None:
    """Its parked join goes with the connection; the others do not wait for it for ever."""
    caller = await home.call()
    member_id, _ = await enter(caller, "g")
    lost = await home.call()
    first = await lost.ask(ask.join("g"))
    await lost.client.send(lost.frame(ask.join("g", first.member_id)))
    await give_turns_until(
        lambda: caller.ask(ask.beat("g", member_id, 1)),
        "a heartbeat that is told to rebalance",
        lambda answer: answer.error_code is not ErrorCode.none,
    )
    await lost.client.close()
    again = await caller.ask(ask.join("g", member_id))

    assert again.error_code is ErrorCode.none
    assert again.generation_id == 2


async def test_a_stop_answers_who_waits(tmp_path: Path) -> None:
    """A parked join does not hold up the end of the broker."""
    async with running(tmp_path / "data", "group.initial.rebalance.delay.ms=60000") as home:
        caller = await home.call()
        await caller.ask(ask.find("g"))
        first = await caller.ask(ask.join("g"))
        request = ask.join("g", first.member_id)
        await caller.client.send(caller.frame(request))
        groups = home.groups.groups

        def joining() -> int:
            group = groups.get("g")
            return group.members.joining_count if isinstance(group, ClassicGroup) else 0

        await give_turns_until(joining, "a parked join")
        home.groups.release()
        answer = await caller.receive(request)

    assert answer.error_code is ErrorCode.not_coordinator


async def test_offsets_of_a_deleted_topic_are_forgotten(home: Running) -> None:
    """In all groups; those of other topics stay."""
    caller = await home.call()
    other = await home.topics.create("other", 1, {})
    await caller.ask(ask.commit("g", {("orders", 0): 1, ("other", 0): 2}))
    await home.topics.delete(other)
    await give_turns_until(lambda: home.groups.offsets.count, "one offset that is left", equals(1))
    (left,) = (await caller.ask(ask.fetch("g"))).groups

    assert [topic.name for topic in left.topics] == ["orders"]


async def test_without_its_topic_there_are_no_groups(home: Running) -> None:
    """Somebody deletes __consumer_offsets: a client that looks for the coordinator begins again."""
    caller = await home.call()
    await caller.ask(ask.commit("g", ORDERS))
    topics = home.topics
    await topics.delete(topics.topics["__consumer_offsets"])
    assert (await caller.ask(ask.list_groups())).groups == ()
    lost = await caller.ask(ask.commit("h", ORDERS))
    await caller.ask(ask.find("h"))
    answer = await caller.ask(ask.commit("h", ORDERS))

    assert codes(lost) == ["not_coordinator"]
    assert codes(answer) == ["none"]
    assert "__consumer_offsets" in topics.topics


async def test_what_has_expired_goes(tmp_path: Path) -> None:
    """After offsets.retention.minutes, or at the time that the client has said."""
    async with running(tmp_path / "data", *QUICK, "offsets.retention.minutes=1") as home:
        await home.topics.create("orders", 2, {})
        groups = home.groups
        caller = await home.call()
        await caller.ask(ask.find("g"))
        await caller.ask(ask.commit("soon", ORDERS, version=4, retention_ms=0))
        await caller.ask(ask.commit("later", ORDERS))
        list(expire(groups))
        first = set(groups.offsets)
        now_ms = groups.clock.now_ms()
        groups.clock = type("Later", (), {"now_ms": lambda _: now_ms + 61_000})()
        list(expire(groups))
        second = set(groups.offsets)

    assert first == {"later"}
    assert second == set()
    assert groups.offsets.expired_count == 2
    assert not groups.groups


async def test_a_huge_retention_is_no_fault(home: Running) -> None:
    """It never ends; the answer is an answer."""
    caller = await home.call()
    request = ask.commit("g", ORDERS, version=4, retention_ms=86_399_999_999_999_000)

    assert codes(await caller.ask(request)) == ["none"]


async def test_a_name_that_no_record_holds_is_refused(home: Running) -> None:
    """Instead of closing the connection."""
    caller = await home.call()
    long = "g" * 30_000

    assert codes(await caller.ask(ask.commit(long, ORDERS))) == ["invalid_group_id"]
    assert codes(await caller.ask(ask.join(long))) == ["invalid_group_id"]


async def test_a_member_has_the_name_of_its_client(home: Running) -> None:
    """Even if it comes with the first request of a connection, and in a head of any kind."""
    caller = await home.call()
    for client_id in ("first", "next"):
        caller.client_id = client_id
        answer = await caller.ask(ask.join("g"))

        assert answer.member_id.startswith(f"{client_id}-")
