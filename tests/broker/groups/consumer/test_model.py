"""Consumer groups under random lives of their members: what holds whatever happens.

Members behave as a client does: they own what they were told, give up what they are no longer
told, may be slow, silent, restarted, and may lose answers.
"""

from collections import Counter
from sys import getsizeof
from typing import Any
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.heartbeat import HeartbeatRequest, HeartbeatResult, heartbeat
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from tests.support.consumer_groups import GroupInHand, Topics, plain

SUBSCRIPTIONS: list[dict[str, Any]] = [
    {"subscribed_topic_names": ("a",)},
    {"subscribed_topic_names": ("a", "b")},
    {"subscribed_topic_names": ("b", "c")},
    {"subscribed_topic_names": (), "subscribed_topic_regex": "[ac]"},
]
LOST = (UnknownMemberId, FencedMemberEpoch, FencedInstanceId)


class Client:
    """A member as it sees itself: its epoch, and the partitions that it reads."""

    def __init__(self, name: str, said: dict[str, Any]) -> None:
        self.name = name
        self.said = said
        self.epoch = 0
        self.owned: dict[UUID, set[int]] = {}
        self.wanted: dict[UUID, set[int]] = {}

    @property
    def partitions(self) -> set[tuple[UUID, int]]:
        """The partitions that it reads."""
        return {(topic, each) for topic, partitions in self.owned.items() for each in partitions}

    def reset(self) -> None:
        """Give everything up and begin again."""
        self.epoch, self.owned, self.wanted = 0, {}, {}

    def request(self) -> dict[str, Any]:
        """Return what it says in its next heartbeat."""
        owned = {topic: frozenset(each) for topic, each in self.owned.items() if each}
        if self.epoch:
            return {"owned": owned}
        return {"owned": {}, "rebalance_timeout_ms": 60_000, **self.said}

    def hear(self, answer: HeartbeatResult) -> None:
        """Give up at once what it is no longer told; what is new it takes in its own time."""
        self.epoch = answer.member_epoch
        told = plain(answer.assignment)
        if told is not None:
            self.wanted = {topic: set(each) for topic, each in told.items()}
            self.owned = {
                topic: each & self.wanted.get(topic, set()) for topic, each in self.owned.items()
            }

    def take(self) -> None:
        """Read everything that it was told to."""
        self.owned = {topic: set(each) for topic, each in self.wanted.items()}


class Lives(RuleBasedStateMachine):
    """Members come, heartbeat, lose answers, fall silent, leave; topics come, grow and go."""

    names = st.sampled_from("mnopq")

    def __init__(self) -> None:
        super().__init__()
        self.hand = GroupInHand(Topics(a=3, b=2))
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)
        self.made = 0

    def send(self, client: Client, *, is_heard: bool = True) -> None:
        """Heartbeat once."""
        try:
            answer = self.hand.beat(client.name, client.epoch, **client.request())
        except LOST:
            client.reset()
            return
        except UnreleasedInstanceId:
            return
        if is_heard:
            client.hear(answer)
            client.take()

    @precondition(lambda self: len(self.clients) < 5)
    @rule(subscription=st.sampled_from(SUBSCRIPTIONS), is_static=st.booleans())
    def come(self, subscription: dict[str, Any], *, is_static: bool) -> None:
        """A member joins."""
        self.made += 1
        name = f"m{self.made}"
        said = subscription | ({"instance_id": f"i{self.made}"} if is_static else {})
        client = self.clients[name] = Client(name, said)
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
            instance = {k: v for k, v in client.said.items() if k == "instance_id"}
            try:
                self.hand.beat(client.name, -1, **instance)
            except LOST:
                return

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), subscription=st.sampled_from(SUBSCRIPTIONS))
    def subscribe(self, data: st.DataObject, subscription: dict[str, Any]) -> None:
        """A member changes its mind."""
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        whole = {"subscribed_topic_regex": "", **subscription}
        client.said |= whole
        if client.epoch:
            try:
                answer = self.hand.beat(client.name, client.epoch, **client.request(), **whole)
            except LOST:
                client.reset()
            else:
                client.hear(answer)

    @rule()
    def match(self) -> None:
        """Expressions are matched that a heartbeat has asked for, if one has."""
        self.hand.match()

    @rule(name=st.sampled_from("abc"), partitions=st.integers(1, 6))
    def grow(self, name: str, partitions: int) -> None:
        """A topic is made, or gets more partitions."""
        known = self.hand.topics.find(name)
        self.hand.topics.put(name, max(partitions, known.partitions if known else 0))

    @rule(name=st.sampled_from("abc"))
    def drop(self, name: str) -> None:
        """A topic is deleted."""
        if self.hand.topics.find(name):
            self.hand.topics.drop(name)

    @rule(seconds=st.sampled_from([1, 30, 50]))
    def wait(self, seconds: int) -> None:
        """Time passes; a silent member is fenced in the end, and finds out when it speaks."""
        self.hand.advance(seconds)
        for client in self.clients.values():
            if client.name not in self.hand.group.members:
                client.reset()

    @precondition(lambda self: self.clients)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        """The log does not take what a heartbeat would write: the group is as it was."""
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        before = self.hand.reload()
        changes = Changes(self.hand.group)
        request = HeartbeatRequest(
            member_id=client.name,
            member_epoch=client.epoch,
            client_id="other",
            client_host="",
            **client.request() if client.epoch else {**client.request()},
        )
        try:
            heartbeat(changes, request, self.hand.world)
        except (*LOST, UnreleasedInstanceId):
            pass
        changes.undo()
        changes.settle_all(self.hand.deadlines, self.hand.regexes)

        assert self.hand.group.members == before.members
        assert self.hand.group.owners == before.owners
        assert self.hand.group.targets == before.targets
        assert self.hand.group.regexes == before.regexes

    @invariant()
    def partitions_have_one_owner(self) -> None:
        """Nobody reads what another reads: neither by the broker's book nor by the clients'."""
        seen: dict[tuple[UUID, int], str] = {}
        for member in self.hand.group.members.values():
            for held in (member.current.assigned, member.current.revoking):
                for topic, epochs in held.items():
                    for partition in epochs:
                        assert seen.setdefault((topic, partition), member.id) == member.id
                        assert self.hand.group.owners[topic][partition] == member.id
        assert sum(map(len, self.hand.group.owners.values())) == len(seen)
        read = [each for client in self.clients.values() for each in client.partitions]
        assert len(read) == len(set(read))

    @invariant()
    def expressions_know_their_subscribers(self) -> None:
        """How many members subscribe to each is counted, whatever they do or fail to do."""
        group = self.hand.group
        counted = Counter(member.regex for member in group.members.values() if member.regex)
        assert group.subscribers == counted
        assert len(self.hand.regexes) == len(counted)

    @invariant()
    def bytes_are_those_of_members(self) -> None:
        """And of what their expressions match."""
        group = self.hand.group
        matched = sum(getsizeof(each.topics) for each in group.regexes.values())
        held = [each.current for each in group.members.values()]
        assert group.size == (
            matched
            + sum(each.size for each in group.members.values())
            + sum(
                350 + 100 * len(each)
                for all_of in group.targets.values()
                for each in all_of.values()
            )
            + sum(
                600 + 250 * len(each)
                for current in held
                for topics in (current.assigned, current.revoking)
                for each in topics.values()
            )
        )

    @invariant()
    def epochs_rise(self) -> None:
        """Those of the group and its target never fall, and no member is ahead of the target."""
        group = self.hand.group
        assert (group.epoch, group.target_epoch) >= self.epochs
        assert group.target_epoch <= group.epoch
        assert all(member.epoch <= group.target_epoch for member in group.members.values())
        self.epochs = group.epoch, group.target_epoch

    @invariant()
    def the_log_says_the_same(self) -> None:
        """A start would find the group as it is."""
        loaded = self.hand.reload()
        assert loaded.members == self.hand.group.members
        assert loaded.owners == self.hand.group.owners
        assert loaded.state == self.hand.group.state

    def teardown(self) -> None:
        """Left alone and heartbeating, everybody converges: all partitions are read, by one."""
        self.hand.advance(61)
        for client in self.clients.values():
            client.reset()
        self.hand.match()
        self.hand.advance(11)
        for _ in range(12):
            for client in self.clients.values():
                self.send(client)
                self.hand.match()
        group = self.hand.group
        assert set(group.members) == set(self.clients)
        assert group.state == ("Stable" if self.clients else "Empty")
        subscribed = group.subscribed_names(group.members.values())
        topics = [topic for name in subscribed if (topic := self.hand.topics.find(name))]
        wanted = {(topic.id, each) for topic in topics for each in range(topic.partitions)}
        read = [each for client in self.clients.values() for each in client.partitions]
        assert sorted(read) == sorted(wanted)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
