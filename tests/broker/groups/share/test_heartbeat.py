"""ShareGroupHeartbeat on the state machine: joining, sharing partitions, leaving, refusals."""

from typing import Any

import pytest

from siltstone.broker.groups.share import states
from siltstone.broker.groups.share.heartbeat import HeartbeatRequest, check_request
from siltstone.protocol.coordinator.group_errors import (
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
)
from siltstone.protocol.errors import InvalidRequest
from tests.support.consumer_groups import Topics
from tests.support.share_groups import ShareGroupInHand


def test_partitions_come_once_their_queues_exist() -> None:
    """The first answer is empty; the next heartbeat raises the epoch and assigns."""
    hand = ShareGroupInHand()
    topic = hand.topics.id("a")

    first = hand.beat("m", 0, "a")
    assert (first.member_epoch, first.assignment) == (2, {})
    assert hand.starts == {(topic, each): -1 for each in range(3)}
    hand.make()
    second = hand.beat("m", 2)

    assert (second.member_epoch, second.assignment) == (3, {topic: frozenset({0, 1, 2})})
    assert hand.beat("m", 3).assignment is None
    assert hand.group.state == "Stable"


def test_members_share_a_partition() -> None:
    """Three members of one partition all get it, without waiting for one another."""
    hand = ShareGroupInHand(Topics(a=1))
    topic = hand.topics.id("a")

    for name in "mno":
        hand.join(name, "a")

    assert {each: dict(target) for each, target in hand.group.targets.items()} == {
        name: {topic: frozenset({0})} for name in "mno"
    }


def test_a_target_waits_for_its_interval() -> None:
    """Until group.share.assignment.interval.ms has passed, a new member has nothing."""
    hand = ShareGroupInHand(assignment_interval_ms=1000)
    epoch = hand.beat("m", 0, "a").member_epoch
    hand.make()

    waiting = hand.beat("m", epoch)
    assert (waiting.member_epoch, waiting.assignment) == (epoch, None)
    hand.clock.advance(1000)

    assert hand.beat("m", epoch).assignment == {hand.topics.id("a"): frozenset({0, 1, 2})}


def test_new_partitions_of_a_known_topic_begin_at_their_start() -> None:
    """Records that were produced before the members knew of them are delivered."""
    hand = ShareGroupInHand(Topics(a=1))
    epoch = hand.join("m", "a").member_epoch
    topic = hand.topics.put("a", 2)

    epoch = hand.beat("m", epoch).member_epoch
    assert hand.starts == {(topic, 1): 0}
    hand.make()

    assert hand.beat("m", epoch).assignment == {topic: frozenset({0, 1})}


def test_a_topic_that_is_made_again_begins_anew() -> None:
    """Its queues are those of another id; nothing of the old topic is left in the group."""
    hand = ShareGroupInHand(Topics(a=1))
    epoch = hand.join("m", "a").member_epoch
    old = hand.topics.id("a")
    hand.topics.drop("a")
    hand.write(lambda changes: states.forget(changes, old))
    new = hand.topics.put("a", 1)

    epoch = hand.beat("m", epoch).member_epoch
    assert hand.starts == {(new, 0): -1}
    hand.make()
    answer = hand.beat("m", epoch)

    assert answer.assignment == {new: frozenset({0})}
    assert hand.beat("m", answer.member_epoch).member_epoch == answer.member_epoch
    assert hand.group.states.initialized.keys() == {new}


def test_a_deleted_topic_that_nobody_forgot_does_not_raise_the_epoch_for_ever() -> None:
    """The broker may have stopped between the deletion and the group's record."""
    hand = ShareGroupInHand(Topics(a=1))
    epoch = hand.join("m", "a").member_epoch
    hand.topics.drop("a")
    hand.topics.put("a", 1)
    epoch = hand.beat("m", epoch).member_epoch
    hand.make()
    epoch = hand.beat("m", epoch).member_epoch

    assert hand.beat("m", epoch).member_epoch == epoch


def test_queues_are_asked_for_again_after_a_while() -> None:
    """group.share.initialize.retry.interval.ms after an attempt of which nothing was heard."""
    hand = ShareGroupInHand(Topics(a=1), initialize_retry_ms=30_000)
    topic = hand.topics.id("a")
    epoch = hand.beat("m", 0, "a").member_epoch
    hand.starts = {}

    hand.beat("m", epoch)
    assert hand.starts == {}
    hand.clock.advance(30_000)
    hand.beat("m", epoch)

    assert hand.starts == {(topic, 0): 0}


def test_queues_that_could_not_be_made_are_asked_for_at_once() -> None:
    """They are no longer noted as being made."""
    hand = ShareGroupInHand(Topics(a=1))
    epoch = hand.beat("m", 0, "a").member_epoch
    hand.make(states.give_up)
    assert not hand.group.states.initializing

    hand.beat("m", epoch)

    assert hand.starts == {(hand.topics.id("a"), 0): -1}


def test_a_member_leaves_and_the_others_go_on() -> None:
    """The epoch rises, and the last one to leave ends the assignment."""
    hand = ShareGroupInHand(Topics(a=2))
    hand.join("m", "a")
    hand.join("n", "a")
    hand.beat("m", hand.group.get("m").epoch)
    epoch = hand.group.epoch

    hand.leave("n")
    assert hand.group.epoch == epoch + 1
    known = hand.group.get("m").epoch
    assert hand.beat("m", known).assignment == {hand.topics.id("a"): frozenset({0, 1})}
    hand.leave("m")

    assert hand.group.state == "Empty"
    assert hand.group.target_epoch == hand.group.epoch


def test_a_silent_member_is_removed() -> None:
    """Its session ends after share.session.timeout.ms."""
    hand = ShareGroupInHand(session_timeout_ms=45_000)
    hand.beat("m", 0, "a")

    hand.clock.advance(45_001)
    hand.timers.run_due()

    assert hand.group.is_empty


def test_a_lost_answer_does_not_fence() -> None:
    """The epoch before the present one is taken; older and newer ones are not."""
    hand = ShareGroupInHand()
    hand.join("m", "a")
    assert hand.group.get("m").current[:2] == (3, 2)

    assert hand.beat("m", 2).member_epoch == 3
    with pytest.raises(FencedMemberEpoch, match="does not match the previous member epoch"):
        hand.beat("m", 1)
    with pytest.raises(FencedMemberEpoch, match="greater member epoch"):
        hand.beat("m", 4)


def test_a_member_that_joins_again_keeps_its_epoch() -> None:
    """Epoch 0 is a full request: the answer has the assignment."""
    hand = ShareGroupInHand()
    joined = hand.join("m", "a")

    again = hand.beat("m", 0, "a")

    assert again == joined


def test_a_group_has_a_size() -> None:
    """group.share.max.size members; those that are in stay in."""
    hand = ShareGroupInHand(max_size=1)
    epoch = hand.beat("m", 0, "a").member_epoch

    with pytest.raises(GroupMaxSizeReached, match="maximum capacity of 1 members"):
        hand.beat("n", 0, "a")
    hand.beat("m", epoch)
    assert list(hand.group.members) == ["m"]


def test_a_stranger_is_unknown() -> None:
    """It has to join first."""
    hand = ShareGroupInHand()
    hand.beat("m", 0, "a")

    with pytest.raises(UnknownMemberId, match="Member n is not a member of group g"):
        hand.beat("n", 1)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"group_id": ""}, "GroupId can't be empty."),
        ({"rack_id": ""}, "RackId can't be empty."),
        ({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request."),
        ({"subscribed_topic_names": ()}, "SubscribedTopicNames must be set in first request."),
        ({"member_epoch": -2}, "MemberEpoch is invalid."),
    ],
)
def test_what_contradicts_itself_is_refused(said: dict[str, Any], message: str) -> None:
    """In the order of Kafka's checks, with its words."""
    request = HeartbeatRequest("g", "m", 0, "client", "/host", None, ("a",))._replace(**said)

    with pytest.raises(InvalidRequest) as refusal:
        check_request(request)

    assert refusal.value.own_message == message
