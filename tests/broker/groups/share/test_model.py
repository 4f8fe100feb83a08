"""Share groups under random lives of their members: what holds whatever happens."""

from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.broker.groups.share import states
from siltstone.broker.groups.share.assignor import MemberSpec, assign
from siltstone.broker.groups.share.changes import tombstones
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.protocol.coordinator.group_errors import FencedMemberEpoch, UnknownMemberId
from siltstone.protocol.coordinator.share_group_records import StatePartitions, decode_key
from tests.support.consumer_groups import Topics
from tests.support.share_groups import ShareGroupInHand

SUBSCRIPTIONS = [("a",), ("a", "b"), ("b", "c"), ("d",)]


class Lives(RuleBasedStateMachine):
    """Members come, heartbeat, lose answers, fall silent, leave; topics come, grow and go."""

    names = st.sampled_from("mnopq")

    def __init__(self) -> None:
        super().__init__()
        self.hand = ShareGroupInHand(Topics(a=3, b=2), assignment_interval_ms=1000)
        self.known: dict[str, int] = {}
        self.epochs = (0, 0)

    @rule(name=names, subscription=st.sampled_from(SUBSCRIPTIONS), is_heard=st.booleans())
    def join(self, name: str, subscription: tuple[str, ...], *, is_heard: bool) -> None:
        """A member joins, perhaps again."""
        answer = self.hand.beat(name, 0, *subscription)
        assert answer.assignment is not None
        if is_heard:
            self.known[name] = answer.member_epoch

    @precondition(lambda self: self.known)
    @rule(data=st.data(), is_heard=st.booleans(), subscription=st.sampled_from([(), ("b", "c")]))
    def beat(self, data: st.DataObject, *, is_heard: bool, subscription: tuple[str, ...]) -> None:
        """A member heartbeats; its answer may be lost."""
        name = data.draw(st.sampled_from(sorted(self.known)))
        try:
            answer = self.hand.beat(name, self.known[name], *subscription)
        except (FencedMemberEpoch, UnknownMemberId):
            del self.known[name]
            return
        if is_heard:
            self.known[name] = answer.member_epoch

    @precondition(lambda self: self.hand.group.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A member leaves."""
        self.hand.leave(data.draw(st.sampled_from(sorted(self.hand.group.members))))

    @precondition(lambda self: self.hand.starts)
    @rule(settle=st.sampled_from([states.complete, states.give_up]))
    def make(self, settle: Any) -> None:
        """The queues that were asked for are made, or could not be made."""
        self.hand.make(settle)

    @rule(milliseconds=st.sampled_from([1, 1000, 30_000, 46_000]))
    def wait(self, milliseconds: int) -> None:
        """Time passes; sessions end."""
        self.hand.clock.advance(milliseconds)
        self.hand.timers.run_due()

    @rule(name=st.sampled_from("abcd"), partitions=st.integers(1, 4))
    def put_topic(self, name: str, partitions: int) -> None:
        """A topic comes or grows."""
        topic = self.hand.topics.find(name)
        self.hand.topics.put(name, max(partitions, 0 if topic is None else topic.partitions))

    @rule(name=st.sampled_from("abcd"), is_forgotten=st.booleans())
    def drop_topic(self, name: str, *, is_forgotten: bool) -> None:
        """A topic is deleted; the broker may stop before the group has forgotten it."""
        topic = self.hand.topics.find(name)
        if topic is not None:
            self.hand.topics.drop(name)
            if is_forgotten:
                self.hand.write(lambda changes: states.forget(changes, topic.id))

    @precondition(lambda self: not self.hand.group.members)
    @rule(topic_ids=st.data())
    def delete_queues(self, topic_ids: st.DataObject) -> None:
        """An administrator deletes the queues of some topics, and may not come to the end."""
        known = sorted(self.hand.group.states.initialized, key=str)
        chosen = topic_ids.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
        world = self.hand.world
        self.hand.write(lambda changes: states.begin_delete(changes, chosen, world))
        if topic_ids.draw(st.booleans()):
            self.hand.write(lambda changes: states.end_delete(changes, chosen, world))

    @invariant()
    def epochs_only_rise(self) -> None:
        """Of the group and of its target; the target is never ahead, nor a member."""
        group = self.hand.group
        epochs = (group.epoch, group.target_epoch)
        assert all(before <= now for before, now in zip(self.epochs, epochs, strict=True))
        assert group.target_epoch <= group.epoch
        assert all(each.epoch <= group.target_epoch for each in group.members.values())
        self.epochs = epochs

    @invariant()
    def only_queues_are_assigned(self) -> None:
        """A target was computed of partitions with a queue, and of present members."""
        group = self.hand.group
        assert group.targets.keys() <= group.members.keys()
        for member in group.members.values():
            for topic_id, partitions in member.current.assigned.items():
                known = group.states.initialized.get(topic_id)
                gone = self.hand.topics.find_id(topic_id) is None
                assert gone or (known is not None and partitions <= known.partitions)

    @invariant()
    def the_journal_tells_the_same_group(self) -> None:
        """All that a start reads back."""
        told, group = self.hand.replayed(), self.hand.group
        assert {name: each[1:3] for name, each in told.members.items()} == {
            name: each[1:3] for name, each in group.members.items()
        }
        assert (told.epoch, told.metadata_hash, told.targets) == (
            group.epoch,
            group.metadata_hash,
            group.targets,
        )
        assert (told.target_epoch, told.target_timestamp_ms) == (
            group.target_epoch,
            group.target_timestamp_ms,
        )
        assert without_times(told.states) == without_times(group.states)
        assert (told.size, told.name_count) == (group.size, group.name_count)

    def teardown(self) -> None:
        """A quiet group comes to rest, with every partition of every topic read by somebody."""
        group = self.hand.group
        for _ in range(4):
            self.hand.make()
            self.hand.clock.advance(30_000)
            for name in list(group.members):
                self.hand.beat(name, group.get(name).epoch)
        self.hand.clock.advance(1000)
        for name in list(group.members):
            self.hand.beat(name, group.get(name).epoch)
        for topic in group.subscribed_topics(self.hand.topics):
            held = [each.current.assigned.get(topic.id, ()) for each in group.members.values()]
            assert {each for some in held for each in some} == set(range(topic.partitions))


def without_times(known: StatePartitions) -> Any:
    """Return the part of the states that a record has."""
    parts = [
        {topic: (each.name, each.partitions) for topic, each in part.items()} for part in known[:2]
    ]
    return [*parts, known.deleting]


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_tombstones_delete_all_records_of_a_group() -> None:
    """Every key that the group has written is deleted."""
    hand = ShareGroupInHand()
    hand.join("m", "a")
    hand.join("n", "a")

    deleted = {decode_key(key) for key, _ in tombstones(hand.group)}

    assert deleted == {decode_key(key) for key, _ in hand.journal}
    assert isinstance(hand.group, ShareGroup)


@given(st.data())
def test_the_assignor_is_even(data: st.DataObject) -> None:
    """Every partition has a reader, every reader a partition, and nobody far more than others."""
    topics = [UUID(int=each) for each in range(3)]
    counts = {topic: frozenset(range(data.draw(st.integers(1, 5)))) for topic in topics}
    is_alike = data.draw(st.booleans())
    one = frozenset(data.draw(st.sets(st.sampled_from(topics), min_size=1)))
    members = {}
    for number in range(data.draw(st.integers(1, 7))):
        read = (
            one if is_alike else frozenset(data.draw(st.sets(st.sampled_from(topics), min_size=1)))
        )
        target = {
            topic: frozenset(data.draw(st.sets(st.integers(0, 6))))
            for topic in data.draw(st.sets(st.sampled_from(topics)))
        }
        members[f"m{number}"] = MemberSpec(read, target)
    wanted = {
        topic: each
        for topic, each in counts.items()
        if any(topic in m.topics for m in members.values())
    }

    given_to = assign(members, wanted)

    held = {
        (topic, partition): [
            name for name, of in given_to.items() if partition in of.get(topic, ())
        ]
        for topic, partitions in wanted.items()
        for partition in partitions
    }
    assert all(held.values())
    for name, spec in members.items():
        assert given_to[name]
        assert given_to[name].keys() <= spec.topics
    if is_alike:
        sizes = [sum(map(len, each.values())) for each in given_to.values()]
        assert max(sizes) <= -(-len(held) * max(map(len, held.values())) // len(members))
