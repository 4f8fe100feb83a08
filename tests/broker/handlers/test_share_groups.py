"""The APIs of share groups as requests and answers: heartbeats, descriptions, offsets, deletion."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from siltstone.broker.groups.expiry import expire_group
from siltstone.broker.groups.share.all_groups import HostedShareGroup
from siltstone.broker.share.key import ShareKey
from siltstone.protocol.errors import UnknownServerError
from siltstone.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from siltstone.protocol.messages.delete_groups import DeleteGroupsRequest
from siltstone.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from siltstone.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from siltstone.protocol.messages.list_groups import ListGroupsRequest
from siltstone.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from siltstone.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.support.ask import ask
from tests.support.services import ServicesOnDisk
from tests.support.waiting import give_turns_until

DELETE_GROUPS, LIST, HEARTBEAT, DESCRIBE, OFFSETS, ALTER, DELETE = 42, 16, 76, 77, 90, 91, 92


async def beat(home: ServicesOnDisk, epoch: int = 0, *names: str, member: str = "m") -> Any:
    """Send a heartbeat of group "g", and wait for the queues that it asks for."""
    await home.services.groups().journal.ensure_created()
    asked = ShareGroupHeartbeatRequest("g", member, epoch, None, names or None)
    answer = await ask(home, HEARTBEAT, asked)
    machine = home.services.share_groups().find_machine("g")
    assert machine is not None
    await give_turns_until(lambda: not machine.states.initializing, "the queues")
    return answer


async def join(home: ServicesOnDisk, *names: str) -> Any:
    """Join group "g" and return the answer that has the assignment."""
    first = await beat(home, 0, *names)
    assert first.error_code is ErrorCode.none
    home.clock.advance(1000)
    return await beat(home, first.member_epoch, *names)


async def offsets(home: ServicesOnDisk, *topics: tuple[str, tuple[int, ...]]) -> Any:
    """Return the offsets of the group, of all partitions or of these."""
    wanted = [DescribeShareGroupOffsetsRequestTopic(*each) for each in topics] or None
    group = DescribeShareGroupOffsetsRequestGroup("g", wanted)
    [told] = (await ask(home, OFFSETS, DescribeShareGroupOffsetsRequest([group]))).groups
    assert told.error_code is ErrorCode.none
    return {
        topic.topic_name: [(each.partition_index, each.start_offset) for each in topic.partitions]
        for topic in told.topics
    }


async def alter(home: ServicesOnDisk, name: str, **starts: int) -> Any:
    """Alter offsets of partitions p0, p1 and so on."""
    rows = [
        AlterShareGroupOffsetsRequestPartition(int(index[1:]), start)
        for index, start in starts.items()
    ]
    topics = [AlterShareGroupOffsetsRequestTopic(name, rows)]
    return await ask(home, ALTER, AlterShareGroupOffsetsRequest("g", topics))


async def describe(home: ServicesOnDisk) -> Any:
    """Describe group "g"."""
    return (await ask(home, DESCRIBE, ShareGroupDescribeRequest(["g"]))).groups[0]


async def delete_group(home: ServicesOnDisk) -> ErrorCode:
    """Delete group "g"."""
    answer = await ask(home, DELETE_GROUPS, DeleteGroupsRequest(["g"]), 2)
    code: ErrorCode = answer.results[0].error_code
    return code


async def test_a_member_is_assigned_and_described(home: ServicesOnDisk) -> None:
    """All partitions, by id and name, once their queues exist."""
    topic = await home.services.topics.create("t", 2, {})
    answer = await join(home, "t")

    assert (answer.error_code, answer.member_id, answer.member_epoch) == (ErrorCode.none, "m", 3)
    assert answer.heartbeat_interval == timedelta(seconds=5)
    [assigned] = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (topic.id, (0, 1))
    group = await describe(home)
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert group.assignor_name == "simple"
    [held] = group.members[0].assignment.topic_partitions
    assert (held.topic_name, held.partitions) == ("t", (0, 1))
    assert await offsets(home) == {"t": [(0, -1), (1, -1)]}


async def test_a_group_outlives_a_restart(tmp_path: Path) -> None:
    """Members, their epochs and which queues exist; the member goes on."""
    home = await ServicesOnDisk(tmp_path).open()
    await home.services.topics.create("t", 1, {})
    await join(home, "t")
    await home.close()

    home = await ServicesOnDisk(tmp_path).open()
    answer = await beat(home, 3)

    assert (answer.error_code, answer.member_epoch) == (ErrorCode.none, 3)
    assert (await describe(home)).group_state == "Stable"
    assert await offsets(home) == {"t": [(0, -1)]}
    await home.close()


async def test_offsets_are_altered_and_deleted_without_members(home: ServicesOnDisk) -> None:
    """A group that does not exist is made; one with members is refused."""
    topic = await home.services.topics.create("t", 2, {})
    await home.services.groups().journal.ensure_created()
    answer = await alter(home, "t", p0=7, p1=8, p5=9)
    [row] = answer.responses
    assert row.topic_id == topic.id
    assert [each.error_code for each in row.partitions] == [
        ErrorCode.none,
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert await offsets(home) == {"t": [(0, 7), (1, 8)]}
    assert (await describe(home)).group_state == "Empty"

    asked = DeleteShareGroupOffsetsRequest(
        "g", [DeleteShareGroupOffsetsRequestTopic(name) for name in ("t", "none")]
    )
    answer = await ask(home, DELETE, asked)
    assert [(each.topic_name, each.error_code) for each in answer.responses] == [
        ("t", ErrorCode.none),
        ("none", ErrorCode.unknown_topic_or_partition),
    ]
    assert await offsets(home) == {}
    assert await offsets(home, ("t", (0,))) == {"t": [(0, -1)]}

    await join(home, "t")
    assert (await alter(home, "t", p0=1)).error_code is ErrorCode.non_empty_group
    assert (await ask(home, DELETE, asked)).error_code is ErrorCode.non_empty_group


async def test_a_queue_in_use_begins_where_it_was_altered_to(home: ServicesOnDisk) -> None:
    """A reader that is left of the last member reads the queue's state again."""
    topic = await home.services.topics.create("t", 1, {})
    await home.services.groups().journal.ensure_created()
    await alter(home, "t", p0=7)
    queues = home.services.share_partitions()
    key = ShareKey("g", topic.id, 0)
    before = await queues.open(key)

    await alter(home, "t", p0=3)

    assert not before.is_open
    assert (await queues.open(key)).queue.start_offset == 3


async def test_a_group_is_deleted_with_its_queues(home: ServicesOnDisk) -> None:
    """After its last member has left; a queue that cannot be deleted keeps the group."""
    topic = await home.services.topics.create("t", 1, {})
    await join(home, "t")
    assert await delete_group(home) is ErrorCode.non_empty_group
    await beat(home, -1)
    states = home.services.share_states()
    key = ShareKey("g", topic.id, 0)
    assert states.summary(key).state_epoch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "delete", fail)
        assert await delete_group(home) is ErrorCode.unknown_server_error
    group = home.services.groups().groups["g"]
    assert isinstance(group, HostedShareGroup)
    assert group.machine.states.deleting.keys() == {topic.id}

    assert await delete_group(home) is ErrorCode.none
    assert not states.summary(key).state_epoch
    assert "g" not in home.services.groups().groups
    assert await delete_group(home) is ErrorCode.group_id_not_found


def fail(key: ShareKey) -> None:
    """Refuse as a disk does."""
    raise UnknownServerError(f"{key} is as it was")


async def test_queues_that_cannot_be_made_are_made_later(home: ServicesOnDisk) -> None:
    """The heartbeat is answered; the next one asks again."""
    await home.services.topics.create("t", 1, {})
    states = home.services.share_states()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(states, "initialize", lambda key, *_: fail(key))
        first = await beat(home, 0, "t")
        home.clock.advance(1000)
        assert (await beat(home, first.member_epoch)).error_code is ErrorCode.none
    assert await offsets(home) == {}

    await beat(home, first.member_epoch)
    home.clock.advance(1000)

    assert (await beat(home, first.member_epoch)).assignment.topic_partitions


async def test_a_deleted_topic_leaves_the_group(home: ServicesOnDisk) -> None:
    """Its partitions are no longer the member's, and its queues no longer the group's."""
    await home.services.topics.create("t", 1, {})
    epoch = (await join(home, "t")).member_epoch
    await home.services.topics.delete(home.services.topics.topics["t"])
    home.clock.advance(1000)

    answer = await beat(home, epoch)

    assert answer.assignment.topic_partitions == ()
    machine = home.services.share_groups().get("g").machine
    assert not any(machine.states)


async def test_a_share_group_is_listed_by_state_and_type(home: ServicesOnDisk) -> None:
    """Case does not matter."""
    await home.services.topics.create("t", 1, {})
    await join(home, "t")

    for states, types in (((), ()), (("stable",), ("Share",))):
        [row] = (await ask(home, LIST, ListGroupsRequest(states, types))).groups
        assert (row.group_id, row.protocol_type, row.group_state, row.group_type) == (
            "g",
            "share",
            "Stable",
            "share",
        )
    assert not (await ask(home, LIST, ListGroupsRequest((), ("classic",)))).groups


async def test_an_empty_share_group_does_not_expire(home: ServicesOnDisk) -> None:
    """It has no offsets that could be unused; it stays until a client deletes it."""
    await home.services.topics.create("t", 1, {})
    await join(home, "t")
    await beat(home, -1)

    groups = home.services.groups()
    assert not expire_group(groups, groups.groups["g"])
    assert (await describe(home)).group_state == "Empty"
