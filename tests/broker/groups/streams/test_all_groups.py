"""Streams groups in the coordinator: written, read back, and beside groups of other kinds."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.classic.messages import JoinRequest, JoinResult
from siltstone.broker.groups.consumer.heartbeat import HeartbeatRequest as ConsumerHeartbeat
from siltstone.broker.groups.streams.all_groups import HostedStreamsGroup
from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.heartbeat import HeartbeatRequest, HeartbeatResult
from siltstone.protocol.coordinator.group_errors import (
    GroupIdNotFound,
    NonEmptyGroup,
    StaleMemberEpoch,
    UnknownMemberId,
)
from siltstone.protocol.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    UnsupportedVersion,
)
from siltstone.protocol.messages import streams_group_describe, streams_group_heartbeat
from tests.support.ask import ask
from tests.support.services import ServicesOnDisk
from tests.support.streams_groups import COUNTING, count, owned

QUICK = {
    "group_streams_assignment_interval_ms": "0",
    "group_streams_initial_rebalance_delay_ms": "0",
    "group_streams_min_session_timeout_ms": "1",
}
JOINING: dict[str, Any] = {
    "rebalance_timeout_ms": 9000, "topology": COUNTING, "process_id": "p",
    "active": {}, "standby": {}, "warmup": {},
}  # fmt: skip


class Broker:
    """Services with the topics of an application, whose members are at hand."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root = root
        self.settings = QUICK | settings
        self.on_disk: ServicesOnDisk

    async def open(self) -> "Broker":
        """Start."""
        self.on_disk = ServicesOnDisk(self.root, directories=1, **self.settings)
        services = (await self.on_disk.open()).services
        for name in ("a", "r", "c"):
            if name not in services.topics.topics:
                await services.topics.create(name, 3, {})
        await services.groups().journal.ensure_created()
        return self

    async def reopen(self) -> None:
        """Stop and start on the same folder."""
        await self.on_disk.close()
        await self.open()

    @property
    def coordinator(self) -> Any:
        """The coordinator."""
        return self.on_disk.services.groups()

    @property
    def group(self) -> Any:
        """The group "g", whatever it is."""
        return self.coordinator.groups["g"]

    def beat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatResult:
        """Send a heartbeat."""
        request = HeartbeatRequest(member_id, epoch, "c", "/h", **said)
        return self.on_disk.services.streams_groups().heartbeat("g", request)

    def join(self, member_id: str, **said: Any) -> HeartbeatResult:
        """Join."""
        return self.beat(member_id, 0, **JOINING | said)

    def join_classic(self) -> list[JoinResult]:
        """Join in the classic protocol, and return the answer if it is known."""
        request = JoinRequest(
            member_id="",
            instance_id=None,
            client_id="c",
            client_host="/h",
            protocol_type="consumer",
            protocols=(("range", b""),),
            rebalance_timeout_ms=9000,
            session_timeout_ms=10_000,
            requires_known_id=False,
        )
        told: list[JoinResult] = []
        group = self.coordinator.find_or_create_classic("g", "")
        group.join(request, told.append)
        return told


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A broker without groups."""
    made = await Broker(tmp_path).open()
    yield made
    await made.on_disk.close()


async def test_a_start_reads_a_group_back(broker: Broker) -> None:
    """Members go on with their tasks and their epochs."""
    held = owned(broker.join("m").tasks)
    broker.join("n", process_id="q")
    broker.beat("m", 2, **held)
    before = broker.group.machine

    await broker.reopen()

    after = broker.group.machine
    for name in ("metadata", "target", "topology", "members", "targets", "owners", "state"):
        assert getattr(after, name) == getattr(before, name)
    kept = owned(after.members["m"].current.assigned)
    assert broker.beat("m", 2, **kept).member_epoch == 3


async def test_an_empty_classic_group_becomes_one_of_streams_and_back(broker: Broker) -> None:
    """Its offsets stay; a group with members stays what it is."""
    broker.join_classic()
    with pytest.raises(GroupIdNotFound):
        broker.join("m")
    broker.coordinator.delete(broker.group)

    broker.coordinator.add_classic("g")
    broker.join("m")
    assert isinstance(broker.group, HostedStreamsGroup)
    assert broker.join_classic() == [JoinResult(ErrorCode.inconsistent_group_protocol, "")]

    broker.beat("m", -1)
    broker.join_classic()
    assert isinstance(broker.group, ClassicGroup)
    await broker.reopen()
    assert isinstance(broker.group, ClassicGroup)


async def test_members_of_the_consumer_protocol_are_refused(broker: Broker) -> None:
    """They would replace the group otherwise."""
    broker.join("m")
    request = ConsumerHeartbeat(
        *("c", 0, "c", "/h"),
        rebalance_timeout_ms=9000,
        subscribed_topic_names=("a",),
        owned={},
    )

    with pytest.raises(GroupIdNotFound):
        broker.on_disk.services.consumer_groups().heartbeat("g", request)
    assert isinstance(broker.group, HostedStreamsGroup)


async def test_only_an_empty_group_is_deleted(broker: Broker) -> None:
    """Nothing of it comes back at a start."""
    broker.join("m")
    with pytest.raises(NonEmptyGroup):
        broker.group.check_delete()
    broker.beat("m", -1)

    broker.coordinator.delete(broker.group)
    await broker.reopen()

    assert "g" not in broker.coordinator.groups


async def test_a_silent_member_is_removed(tmp_path: Path) -> None:
    """And that is written."""
    broker = await Broker(tmp_path, group_streams_session_timeout_ms="5001").open()
    broker.join("m")
    broker.on_disk.clock.advance(6000)

    await broker.coordinator.fire_timers()
    await broker.reopen()

    assert broker.group.state == "Empty"
    await broker.on_disk.close()


async def test_the_first_assignment_comes_after_its_delay(tmp_path: Path) -> None:
    """Without a heartbeat in between."""
    settings = {"group_streams_initial_rebalance_delay_ms": "3000"}
    broker = await Broker(tmp_path, **settings).open()
    first = broker.join("m")
    assert count(owned(first.tasks)["active"]) == 0
    broker.beat("m", first.member_epoch)
    broker.on_disk.clock.advance(3001)

    await broker.coordinator.fire_timers()

    told = broker.beat("m", first.member_epoch, active={}, standby={}, warmup={})
    assert count(owned(told.tasks)["active"]) == 6
    await broker.on_disk.close()


async def test_what_the_journal_does_not_take_has_not_happened(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for a group that exists nor for a new one."""
    broker.join("m")
    before = dict(broker.group.machine.members)

    def refuse(*_: object) -> None:
        raise CoordinatorNotAvailable

    with monkeypatch.context() as patched:
        patched.setattr(broker.coordinator.journal, "append", refuse)
        with pytest.raises(CoordinatorNotAvailable):
            broker.join("n")
        assert broker.group.machine.members == before

    assert broker.beat("m", 2).member_epoch == 2


async def test_offsets_of_tasks_have_a_limit(tmp_path: Path) -> None:
    """They are kept for as long as their member, so that they count as its bytes."""
    broker = await Broker(tmp_path, group_members_max_bytes="100000").open()
    broker.join("m")
    few = {TaskId("1", 0): 5}
    broker.beat("m", 2, offsets=few)

    with pytest.raises(CoordinatorLoadInProgress):
        broker.beat("m", 2, offsets={TaskId("1", number): 5 for number in range(1000)})

    assert broker.group.machine.offsets == {"m": (few, {})}
    broker.beat("m", -1)
    assert broker.group.machine.offsets == {}
    await broker.on_disk.close()


async def test_members_commit_with_their_epochs(broker: Broker) -> None:
    """An older epoch will do for a task that the member had in it."""
    held = owned(broker.join("m").tasks)
    group = broker.group
    group.check_commit("m", None, 2, 9)
    with pytest.raises(UnsupportedVersion):
        group.check_commit("m", None, 2, 8)
    with pytest.raises(StaleMemberEpoch):
        group.check_commit("m", None, 3, 9)
    with pytest.raises(UnknownMemberId):
        group.check_commit("", None, -1, 9)
    broker.join("n", process_id="q")
    kept = owned(broker.beat("m", 2, **held).tasks)
    assert broker.beat("m", 2, **kept).member_epoch == 3

    check = group.find_partition_check("m", 2)

    assert check is not None
    for partition in range(3):
        if partition in kept["active"].get("0", ()):
            check("a", None, partition)
        else:
            with pytest.raises(StaleMemberEpoch):
                check("a", None, partition)
    with pytest.raises(StaleMemberEpoch):
        check("other", None, 0)


async def test_the_broker_makes_the_topics_of_an_application(tmp_path: Path) -> None:
    """With the settings that it asks for; the next heartbeat gets the tasks."""
    home = ServicesOnDisk(tmp_path, directories=1, **QUICK)
    services = (await home.open()).services
    await services.topics.create("a", 3, {})
    await services.groups().journal.ensure_created()
    beat = streams_group_heartbeat
    configs = [beat.KeyValue("cleanup.policy", "compact")]
    topology = beat.Topology(1, [
        beat.Subtopology("0", ["a"], repartition_sink_topics=["r"]),
        beat.Subtopology(
            "1",
            state_changelog_topics=[beat.TopicInfo("c", topic_configs=configs)],
            repartition_source_topics=[beat.TopicInfo("r")],
        ),
    ])  # fmt: skip
    request = beat.StreamsGroupHeartbeatRequest(
        "g", "m", rebalance_timeout_ms=9000, topology=topology, active_tasks=[], standby_tasks=[],
        warmup_tasks=[], process_id="p",
    )  # fmt: skip

    first = await ask(home, 88, request)
    second = await ask(home, 88, request._replace(member_epoch=2, topology=None))
    [described] = (
        await ask(home, 89, streams_group_describe.StreamsGroupDescribeRequest(["g"]))
    ).groups

    assert [each.status_code for each in first.status] == [3]
    assert [services.topics.topics[name].partitions for name in ("r", "c")] == [3, 3]
    assert services.topics.topics["c"].overrides == {"cleanup.policy": "compact"}
    assert [(each.subtopology_id, each.partitions) for each in second.active_tasks] == [
        ("0", [0, 1, 2]),
        ("1", [0, 1, 2]),
    ]
    assert (described.group_state, described.assignor_name) == ("Stable", "sticky")
    assert [each.subtopology_id for each in described.topology.subtopologies] == ["0", "1"]
    await home.close()
