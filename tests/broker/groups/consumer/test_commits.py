"""Offsets of a consumer group over the wire: what members of which epoch may commit and ask for."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.support import group_requests
from tests.support.common_requests import create_topics
from tests.support.group_requests import find
from tests.support.kio_messages import request
from tests.support.running import Caller, running

SETTINGS = ("group.consumer.assignment.interval.ms=0", "offsets.topic.num.partitions=1")


class Members:
    """Group "g" on topic "t" of two partitions, asked over one connection."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.topic: UUID

    async def beat(self, member_id: str, epoch: int, *owned: int, full: bool = False) -> Any:
        """Heartbeat, owning these partitions."""
        said: dict[str, Any] = {
            "rebalance_timeout": 60_000 if full else -1,
            "subscribed_topic_names": ("t",) if full else None,
            "topic_partitions": [{"topic_id": self.topic, "partitions": owned}] if owned else [],
        }
        return await self.caller.ask(group_requests.consumer_beat("g", member_id, epoch, **said))

    async def commit(self, member_id: str, epoch: int, *partitions: int) -> list[ErrorCode]:
        """Commit offset 7 of partitions and return their codes."""
        answer = await self.caller.ask(_commit(9, member_id, epoch, partitions))
        return [each.error_code for each in answer.topics[0].partitions]

    async def fetch(self, member_id: str | None, epoch: int) -> tuple[ErrorCode, list[int]]:
        """Ask for the offsets of both partitions."""
        topics = [{"name": "t", "partition_indexes": [0, 1]}]
        member = {"member_id": member_id, "member_epoch": epoch}
        wanted = [{"group_id": "g", "topics": topics, **member}]
        [group] = (await self.caller.ask(request(9, 9, groups=wanted, require_stable=True))).groups
        offsets = [each.committed_offset for topic in group.topics for each in topic.partitions]
        return group.error_code, offsets


def _commit(version: int, member_id: str, epoch: int, partitions: tuple[int, ...]) -> Any:
    row = {"committed_offset": 7, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [row | {"partition_index": each} for each in partitions]}]
    member = {"member_id": member_id, "generation_id_or_member_epoch": epoch}
    return request(8, version, group_id="g", topics=topics, **member)


@pytest.fixture
async def members(tmp_path: Path) -> AsyncIterator[Members]:
    """Member "m" in epoch 3 with partition 0, after "n" has come, which waits for partition 1."""
    async with running(tmp_path, *SETTINGS) as started:
        made = Members(await started.call())
        await made.caller.ask(find("g"))
        created = await made.caller.ask(create_topics("t", partitions=2))
        made.topic = created.topics[0].topic_id
        assert (await made.beat("m", 0, full=True)).member_epoch == 2
        assert (await made.beat("n", 0, full=True)).member_epoch == 3
        await made.beat("m", 2, 0, 1)
        assert (await made.beat("m", 2, 0)).member_epoch == 3
        yield made


async def test_members_commit_in_their_epoch(members: Members) -> None:
    """And ask for what is committed in it."""
    assert await members.commit("m", 3, 0) == [ErrorCode.none]

    assert await members.fetch("m", 3) == (ErrorCode.none, [7, -1])
    assert await members.fetch(None, -1) == (ErrorCode.none, [7, -1])


async def test_an_older_epoch_commits_what_it_had_and_has(members: Members) -> None:
    """A commit that the epoch has overtaken: partition 0 stayed, partition 1 is gone.

    One partition that the member has not any more refuses all of the commit.
    """
    stale = ErrorCode.stale_member_epoch
    codes = await members.commit("m", 2, 0, 1)

    assert codes == [stale, stale]
    assert await members.fetch(None, -1) == (ErrorCode.none, [-1, -1])
    assert await members.commit("m", 2, 0) == [ErrorCode.none]
    assert await members.fetch(None, -1) == (ErrorCode.none, [7, -1])


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("m", 4, ErrorCode.stale_member_epoch),
        ("x", 2, ErrorCode.unknown_member_id),
        ("", -1, ErrorCode.unknown_member_id),
    ],
)
async def test_whose_commits_are_refused(
    members: Members, member_id: str, epoch: int, code: ErrorCode
) -> None:
    """Epochs that are yet to come, strangers, and tools while there are members."""
    assert await members.commit(member_id, epoch, 0, 1) == [code, code]


async def test_members_need_a_version_that_has_epochs(members: Members) -> None:
    """OffsetCommit 8 of a member of the consumer protocol: UNSUPPORTED_VERSION."""
    answer = await members.caller.ask(_commit(8, "m", 3, (0,)))

    assert answer.topics[0].partitions[0].error_code is ErrorCode.unsupported_version


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [("m", 2, ErrorCode.stale_member_epoch), ("x", 3, ErrorCode.unknown_member_id)],
)
async def test_who_is_told_no_offsets(
    members: Members, member_id: str, epoch: int, code: ErrorCode
) -> None:
    """A client that says that it is a member has to be one, now."""
    assert await members.fetch(member_id, epoch) == (code, [])


async def test_a_member_has_the_name_of_its_client(members: Members) -> None:
    """That of the head that came with it, not of an earlier one of the connection."""
    members.caller.client_id = "reader"
    await members.beat("o", 0, full=True)
    (group,) = (await members.caller.ask(group_requests.describe_consumer("g"))).groups

    assert {each.member_id: each.client_id for each in group.members}["o"] == "reader"
