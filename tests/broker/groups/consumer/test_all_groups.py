"""Consumer groups in the coordinator: written, read back, and taken from protocol to protocol."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from siltstone.broker.groups.classic.group import ClassicGroup
from siltstone.broker.groups.classic.messages import (
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from siltstone.broker.groups.consumer.all_groups import HostedConsumerGroup
from siltstone.broker.groups.consumer.heartbeat import HeartbeatRequest, HeartbeatResult
from siltstone.broker.groups.coordinator import GroupCoordinator
from siltstone.protocol.coordinator.consumer_protocol import decode_assignment, encode_assignment
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    GroupIdNotFound,
    IllegalGeneration,
    RebalanceInProgress,
    UnknownMemberId,
)
from siltstone.protocol.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
)
from tests.support.consumer_groups import count, subscription, with_user_data
from tests.support.services import ServicesOnDisk
from tests.support.waiting import equals, give_turns_until

AT_ONCE = {"group_consumer_assignment_interval_ms": "0", "group_initial_rebalance_delay_ms": "0"}


INCONSISTENT = JoinResult(ErrorCode.inconsistent_group_protocol, "")


class Broker:
    """Services with a topic "a" of four partitions, and members of both protocols at hand."""

    def __init__(self, root: Path, **settings: str) -> None:
        self.root = root
        self.settings = AT_ONCE | settings
        self.on_disk: ServicesOnDisk

    async def open(self) -> "Broker":
        """Start."""
        self.on_disk = ServicesOnDisk(self.root, directories=1, **self.settings)
        services = (await self.on_disk.open()).services
        if "a" not in services.topics.topics:
            await services.topics.create("a", 4, {})
        await services.groups().journal.ensure_created()
        return self

    async def reopen(self) -> None:
        """Stop and start on the same folder."""
        await self.on_disk.close()
        await self.open()

    @property
    def coordinator(self) -> GroupCoordinator:
        """The coordinator."""
        return self.on_disk.services.groups()

    @property
    def topic(self) -> UUID:
        """The id of "a"."""
        return self.on_disk.services.topics.topics["a"].id

    @property
    def group(self) -> Any:
        """The group "g", whatever it is."""
        return self.coordinator.groups["g"]

    def beat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatResult:
        """Heartbeat in the consumer protocol."""
        request = HeartbeatRequest(
            member_id=member_id, member_epoch=epoch, client_id="c", client_host="/h", **said
        )
        return self.on_disk.services.consumer_groups().heartbeat("g", request)

    def join(self, member_id: str, **said: Any) -> HeartbeatResult:
        """Join in the consumer protocol."""
        full = {"rebalance_timeout_ms": 9000, "subscribed_topic_names": ("a",), "owned": {}}
        return self.beat(member_id, 0, **full | said)

    def classic_join(self, member_id: str, **said: Any) -> list[JoinResult]:
        """Join in the classic protocol; the answer is in the list when there is one."""
        answers: list[JoinResult] = []
        values = {
            "instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "protocol_type": "consumer",
            "protocols": (("range", subscription("a")),),
            "rebalance_timeout_ms": 9000,
            "session_timeout_ms": 8000,
            "requires_known_id": False,
        }
        request = JoinRequest(**{"member_id": member_id, **values, **said})
        group = self.coordinator.find_or_create_classic("g", member_id)
        group.join(request, answers.append)
        return answers

    def sync(
        self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None
    ) -> list[SyncResult]:
        """Sync in the classic protocol."""
        answers: list[SyncResult] = []
        self.group.sync(
            SyncRequest(
                member_id=member_id,
                instance_id=None,
                generation=generation,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments or {},
            ),
            answers.append,
        )
        return answers

    def classic_member(self, **said: Any) -> str:
        """Make a stable classic group of one member that reads everything."""
        answers = self.classic_join("", **said)
        self.coordinator.timers.run_due()
        member_id = answers[0].member_id
        assigned = encode_assignment({"a": frozenset(range(4))}, 1)
        self.sync(member_id, answers[0].generation, {member_id: assigned})
        return member_id

    def partitions_of(self, member_id: str) -> set[int]:
        """Return what a member of the consumer group has."""
        return set(self.group.machine.members[member_id].current.assigned.get(self.topic, ()))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.on_disk.clock.advance(seconds * 1000)
        self.coordinator.timers.run_due()

    def fail(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the journal take nothing from now on."""

        def refuse(*_: object) -> None:
            raise CoordinatorNotAvailable

        monkeypatch.setattr(self.coordinator.journal, "append", refuse)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    """A coordinator on a folder of the test."""
    made = await Broker(tmp_path / "services").open()
    yield made
    await made.on_disk.close()


async def test_a_group_is_there_after_a_restart(broker: Broker) -> None:
    """Members, epochs, targets and their partitions; sessions begin again."""
    broker.join("m")
    broker.join("s", instance_id="i", subscribed_topic_names=(), subscribed_topic_regex="a.*")
    before = broker.group.machine
    await matched(broker, "a.*")

    await broker.reopen()

    after = broker.group.machine
    assert after is not before
    for name in ("members", "targets", "owners", "regexes", "epoch", "target_epoch", "state"):
        assert getattr(after, name) == getattr(before, name)
    assert broker.beat("m", 2).assignment is not None
    broker.advance(46)
    assert broker.group.is_empty


async def matched(broker: Broker, *regexes: str) -> None:
    """Wait until these expressions have been matched, and no others."""
    await give_turns_until(
        lambda: set(broker.group.machine.regexes),
        f"matches of {regexes} alone",
        equals(set(regexes)),
    )


async def test_expressions_are_matched_a_moment_after_the_heartbeat(broker: Broker) -> None:
    """The answer does not wait for it; the next heartbeat has what was found (epochs 1, 2)."""
    first = broker.join("m", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    await matched(broker, "a.*")
    second = broker.beat("m", 1)

    assert (first.member_epoch, first.assignment) == (1, {})
    assert second.member_epoch == 2
    assert broker.partitions_of("m") == {0, 1, 2, 3}


async def test_matches_that_cannot_be_written_are_found_again(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the next heartbeat, when the journal takes them."""
    with monkeypatch.context() as patch:
        broker.join("m", subscribed_topic_names=None, subscribed_topic_regex="a.*")
        broker.fail(patch)
        await give_turns_until(
            lambda: broker.on_disk.services.consumer_groups().matching_count,
            "no more matching",
            equals(0),
        )
    assert (broker.group.machine.regexes, broker.group.machine.epoch) == ({}, 1)
    broker.beat("m", 1)
    await matched(broker, "a.*")

    assert broker.group.machine.epoch == 2


async def test_a_deleted_group_does_not_come_back(broker: Broker) -> None:
    """Tombstones of everything that it ever wrote."""
    broker.join("m", subscribed_topic_regex="b")
    await matched(broker, "b")
    broker.beat("m", -1)
    broker.coordinator.delete(broker.group)

    await broker.reopen()

    assert broker.coordinator.groups == {}


async def test_a_heartbeat_that_cannot_be_written_changes_nothing(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a new group, not a new member, not a departure."""
    with monkeypatch.context() as patch:
        broker.fail(patch)
        with pytest.raises(CoordinatorNotAvailable):
            broker.join("m")
    assert broker.coordinator.groups == {}
    broker.join("m")
    machine = broker.group.machine
    before = (machine.epoch, dict(machine.members), dict(machine.targets))

    with monkeypatch.context() as patch:
        broker.fail(patch)
        with pytest.raises(CoordinatorNotAvailable):
            broker.join("n")
        with pytest.raises(CoordinatorNotAvailable):
            broker.beat("m", -1)
        broker.advance(46)

    assert (machine.epoch, machine.members, machine.targets) == before
    broker.advance(1)
    assert broker.group.is_empty


async def test_anybody_may_commit_to_an_empty_group(broker: Broker) -> None:
    """Tools reset offsets of a group that is not running."""
    broker.join("m")
    broker.beat("m", -1)

    broker.group.check_commit("", None, -1, 9)


async def test_an_empty_classic_group_gives_way(broker: Broker) -> None:
    """Its record goes in the same write, and stays gone."""
    broker.classic_member()
    broker.advance(9)
    assert broker.group.is_empty

    assert broker.join("m").member_epoch == 2
    await broker.reopen()

    assert isinstance(broker.group, HostedConsumerGroup)


async def test_an_empty_consumer_group_gives_way(broker: Broker) -> None:
    """A classic member finds a classic group, but not one that it was in before."""
    broker.join("m")
    broker.beat("m", -1)

    with pytest.raises(UnknownMemberId):
        broker.classic_join("m")
    broker.classic_member()
    await broker.reopen()

    assert isinstance(broker.group, ClassicGroup)


async def test_a_live_classic_group_is_taken_along(broker: Broker) -> None:
    """Its member goes on with what it has, is told to rejoin, and makes room."""
    old = broker.classic_member()

    first = broker.join("m")

    assert first.member_epoch == 2
    assert broker.partitions_of(old) == {0, 1, 2, 3}
    with pytest.raises(RebalanceInProgress):
        broker.group.heartbeat(old, None, 1)
    everything = (("range", subscription("a", owned={"a": {0, 1, 2, 3}})),)
    joined = broker.classic_join(old, protocols=everything)[0]
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.none, 1, "")
    kept = decode_assignment(broker.sync(old, 1)[0].assignment).partitions["a"]
    assert len(kept) == 2
    with pytest.raises(RebalanceInProgress):
        broker.group.heartbeat(old, None, 1)
    owned = (("range", subscription("a", owned={"a": kept})),)
    assert broker.classic_join(old, protocols=owned)[0].generation == 2
    assert decode_assignment(broker.sync(old, 2)[0].assignment).partitions["a"] == kept
    broker.group.heartbeat(old, None, 2)
    assert count(broker.beat("m", 2).assignment or {}) == 2
    assert broker.group.state == "Stable"


async def test_an_eager_member_gives_up_before_it_joins(broker: Broker) -> None:
    """It says that it owns nothing, and so gets its part at once."""
    old = broker.classic_member()
    broker.join("m")

    assert broker.classic_join(old)[0].generation == 2

    assert len(broker.partitions_of(old)) == 2
    assert count(broker.beat("m", 2).assignment or {}) == 2


async def test_a_mixed_group_is_there_after_a_restart(broker: Broker) -> None:
    """With what the classic member has said, and its own session timeout."""
    old = broker.classic_member()
    broker.join("m")
    before = broker.group.machine.members

    await broker.reopen()

    assert broker.group.machine.members == before
    broker.advance(8.1)
    assert set(broker.group.machine.members) == {"m"}
    assert old in before


async def test_parked_members_are_told_to_rejoin(broker: Broker) -> None:
    """A classic group that goes up in the middle of a rebalance answers everybody."""
    old = broker.classic_member()
    parked = broker.classic_join("")
    assert parked == []

    broker.join("m")

    assert parked[0].error is ErrorCode.rebalance_in_progress
    assert set(broker.group.machine.members) >= {old, "m"}


async def test_the_last_of_the_consumer_protocol_takes_the_group_back(broker: Broker) -> None:
    """The classic members keep what they were to have, and rebalance."""
    old = broker.classic_member()
    broker.join("m")

    answer = broker.beat("m", -1)

    assert (answer.member_id, answer.member_epoch) == ("m", -1)
    group = broker.group
    assert isinstance(group, ClassicGroup)
    assert group.state == "PreparingRebalance"
    with pytest.raises(RebalanceInProgress):
        group.heartbeat(old, None, group.generation)
    joined = broker.classic_join(old)[0]
    assert joined.leader == old
    await broker.reopen()
    assert isinstance(broker.group, ClassicGroup)
    assert old in broker.group.members.by_id


async def test_silence_takes_the_group_back_too(broker: Broker) -> None:
    """A member of the consumer protocol that is killed is missed by its session."""
    old = broker.classic_member(session_timeout_ms=300_000)
    broker.join("m")

    broker.advance(46)

    assert isinstance(broker.group, ClassicGroup)
    assert list(broker.group.members.by_id) == [old]


async def test_a_group_that_cannot_be_written_stays_what_it_is(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In both directions, and its members go on."""
    old = broker.classic_member()
    with monkeypatch.context() as patch:
        broker.fail(patch)
        with pytest.raises(CoordinatorNotAvailable):
            broker.join("m")
    broker.group.heartbeat(old, None, 1)
    broker.join("m")

    with monkeypatch.context() as patch:
        broker.fail(patch)
        with pytest.raises(CoordinatorNotAvailable):
            broker.beat("m", -1)

    assert broker.beat("m", 2).member_epoch == 2


async def test_a_static_member_changes_its_protocol(broker: Broker) -> None:
    """A rolling restart: the same instance comes back in the consumer protocol, then as before."""
    broker.classic_member(instance_id="i")
    broker.join("new", instance_id="i")
    assert set(broker.group.machine.members) == {"new"}
    assert broker.partitions_of("new") == {0, 1, 2, 3}
    broker.join("other", instance_id="j")
    broker.classic_join("", instance_id="j")

    answer = broker.classic_join("", instance_id="i")[0]

    group = broker.group
    assert isinstance(group, ClassicGroup)
    assert group.members.static["i"] == answer.member_id
    assert set(group.members.static) == {"i", "j"}


async def test_a_topic_that_was_made_again_before_the_change(broker: Broker) -> None:
    """The static member that comes back gets its partitions, although it subscribes as before."""
    broker.classic_member(instance_id="i")
    topics = broker.on_disk.services.topics
    await topics.delete(topics.topics["a"])
    await topics.create("a", 3, {})

    broker.join("new", instance_id="i")

    assert broker.partitions_of("new") == {0, 1, 2}


async def test_the_only_member_of_all_changes_its_protocol_back(broker: Broker) -> None:
    """The group is a classic one again, though nobody else stays in it."""
    broker.classic_member(instance_id="i")
    broker.join("new", instance_id="i")

    answer = broker.classic_join("", instance_id="i")[0]

    assert isinstance(broker.group, ClassicGroup)
    assert list(broker.group.members.by_id) == [answer.member_id]


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
async def test_no_way_up_by_policy(tmp_path: Path, policy: str) -> None:
    """GROUP_ID_NOT_FOUND, and the classic group goes on."""
    broker = await Broker(tmp_path, group_consumer_migration_policy=policy).open()
    old = broker.classic_member()

    with pytest.raises(GroupIdNotFound, match="disabled"):
        broker.join("m")

    broker.group.heartbeat(old, None, 1)
    await broker.on_disk.close()


async def test_no_way_down_by_policy(tmp_path: Path) -> None:
    """With "upgrade" the group stays a consumer group of classic members."""
    broker = await Broker(tmp_path, group_consumer_migration_policy="UPGRADE").open()
    old = broker.classic_member()
    broker.join("m")

    broker.beat("m", -1)

    assert isinstance(broker.group, HostedConsumerGroup)
    assert set(broker.group.machine.members) == {old}
    await broker.on_disk.close()


async def test_nobody_mixes_where_migration_is_disabled(tmp_path: Path) -> None:
    """A classic member is refused while the group has members."""
    broker = await Broker(tmp_path, group_consumer_migration_policy="disabled").open()
    broker.join("m")

    assert broker.classic_join("") == [INCONSISTENT]

    await broker.on_disk.close()


@pytest.mark.parametrize(
    "said", [{"protocol_type": "connect"}, {"protocols": ()}, {"protocols": (("range", b"junk"),)}]
)
async def test_only_consumers_join_consumers(broker: Broker, said: dict[str, Any]) -> None:
    """Workers of Connect, nothing at all, and what is no subscription are refused."""
    broker.join("m")

    assert broker.classic_join("", **said) == [INCONSISTENT]


async def test_classic_members_must_have_a_protocol_in_common(broker: Broker) -> None:
    """Those of the consumer protocol have none and do not count."""
    broker.join("m")
    broker.classic_join("")

    stranger = broker.classic_join("", protocols=(("sticky", subscription("a")),))

    assert stranger == [INCONSISTENT]


@pytest.mark.parametrize(
    ("protocol_type", "user_data"), [("connect", b""), ("consumer", b"custom")]
)
async def test_groups_that_cannot_go_up(
    broker: Broker, protocol_type: str, user_data: bytes
) -> None:
    """Other kinds of members, and assignors whose own data would be lost."""
    answers = broker.classic_join("", protocol_type=protocol_type)
    broker.coordinator.timers.run_due()
    member_id = answers[0].member_id
    assigned = with_user_data(encode_assignment({"a": frozenset({0})}, 1), user_data)
    broker.group.sync(
        SyncRequest(
            member_id=member_id,
            instance_id=None,
            generation=1,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments={member_id: assigned},
        ),
        lambda _: None,
    )

    with pytest.raises(GroupIdNotFound):
        broker.join("m")

    broker.group.heartbeat(member_id, None, 1)


async def test_who_of_the_classic_members_is_refused(broker: Broker) -> None:
    """Kafka's code for each: old generations, unknown ids, members of the other protocol."""
    old = broker.classic_member(instance_id=None)
    broker.join("m")
    group = broker.group
    refusals: list[tuple[type[KafkaError], tuple[Any, ...]]] = [
        (IllegalGeneration, (old, None, 0)),
        (UnknownMemberId, ("x", None, 2)),
        (UnknownMemberId, ("m", None, 3)),
        (UnknownMemberId, (old, "i", 1)),
    ]

    for refusal, asked in refusals:
        with pytest.raises(refusal):
            group.heartbeat(*asked)
    with pytest.raises(RebalanceInProgress):
        broker.sync(old, 1)


async def test_a_classic_member_that_does_not_rejoin_is_fenced(broker: Broker) -> None:
    """Its rebalance timeout begins when it is told to, heartbeats or not."""
    old = broker.classic_member(session_timeout_ms=300_000)
    broker.join("m")
    with pytest.raises(RebalanceInProgress):
        broker.group.heartbeat(old, None, 1)
    broker.advance(8)
    with pytest.raises(RebalanceInProgress):
        broker.group.heartbeat(old, None, 1)

    broker.advance(1.1)

    assert set(broker.group.machine.members) == {"m"}


async def test_classic_members_leave_a_mixed_group(broker: Broker) -> None:
    """Each name is answered by itself; an administrator names an instance alone."""
    broker.join("m")
    dynamic = broker.classic_join("")[0].member_id
    static = broker.classic_join("", instance_id="i")[0].member_id

    codes = broker.group.leave([(dynamic, None), ("x", None), ("", "i"), (static, "j")])

    assert codes == [
        ErrorCode.none,
        ErrorCode.unknown_member_id,
        ErrorCode.none,
        ErrorCode.unknown_member_id,
    ]
    assert set(broker.group.machine.members) == {"m"}


async def test_a_classic_member_is_given_its_id_first(broker: Broker) -> None:
    """From version 4 of JoinGroup on, as in a classic group."""
    broker.join("m")

    answer = broker.classic_join("", requires_known_id=True)[0]

    assert answer.error is ErrorCode.member_id_required
    assert broker.classic_join(answer.member_id)[0].member_id == answer.member_id


async def test_a_fenced_instance_of_the_classic_protocol(broker: Broker) -> None:
    """An instance that is another member by now is told so."""
    broker.join("m")
    first = broker.classic_join("", instance_id="i")[0].member_id
    broker.classic_join("", instance_id="i")

    with pytest.raises(FencedInstanceId):
        broker.group.heartbeat(first, "i", 1)
