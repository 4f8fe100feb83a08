"""Memory that clients make the broker keep has limits in bytes; a late client is refused."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.groups.replay import Replay
from tests.support import group_requests
from tests.support.common_requests import create_topics
from tests.support.kio_messages import request
from tests.support.limited import (
    add_to_txn,
    alter_configs,
    create_partitions,
    end_txn,
    groups_at,
    init_producer,
    transactions_at,
)
from tests.support.running import Caller, Running, running
from tests.support.waiting import give_turns_until

TOO_MANY = ErrorCode.policy_violation
FULL = ErrorCode.coordinator_load_in_progress
TOO_LARGE = ErrorCode.invalid_commit_offset_size


async def test_metadata_of_members_has_a_limit_over_all_groups(tmp_path: Path) -> None:
    """It stays as long as the session, which needs no connection; one that leaves makes room."""
    large = (("range", bytes(60_000)),)
    async with groups_at(tmp_path, "group.initial.rebalance.delay.ms=0") as (home, caller):
        given = await caller.ask(group_requests.join("a", protocols=large))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        other = await caller.ask(group_requests.join("b"))
        refused = await caller.ask(group_requests.join("b", other.member_id, protocols=large))
        more = (("range", bytes(100_000)),)
        grown = await caller.ask(group_requests.join("a", given.member_id, protocols=more))
        first = await caller.ask(group_requests.sync("a", given.member_id, joined.generation_id))
        too_much = {given.member_id: bytes(50_000)}
        again = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        assigned = await caller.ask(
            group_requests.sync("a", given.member_id, again.generation_id, too_much)
        )

        assert joined.error_code is first.error_code is ErrorCode.none
        assert refused.error_code is grown.error_code is FULL
        assert assigned.error_code is ErrorCode.coordinator_not_available
        assert home.refused == {"group.members.max.bytes": 3}
        assert 60_000 < home.groups.member_bytes.size < 70_000

        await caller.ask(group_requests.leave("a", (given.member_id, None)))
        taken = await caller.ask(group_requests.join("b", other.member_id, protocols=large))
        assert taken.error_code is ErrorCode.none


async def test_ids_that_never_join_count_as_members(tmp_path: Path) -> None:
    """Each has the client id in it, which may be long, and stays as long as a session."""
    async with groups_at(tmp_path) as (home, caller):
        caller.client_id = "x" * 20_000
        codes = [(await caller.ask(group_requests.join("a"))).error_code for _ in range(6)]

        assert codes == [*[ErrorCode.member_id_required] * 4, FULL, FULL]
        home.groups.groups["a"].close()
        assert home.groups.member_bytes.size == 0


async def test_members_of_consumer_groups_count_too(tmp_path: Path) -> None:
    """Also when their words grow, and after a restart; only what is more is refused."""
    names = tuple(f"topic-that-is-not-there-{number}" for number in range(500))
    async with groups_at(tmp_path) as (home, caller):
        codes = [
            (
                await caller.ask(
                    group_requests.consumer_beat(group, "m", 0, subscribed_topic_names=names)
                )
            ).error_code
            for group in "abc"
        ]
        one = await caller.ask(
            group_requests.consumer_beat("c", "m", 0, subscribed_topic_names=("t",))
        )
        size = home.groups.member_bytes.size

        assert codes == [ErrorCode.none, ErrorCode.none, FULL]
        assert one.error_code is ErrorCode.none
        more = await caller.ask(
            group_requests.consumer_beat("c", "m", one.member_epoch, subscribed_topic_names=names)
        )
        assert more.error_code is FULL
        assert home.groups.member_bytes.size == size
        beat = await caller.ask(group_requests.consumer_beat("c", "m", one.member_epoch))
        assert beat.error_code is ErrorCode.none
    async with groups_at(tmp_path, "group.members.max.bytes=50000") as (home, caller):
        assert home.groups.member_bytes.size == size
        refused = await caller.ask(
            group_requests.consumer_beat("d", "m", 0, subscribed_topic_names=("t",))
        )
        assert refused.error_code is FULL
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        await caller.ask(group_requests.consumer_beat("b", "m", -1))
        assert home.groups.member_bytes.size < 6000


async def test_expressions_count_until_they_are_matched_or_given_up(tmp_path: Path) -> None:
    """Compiled, a short one may take 80 KB; of a member that leaves before nothing stays."""
    async with groups_at(tmp_path) as (home, caller):
        groups = home.broker.coordinators.get().consumer_groups

        async def join(member: str, regex: str) -> ErrorCode:
            said = {"subscribed_topic_names": (), "subscribed_topic_regex": regex}
            answer = await caller.ask(group_requests.consumer_beat("a", member, 0, **said))
            return ErrorCode(answer.error_code)

        assert await join("m", "[a-z]{999}" * 9) is FULL
        assert (len(groups.regexes), home.groups.member_bytes.size) == (0, 0)
        assert await join("m", "[a-z]{999}") is ErrorCode.none
        for number in range(20):
            assert await join("n", f"{number}[b-y]{{999}}") is ErrorCode.none
            await caller.ask(group_requests.consumer_beat("a", "n", -1))
        await give_turns_until(lambda: not groups.matching_count, "all is matched")
        assert len(groups.regexes) == 1
        assert home.groups.member_bytes.size < 4_000
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        await give_turns_until(lambda: not groups.matching_count, "all is matched")
        assert (len(groups.regexes), home.groups.member_bytes.size) == (0, 1361)  # of the group


async def test_an_empty_group_outlives_a_member_that_is_refused(tmp_path: Path) -> None:
    """It becomes a classic group for a member of that protocol, or stays, and is never lost."""
    async with groups_at(tmp_path) as (home, caller):
        await caller.ask(group_requests.consumer_beat("a", "m", 0))
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        await home.broker._settings.alter(cluster={"group.members.max.bytes": "0"}, broker={})
        refused = await caller.ask(group_requests.join("a"))
        listed = await caller.ask(group_requests.list_groups())

        assert refused.error_code is FULL
        assert [(each.group_id, each.group_state) for each in listed.groups] == [("a", "Empty")]


async def test_transactional_ids_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """Their names count; those that are known go on, and after a restart they count as before."""
    limit = "transactional.ids.max.bytes=70000"
    names = ["a" * 30_000, "b" * 30_000, "c" * 30_000, "d"]
    async with transactions_at(tmp_path, limit) as (home, caller):
        codes = [(await caller.ask(init_producer(each))).error_code for each in (*names, names[0])]
        size = home.broker.coordinators.get().transactions.size

        assert codes == [ErrorCode.none, ErrorCode.none, TOO_MANY, ErrorCode.none, ErrorCode.none]
        assert home.refused == {"transactional.ids.max.bytes": 1}
        assert 60_000 < size < 65_000
    async with transactions_at(tmp_path, "transactional.ids.max.bytes=100") as (home, caller):
        again = await caller.ask(init_producer(names[1]))
        new = await caller.ask(init_producer("e"))

        assert again.error_code is ErrorCode.none
        assert new.error_code is TOO_MANY
        assert home.broker.coordinators.get().transactions.size == size


async def test_partitions_of_open_transactions_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """A transaction that was refused more may end, and makes room for others."""
    async with transactions_at(tmp_path, "transactional.ids.max.bytes=20000") as (home, caller):
        await home.topics.create("t", 200, {})
        one, two = [await caller.ask(init_producer(each)) for each in ("one", "two")]

        async def add(name: str, producer: Any, count: int) -> ErrorCode:
            answer = await caller.ask(add_to_txn(name, producer, "t", range(count)))
            (topic,) = answer.results_by_topic_v3_and_below
            return ErrorCode(topic.results_by_partition[0].partition_error_code)

        assert await add("one", one, 90) is ErrorCode.none
        assert await add("two", two, 90) is TOO_MANY
        assert await add("one", one, 200) is TOO_MANY
        assert await add("one", one, 80) is ErrorCode.none  # it has them
        assert home.refused == {"transactional.ids.max.bytes": 2}
        ended = await caller.ask(end_txn("one", one))
        assert ended.error_code is ErrorCode.none
        assert await add("two", two, 90) is ErrorCode.none
        await caller.ask(end_txn("two", two))
        assert home.broker.coordinators.get().transactions.size < 2000


async def test_committed_offsets_have_a_limit_in_bytes(tmp_path: Path) -> None:
    """Existing ones may change, but for longer metadata; deleted ones make room."""
    limit = "group.offsets.max.bytes=20000"
    async with groups_at(tmp_path, limit) as (home, caller):
        await home.topics.create("t", 200, {})

        async def commit(group: str, count: int, metadata: str = "", first: int = 0) -> ErrorCode:
            said = {("t", index): 7 for index in range(first, first + count)}
            answer = await caller.ask(group_requests.commit(group, said, metadata=metadata))
            (code,) = {each.partitions[0].error_code for each in answer.topics}
            return ErrorCode(code)

        assert await commit("a", 100) is ErrorCode.none
        size = home.groups.offsets.size
        assert 12_000 < size < 13_000
        assert await commit("b", 100) is TOO_LARGE
        assert await commit("a", 100, first=100) is TOO_LARGE
        assert await commit("a", 100, "x" * 200) is TOO_LARGE
        assert await commit("g" * 8000, 1) is TOO_LARGE
        assert await commit("a", 100, "twelve chars") is ErrorCode.none
        assert await commit("a", 10, "x" * 200) is ErrorCode.none
        assert home.groups.offsets.size == size + 10 * 184
        assert home.refused == {"group.offsets.max.bytes": 4}
        assert set(home.groups.offsets) == {"a"}
    async with groups_at(tmp_path, "group.offsets.max.bytes=100") as (home, caller):
        assert home.groups.offsets.size == size + 10 * 184
        assert await commit("a", 100) is ErrorCode.none
        assert await commit("b", 1) is TOO_LARGE
        assert home.groups.offsets.size == size
        named = [("t", index) for index in range(100)]
        await caller.ask(group_requests.delete_offsets("a", *named))
        assert home.groups.offsets.size == 0


async def test_names_of_groups_count(tmp_path: Path) -> None:
    """Of groups without a member, too, as long as they exist."""
    async with groups_at(tmp_path, "groups.max.count=1000") as (home, caller):
        caller.client_id = "x"
        names = [letter * 8000 for letter in "abcdefghijklmno"]
        codes = []
        for name in names:
            joined = await caller.ask(group_requests.join(name))
            codes.append(joined.error_code)
            await caller.ask(group_requests.leave(name, (joined.member_id, None)))

        assert set(codes[:10]) == {ErrorCode.member_id_required}
        assert set(codes[10:]) == {FULL}
        assert home.groups.member_bytes.size == 10 * 9360
        await caller.ask(group_requests.delete(*names[:6]))
        assert home.groups.member_bytes.size == 4 * 9360


async def test_assignments_of_consumer_groups_count(tmp_path: Path) -> None:
    """A member is as large as the topics that it subscribes to, however short its word."""
    async with groups_at(tmp_path) as (home, caller):
        await home.topics.create("t", 200, {})
        codes = [
            (
                await caller.ask(
                    group_requests.consumer_beat(group, "m", 0, subscribed_topic_names=("t",))
                )
            ).error_code
            for group in "ab"
        ]

        assert codes == [ErrorCode.none, FULL]
        assert 70_000 < home.groups.member_bytes.size < 75_000
        await caller.ask(group_requests.consumer_beat("a", "m", -1))
        assert home.groups.member_bytes.size < 2000


async def test_metadata_of_very_many_topics_is_not_read(tmp_path: Path) -> None:
    """It is kept as it came: the group goes on, and nobody waits for its topics to be found."""
    count = 60_000
    topics = b"".join(b"\0\5%05d" % number for number in range(count))
    metadata = b"\0\0" + count.to_bytes(4, "big") + topics + b"\xff\xff\xff\xff"
    sets = ("group.members.max.bytes=10000000", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (home, caller):
        protocols = (("range", metadata),)
        given = await caller.ask(group_requests.join("a", protocols=protocols))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=protocols))
        size = home.groups.member_bytes.size

        assert joined.error_code is ErrorCode.none
        assert joined.members[0].metadata == metadata
        assert home.groups.groups["a"].is_subscribed_to("any")
        assert size < len(metadata) + 4000


async def test_members_that_no_record_could_hold_are_refused(tmp_path: Path) -> None:
    """A member that joins with more than sixteen times the largest batch of the journal."""
    sets = ("group.members.max.bytes=100000000", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (_, caller):
        large = (("range", bytes(17_000_000)),)
        given = await caller.ask(group_requests.join("a", protocols=large))
        joined = await caller.ask(group_requests.join("a", given.member_id, protocols=large))
        fitting = await caller.ask(group_requests.join("a", given.member_id))

        assert joined.error_code is ErrorCode.group_max_size_reached
        assert fitting.error_code is ErrorCode.none


async def test_settings_of_topics_groups_and_subscriptions_have_a_limit(tmp_path: Path) -> None:
    """In bytes of all together, and of subscriptions in number; fewer are always taken."""
    topic, group, subscription = 2, 32, 16
    async with running(tmp_path, "configs.max.bytes=10000", "client.metrics.max.count=1") as home:
        await home.topics.create("t", 1, {})
        caller = await home.call()

        async def alter(kind: int, name: str, **values: str) -> ErrorCode:
            answer = await caller.ask(alter_configs(kind, [name], **values))
            return ErrorCode(answer.responses[0].error_code)

        long = ",".join(f"{number}:1" for number in range(1000))
        assert await alter(group, "g" * 9000, consumer_session_timeout_ms="50000") is ErrorCode.none
        assert await alter(group, "h" * 9000, consumer_session_timeout_ms="50000") is TOO_MANY
        throttled = {"leader_replication_throttled_replicas": long}
        assert await alter(topic, "t", **throttled) is TOO_MANY
        assert await alter(topic, "t", retention_ms="50000") is ErrorCode.none
        assert await alter(subscription, "s", metrics="*") is ErrorCode.none
        assert await alter(subscription, "s", metrics="a.") is ErrorCode.none
        assert await alter(subscription, "u", metrics="*") is TOO_MANY
        assert home.refused == {"configs.max.bytes": 2, "client.metrics.max.count": 1}


async def test_settings_of_one_request_are_counted_together(tmp_path: Path) -> None:
    """Each counts what the others are about to keep."""
    names = [f"{number:04}" + "g" * 4000 for number in range(20)]
    async with running(tmp_path, "configs.max.bytes=10000", "client.metrics.max.count=1") as home:
        caller = await home.call()
        groups = await caller.ask(alter_configs(32, names, consumer_session_timeout_ms="50000"))
        large = ",".join(f"{each}:1" for each in range(900))
        many = create_topics(
            *(f"t{each}" for each in range(20)), leader_replication_throttled_replicas=large
        )
        topics = await caller.ask(many)
        few = await caller.ask(create_topics("t0", leader_replication_throttled_replicas="1:1"))
        subscribed = await caller.ask(alter_configs(16, map(str, range(20)), metrics="*"))

        assert Counter(each.error_code for each in groups.responses) == {0: 2, TOO_MANY: 18}
        assert {each.error_code for each in topics.topics} == {TOO_MANY}
        assert few.topics[0].error_code is ErrorCode.none
        assert Counter(each.error_code for each in subscribed.responses) == {0: 1, TOO_MANY: 19}
        assert home.refused == {"configs.max.bytes": 38, "client.metrics.max.count": 19}


async def test_members_that_are_there_are_never_refused(tmp_path: Path) -> None:
    """Their assignments may grow beyond the limit: they would not bear to be refused."""
    sets = ("group.members.max.bytes=30000", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (home, caller):
        await home.topics.create("t", 20, {})
        one = await caller.ask(
            group_requests.consumer_beat("a", "m", 0, subscribed_topic_names=("t",))
        )
        given = await caller.ask(group_requests.join("b"))
        room = 30_000 - home.groups.member_bytes.size
        large = (("range", bytes(room - 1000)),)
        filled = await caller.ask(group_requests.join("b", given.member_id, protocols=large))
        await caller.ask(create_partitions("t", 40))

        async def beat() -> int:
            answer = await caller.ask(group_requests.consumer_beat("a", "m", one.member_epoch))
            assert answer.error_code is ErrorCode.none
            return int(answer.member_epoch)

        await give_turns_until(beat, "the new partitions", lambda seen: seen > one.member_epoch)
        new = await caller.ask(group_requests.consumer_beat("a", "n", 0))

        assert filled.error_code is ErrorCode.none
        assert home.groups.member_bytes.size > 30_000
        assert new.error_code is FULL


async def test_a_member_that_takes_the_place_of_the_last_has_the_limit(tmp_path: Path) -> None:
    """A static member that comes back with the older protocol, and with very much to say."""
    sets = ("group.consumer.migration.policy=bidirectional", "group.initial.rebalance.delay.ms=0")
    async with groups_at(tmp_path, *sets) as (home, caller):
        await home.topics.create("t", 1, {})
        here = {"instance_id": "i", "subscribed_topic_names": ("t",)}
        await caller.ask(group_requests.consumer_beat("a", "m", 0, **here))
        await caller.ask(group_requests.consumer_beat("a", "m", -2, instance_id="i"))
        protocols = (("range", b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),)
        large = (*protocols, *((f"p{number}", bytes(90_000)) for number in range(8)))
        refused = await caller.ask(group_requests.join("a", instance_id="i", protocols=large))
        taken = await caller.ask(group_requests.join("a", instance_id="i", protocols=protocols))

        assert refused.error_code is FULL
        assert taken.error_code is ErrorCode.none
        assert home.groups.member_bytes.size < 4000


async def test_groups_that_are_read_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of them meanwhile, as the pages make it, makes no others of the same names."""
    async with groups_at(tmp_path, "group.initial.rebalance.delay.ms=0") as (home, caller):
        await home.topics.create("t", 1, {})
        given = await caller.ask(group_requests.join("a"))
        joined = await caller.ask(group_requests.join("a", given.member_id))
        member = (given.member_id, joined.generation_id)
        await caller.ask(group_requests.sync("a", *member, {given.member_id: b"x"}))
        await caller.ask(group_requests.commit("a", {("t", 0): 5}, member=(*member, None)))
        size = home.groups.member_bytes.size
    finish = Replay.finish
    seen = []

    def finish_beside(self: Replay, partition: int) -> Iterator[None]:
        seen.append([*self._owner.list_ids()])
        yield from finish(self, partition)

    monkeypatch.setattr(Replay, "finish", finish_beside)
    async with groups_at(tmp_path) as (home, _):
        assert seen == [[]]
        assert home.groups.member_bytes.size == size
        assert home.groups.list_ids() == ["a"]


def _txn_commit(version: int, producer: tuple[int, int], offsets: int, metadata: str = "") -> Any:
    """Return a TxnOffsetCommit of group a for the first partitions of topic t."""
    row = {"committed_offset": 1, "committed_metadata": metadata}
    rows = [row | {"partition_index": index} for index in range(offsets)]
    return request(
        28,
        version,
        transactional_id="one",
        group_id="a",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[{"name": "t", "partitions": rows}],
    )


def _add_offsets(version: int, producer: tuple[int, int]) -> Any:
    """Return an AddOffsetsToTxn for group a."""
    named = {"producer_id": producer[0], "producer_epoch": producer[1]}
    return request(25, version, transactional_id="one", group_id="a", **named)


@asynccontextmanager
async def _in_transaction(
    tmp_path: Path, *sets: str
) -> AsyncIterator[tuple[Running, Caller, tuple[int, int]]]:
    """Run a broker with a topic and a producer that has begun nothing yet."""
    async with transactions_at(tmp_path, "offsets.topic.num.partitions=1", *sets) as (home, caller):
        await home.topics.create("t", 300, {})
        await caller.ask(group_requests.find("a"))
        await home.groups.loaded.wait()
        made = await caller.ask(init_producer("one"))
        yield home, caller, (made.producer_id, made.producer_epoch)


async def test_a_transaction_that_may_not_grow_can_be_aborted(tmp_path: Path) -> None:
    """From the versions on that know the code; older producers are told the reason."""
    async with _in_transaction(tmp_path, "transactional.ids.max.bytes=650") as (_, caller, own):
        added = [(await caller.ask(_add_offsets(each, own))).error_code for each in (3, 4)]
        committed = await caller.ask(_txn_commit(5, own, 1))

        assert added == [TOO_MANY, ErrorCode.transaction_abortable]
        assert _codes(committed) == {ErrorCode.transaction_abortable}


async def test_pending_offsets_have_the_limit_too(tmp_path: Path) -> None:
    """A refusal leaves the transaction as it was; it may be aborted, and makes room."""
    limit = "group.offsets.max.bytes=20000"
    async with _in_transaction(tmp_path, limit) as (home, caller, own):
        offsets = home.groups.offsets
        await caller.ask(_add_offsets(3, own))
        taken = await caller.ask(_txn_commit(3, own, 4, "x" * 4000))
        size = offsets.size
        same = await caller.ask(_txn_commit(3, own, 4, "x" * 4000))
        codes = [_codes(await caller.ask(_txn_commit(each, own, 5, "x" * 4000))) for each in (3, 4)]

        assert _codes(taken) == _codes(same) == {ErrorCode.none}
        assert codes == [{TOO_LARGE}, {ErrorCode.transaction_abortable}]
        assert 17_000 < size == offsets.size < 18_500
        plain = await caller.ask(group_requests.commit("b", {("t", each): 1 for each in range(99)}))
        assert {each.partitions[0].error_code for each in plain.topics} == {TOO_LARGE}
        await caller.ask(end_txn("one", SimpleNamespace(producer_id=own[0], producer_epoch=own[1])))
        await give_turns_until(lambda: offsets.size < 1000, "the transaction is aborted")
        again = await caller.ask(group_requests.commit("b", {("t", each): 1 for each in range(99)}))
        assert {each.partitions[0].error_code for each in again.topics} == {ErrorCode.none}


async def test_commits_beside_a_transaction_look_at_the_limit_again(tmp_path: Path) -> None:
    """The room that was found before a transaction took of it is gone."""
    limit = "group.offsets.max.bytes=1000000"
    async with _in_transaction(tmp_path, limit) as (home, caller, own):
        said = {("t", index): 1 for index in range(100)}
        await caller.ask(group_requests.commit("a", {("t", 0): 1}))
        await caller.ask(_add_offsets(3, own))
        await caller.ask(_txn_commit(3, own, 280, "x" * 3000))
        large = group_requests.commit("b", said, metadata="y" * 3000)
        answer = await caller.ask(large)

        assert {each.partitions[0].error_code for each in answer.topics} == {TOO_LARGE}
        assert home.groups.offsets.size <= 1_000_000


@pytest.mark.parametrize("own", [(-1, -1), (-1, 0), (-5, 0)])
async def test_ids_that_no_producer_has_commit_nothing(
    tmp_path: Path, own: tuple[int, int]
) -> None:
    """Also where nobody asks whether the partition is in the transaction."""
    off = "transaction.partition.verification.enable=false"
    async with _in_transaction(tmp_path, off) as (home, caller, _):
        answer = await caller.ask(_txn_commit(3, own, 1))

        assert _codes(answer) == {ErrorCode.invalid_producer_id_mapping}
        log = home.topics.find_log("__consumer_offsets", 0)
        assert log is not None
        assert log.log_end_offset == 0
        assert not log.producers.producers


def _codes(answer: Any) -> set[ErrorCode]:
    """Return the codes of a TxnOffsetCommit."""
    return {each.error_code for topic in answer.topics for each in topic.partitions}


async def _call_as(home: Running, principal: str) -> Caller:
    """Open a connection of a user that has logged in."""
    (listener,) = home.listeners
    before = set(listener.connections)
    caller = await home.call()
    await caller.ask(group_requests.find("a"))
    (connection,) = set(listener.connections) - before
    connection.principal = principal
    return caller


@pytest.mark.parametrize("is_classic", [True, False], ids=["classic", "consumer"])
async def test_one_user_keeps_nobody_out(tmp_path: Path, is_classic: bool) -> None:
    """Members of a user may have half of the limit, and are told to ask again beyond that."""
    protocols = (("range", bytes(8000)),)
    names = tuple(f"{number:0200}" for number in range(30))

    def join(group: str) -> Any:
        if is_classic:
            return group_requests.join(group, instance_id="m", protocols=protocols)
        return group_requests.consumer_beat(group, "m", 0, subscribed_topic_names=names)

    async with groups_at(tmp_path, "group.initial.rebalance.delay.ms=0") as (home, _):
        eve, bob = [await _call_as(home, f"User:{name}") for name in ("eve", "bob")]
        codes = [(await eve.ask(join(f"e{number}"))).error_code for number in range(8)]
        of_users = home.groups.member_bytes.of_users
        most = of_users["User:eve"]
        joined = await bob.ask(join("b"))

        assert codes[:4] == [ErrorCode.none] * 4
        assert codes[-1] is FULL
        assert 36_000 < most <= 50_000
        assert joined.error_code is ErrorCode.none
        for group in home.groups.groups.values():
            group.close()
        assert of_users == {}
        assert home.groups.member_bytes.size == 0
