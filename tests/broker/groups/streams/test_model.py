"""Streams groups under random lives of their members: what holds whatever happens.

Members behave as a client does: they have what they were told, close what they are no longer told,
may be slow, silent, restarted, and may lose answers.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.broker.groups.streams.assignor import TaskId
from siltstone.broker.groups.streams.group import task_ids
from siltstone.broker.groups.streams.heartbeat import HeartbeatResult
from siltstone.broker.groups.streams.policy import STANDBY_REPLICAS
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tests.support.consumer_groups import Topics
from tests.support.streams_groups import StreamsGroupInHand, owned

LOST = (UnknownMemberId, FencedMemberEpoch, FencedInstanceId)
NOTHING: dict[str, Any] = {"active": {}, "standby": {}, "warmup": {}}


class Client:
    """A member as it sees itself: its epoch, and the tasks that it runs."""

    def __init__(self, name: str, process: str, said: dict[str, Any]) -> None:
        self.name = name
        self.process = process
        self.said = said
        self.epoch = 0
        self.has = NOTHING

    def hear(self, answer: HeartbeatResult) -> None:
        """Do what it was told."""
        self.epoch = answer.member_epoch
        if answer.tasks is not None:
            self.has = owned(answer.tasks)

    def reset(self) -> None:
        """Close everything and begin again."""
        self.epoch, self.has = 0, NOTHING


class Lives(RuleBasedStateMachine):
    """Members come, heartbeat, lose answers, fall silent, leave; topics and settings change."""

    def __init__(self) -> None:
        super().__init__()
        self.hand = StreamsGroupInHand(Topics(a=3))
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)
        self.made = 0

    def send(self, client: Client, *, is_heard: bool = True) -> None:
        """Heartbeat once; the broker makes the topics that are missing."""
        try:
            if client.epoch:
                answer = self.hand.beat(client.name, client.epoch, **client.has)
            else:
                answer = self.hand.join(client.name, client.process, **client.said)
        except LOST:
            client.reset()
            return
        except UnreleasedInstanceId:
            return
        if answer.configured is not None:
            for name, info in answer.configured.missing.items():
                self.hand.topics.put(name, info.partitions)
        if is_heard:
            client.hear(answer)

    @precondition(lambda self: len(self.clients) < 5)
    @rule(process=st.sampled_from("pqr"), is_static=st.booleans())
    def come(self, process: str, *, is_static: bool) -> None:
        """A member joins."""
        self.made += 1
        name = f"m{self.made}"
        said = {"instance_id": f"i{self.made}"} if is_static else {}
        client = self.clients[name] = Client(name, process, said)
        self.send(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), is_heard=st.booleans())
    def beat(self, data: st.DataObject, *, is_heard: bool) -> None:
        """A member heartbeats; its answer may be lost."""
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        self.send(client, is_heard=is_heard)

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A member leaves for good, or is killed and never heard of again."""
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        if data.draw(st.booleans()) and client.epoch:
            try:
                self.hand.beat(client.name, -1, **client.said)
            except LOST:
                return

    @precondition(lambda self: any(each.said for each in self.clients.values()))
    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        """A static member comes back under another id."""
        static = sorted(name for name, each in self.clients.items() if each.said)
        client = self.clients.pop(data.draw(st.sampled_from(static)))
        if client.epoch:
            try:
                self.hand.beat(client.name, -2, **client.said)
            except LOST:
                return
        self.made += 1
        again = Client(f"m{self.made}", client.process, client.said)
        self.clients[again.name] = again
        self.send(again)

    @rule(replicas=st.sampled_from("012"))
    def want(self, replicas: str) -> None:
        """Other settings of the group."""
        configs = {STANDBY_REPLICAS: replicas}
        self.hand.policy = self.hand.policy.__class__(
            configs=configs, assignment_interval_ms=0, initial_rebalance_delay_ms=0
        )

    @rule(seconds=st.sampled_from([1, 20, 46]))
    def wait(self, seconds: int) -> None:
        """Time passes: the silent are removed."""
        self.hand.advance(seconds)

    @rule()
    def calm(self) -> None:
        """All heartbeat until nothing moves: then each has its target, and every task has one."""
        group = self.hand.group
        for _ in range(12):
            for client in list(self.clients.values()):
                self.send(client)
        self.hand.advance(46)
        for _ in range(12):
            for client in list(self.clients.values()):
                self.send(client)
        if not group.members:
            return
        assert group.state == "Stable"
        found = Counter(
            task
            for member in group.members.values()
            for task in task_ids(member.current.assigned.active)
        )
        assert found == {TaskId(name, each): 1 for name in "01" for each in range(3)}
        for client in self.clients.values():
            held = group.members[client.name].current.assigned
            assert client.has == owned(held)

    @invariant()
    def a_process_has_a_task_once(self) -> None:
        """And an active task is with one member, which may have yet to close it."""
        owners: Counter[TaskId] = Counter()
        copies: Counter[tuple[str, TaskId]] = Counter()
        for member in self.hand.group.members.values():
            for held in (member.current.assigned, member.current.revoking):
                owners.update(task_ids(held.active))
            for role in member.current.assigned:
                copies.update((member.process_id, task) for task in task_ids(role))
        assert set(owners.values()) <= {1}
        assert set(copies.values()) <= {1}

    @invariant()
    def epochs_only_rise(self) -> None:
        """The group's, and that of its target, which is never ahead."""
        group = self.hand.group
        now = group.epoch, group.target_epoch
        assert all(before <= after for before, after in zip(self.epochs, now, strict=True))
        assert group.target_epoch <= group.epoch
        self.epochs = now

    @invariant()
    def a_start_reads_the_same_group(self) -> None:
        """Only what records have is compared."""
        group, loaded = self.hand.group, self.hand.reload()
        for name in (
            "metadata", "target", "topology", "members", "static_members", "targets", "owners",
            "standby", "warmup", "state",
        ):  # fmt: skip
            assert getattr(loaded, name) == getattr(group, name), name
        offsets = sum(sum(map(len, each)) for each in group.offsets.values())
        assert not offsets
        assert loaded.size == group.size


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
