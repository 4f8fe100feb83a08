"""StreamsGroupHeartbeat on the state machine: joining, moving tasks, leaving, refusals."""

from typing import Any

import pytest

from siltstone.broker.groups.streams.heartbeat import HeartbeatRequest, check_request
from siltstone.broker.groups.streams.member import MemberState
from siltstone.broker.groups.streams.policy import RACK_TAGS, STANDBY_REPLICAS
from siltstone.broker.groups.streams.topology import StatusCode
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
)
from siltstone.protocol.coordinator.streams_group_records import Endpoint
from siltstone.protocol.errors import InvalidRequest
from tests.support.consumer_groups import Topics
from tests.support.streams_groups import COUNTING, StreamsGroupInHand, count, joined, owned

ALL = frozenset({0, 1, 2})


def codes(status: Any) -> list[StatusCode]:
    """Return the codes of a status."""
    return [each.code for each in status]


def test_the_first_member_gets_all_tasks_at_once() -> None:
    """Epoch 2, three tasks of each subtopology, and the group is stable."""
    hand = StreamsGroupInHand()

    answer = hand.join("m")

    assert answer.member_epoch == 2
    assert owned(answer.tasks)["active"] == {"0": ALL, "1": ALL}
    assert answer.status == []
    assert hand.group.state == "Stable"


def test_a_heartbeat_without_news_writes_and_tells_nothing() -> None:
    """Tasks of None are "as they were": empty ones would revoke everything."""
    hand = StreamsGroupInHand()
    hand.join("m")
    written = len(hand.journal)

    answer = hand.beat("m", 2)

    assert answer.tasks is None
    assert answer.member_epoch == 2
    assert len(hand.journal) == written


def test_tasks_move_when_their_owner_has_given_them_up() -> None:
    """The first gives up, then says so; only then the second gets them."""
    hand = StreamsGroupInHand()
    held = owned(hand.join("m").tasks)

    second = hand.join("n")
    assert (second.member_epoch, count(owned(second.tasks)["active"])) == (3, 0)
    assert hand.group.members["n"].state is MemberState.UNRELEASED_TASKS

    first = hand.beat("m", 2, **held)
    kept = owned(first.tasks)
    assert (first.member_epoch, count(kept["active"])) == (2, 3)
    assert hand.group.members["m"].state is MemberState.UNREVOKED_TASKS
    assert hand.beat("n", 3).tasks is None
    assert hand.beat("m", 2, **kept).member_epoch == 3
    assert count(owned(hand.beat("n", 3).tasks)["active"]) == 3
    assert hand.group.state == "Stable"


def test_an_active_task_has_its_epoch_from_when_it_came() -> None:
    """Commits of an older epoch are judged by it."""
    hand = StreamsGroupInHand()
    held = owned(hand.join("m").tasks)
    hand.join("n")
    kept = owned(hand.beat("m", 2, **held).tasks)
    hand.beat("m", 2, **kept)
    hand.beat("n", 3)

    epochs = {
        name: {each for some in member.current.assigned.active.values() for each in some.values()}
        for name, member in hand.group.members.items()
    }

    assert epochs == {"m": {2}, "n": {3}}


def test_standby_tasks_are_in_other_processes() -> None:
    """Only of the subtopology with a store."""
    hand = StreamsGroupInHand(standby=1)
    held = owned(hand.join("m").tasks)
    hand.join("n")
    held = owned(hand.beat("m", 2, **held).tasks)
    hand.beat("m", 2, **held)
    hand.beat("n", 3)
    hand.beat("n", 3)

    for member in hand.group.members.values():
        assigned = member.current.assigned
        assert assigned.standby == {"1": ALL - assigned.active["1"].keys()}


def test_a_standby_task_becomes_active_when_its_owner_dies() -> None:
    """It has the state already."""
    hand = StreamsGroupInHand(standby=1)
    held = owned(hand.join("m").tasks)
    hand.join("n")
    held = owned(hand.beat("m", 2, **held).tasks)
    hand.beat("m", 2, **held)
    hand.beat("n", 3)
    has = owned(hand.group.members["n"].current.assigned)

    hand.beat("m", -1)
    answer = hand.beat("n", 3, **has)

    assert owned(answer.tasks) == {"active": {"0": ALL, "1": ALL}, "standby": {}, "warmup": {}}


@pytest.mark.parametrize(
    ("topics", "code", "detail"),
    [
        (Topics(), StatusCode.MISSING_SOURCE_TOPICS, "Source topics a are missing."),
        (
            Topics(a=2),
            StatusCode.MISSING_INTERNAL_TOPICS,
            "Internal topics are missing: c, r",
        ),
        (
            Topics(a=2, r=2, c=3),
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "Existing topic c has different number of partitions: expected 2, found 3",
        ),
    ],
)
def test_without_its_topics_an_application_has_no_tasks(
    topics: Topics, code: StatusCode, detail: str
) -> None:
    """It is told why, and the group is not ready."""
    hand = StreamsGroupInHand(topics)

    answer = hand.join("m")

    assert [*answer.status] == [(code, detail)]
    assert count(owned(answer.tasks)["active"]) == 0
    assert hand.group.state == "NotReady"


def test_tasks_come_with_the_topics() -> None:
    """The next heartbeat sees that they exist."""
    hand = StreamsGroupInHand(Topics(a=2))
    answer = hand.join("m")
    assert answer.configured is not None
    for name, info in answer.configured.missing.items():
        hand.topics.put(name, info.partitions)

    answer = hand.beat("m", 2, active={}, standby={}, warmup={})

    assert answer.status == []
    assert owned(answer.tasks)["active"] == {"0": {0, 1}, "1": {0, 1}}


def test_the_first_assignment_waits_for_more_members() -> None:
    """The members are told so, and then get their tasks at once."""
    hand = StreamsGroupInHand(initial_rebalance_delay_ms=3000)

    first, second = hand.join("m"), hand.join("n")

    for answer in (first, second):
        assert codes(answer.status) == [StatusCode.ASSIGNMENT_DELAYED]
        assert count(owned(answer.tasks)["active"]) == 0
    hand.assign_first()
    for name, answer in (("m", first), ("n", second)):
        told = hand.beat(name, answer.member_epoch, active={}, standby={}, warmup={})
        assert count(owned(told.tasks)["active"]) == 3


def test_assignments_are_not_made_more_often_than_their_interval() -> None:
    """The second member waits for the rest of a second."""
    hand = StreamsGroupInHand(assignment_interval_ms=1000)
    hand.join("m")

    assert codes(hand.join("n").status) == [StatusCode.ASSIGNMENT_DELAYED]

    hand.advance(1.1)
    assert hand.beat("n", 2).status == []
    assert hand.group.target_epoch == 3


def test_a_silent_member_is_removed() -> None:
    """Its tasks are free at the end of its session."""
    hand = StreamsGroupInHand()
    hand.join("m")
    hand.advance(30)
    hand.join("n")

    hand.advance(30)

    assert [*hand.group.members] == ["n"]
    assert count(owned(hand.beat("n", 3).tasks)["active"]) == 6


def test_a_member_that_does_not_give_up_tasks_is_removed() -> None:
    """Its rebalance timeout ends, though it heartbeats."""
    hand = StreamsGroupInHand()
    held = owned(hand.join("m", rebalance_timeout_ms=5000).tasks)
    hand.join("n")
    hand.beat("m", 2, **held)

    hand.advance(6)

    assert [*hand.group.members] == ["n"]


def test_a_static_member_comes_back_to_its_tasks() -> None:
    """Its place is kept while it is away, and nobody else is assigned to."""
    hand = StreamsGroupInHand()
    held = hand.join("m", instance_id="i").tasks
    epoch = hand.group.epoch
    with pytest.raises(UnreleasedInstanceId):
        hand.join("x", instance_id="i")
    hand.beat("m", -2, instance_id="i")

    answer = hand.join("m2", process="m", instance_id="i")

    assert owned(answer.tasks) == owned(held)
    assert (hand.group.epoch, [*hand.group.members]) == (epoch, ["m2"])
    with pytest.raises(FencedInstanceId):
        hand.beat("m", 2, instance_id="i")
    with pytest.raises(UnknownMemberId):
        hand.beat("m", 2, instance_id="j")


@pytest.mark.parametrize("epoch", [3, 1])
def test_another_epoch_is_fenced(epoch: int) -> None:
    """The member has to join again."""
    hand = StreamsGroupInHand()
    hand.join("m")

    with pytest.raises(FencedMemberEpoch):
        hand.beat("m", epoch)


def test_the_epoch_before_is_served_if_the_member_has_only_what_it_was_told() -> None:
    """Its last answer was lost."""
    hand = StreamsGroupInHand()
    held = owned(hand.join("m").tasks)
    hand.join("n")
    kept = owned(hand.beat("m", 2, **held).tasks)
    hand.beat("m", 2, **kept)

    assert hand.beat("m", 2, **kept).member_epoch == 3
    with pytest.raises(FencedMemberEpoch):
        hand.beat("m", 2, **held)


def test_a_full_group_takes_nobody_else() -> None:
    """A member that it has may join again."""
    hand = StreamsGroupInHand(max_size=1)
    hand.join("m")
    hand.join("m")

    with pytest.raises(GroupMaxSizeReached):
        hand.join("n")
    assert [*hand.group.members] == ["m"]


def test_another_topology_is_refused_and_an_older_one_is_stale() -> None:
    """A refused heartbeat leaves nothing behind."""
    hand = StreamsGroupInHand()
    hand.join("m")
    written = len(hand.journal)

    for other in (COUNTING._replace(epoch=2), joined("a")):
        with pytest.raises(InvalidRequest):
            hand.join("n", topology=other)
    assert (len(hand.journal), [*hand.group.members]) == (written, ["m"])

    answer = hand.join("n", topology=COUNTING._replace(epoch=0))
    assert codes(answer.status) == [StatusCode.STALE_TOPOLOGY]


def test_the_order_of_subtopologies_does_not_matter() -> None:
    """Clients send them as they come."""
    hand = StreamsGroupInHand()
    hand.join("m")

    turned = COUNTING._replace(subtopologies=COUNTING.subtopologies[::-1])

    assert hand.join("n", topology=turned).member_epoch == 3


def test_tasks_that_do_not_exist_are_refused() -> None:
    """Neither another subtopology nor a partition too many."""
    hand = StreamsGroupInHand()
    held = owned(hand.join("m").tasks)

    for active in ({"9": frozenset({0})}, {"0": frozenset({3})}):
        with pytest.raises(InvalidRequest):
            hand.beat("m", 2, **(held | {"active": active}))


def test_a_shutdown_is_told_to_all_until_the_group_is_empty() -> None:
    """One member has met an error that no other can mend."""
    hand = StreamsGroupInHand()
    hand.join("m")
    hand.join("n")

    hand.beat("m", 2, shuts_down=True)

    assert codes(hand.beat("n", 3).status) == [StatusCode.SHUTDOWN_APPLICATION]
    hand.beat("m", -1)
    hand.beat("n", -1)
    assert hand.join("n").status == []


def test_changed_settings_raise_the_epoch() -> None:
    """More standby tasks are assigned at the next heartbeat, not at the next change of members."""
    hand = StreamsGroupInHand()
    hand.join("m")
    hand.policy = hand.policy.__class__(configs={STANDBY_REPLICAS: "1"}, assignment_interval_ms=0)

    hand.beat("m", 2)

    assert hand.group.epoch == 3


def test_missing_tags_are_told_to_clients_that_know_of_them() -> None:
    """Version 0 has no such status."""
    configs = {STANDBY_REPLICAS: "0", RACK_TAGS: "zone,cluster"}
    hand = StreamsGroupInHand(configs=configs)

    assert codes(hand.join("m").status) == [StatusCode.MISSING_CLIENT_TAGS]
    assert hand.beat("m", 2, knows_tags=False).status == []


def test_endpoints_are_told_with_their_partitions() -> None:
    """Every member learns where each task is, and only when that has changed."""
    hand = StreamsGroupInHand()
    hand.join("m", user_endpoint=Endpoint("h", 1))
    answer = hand.join("n", user_endpoint=Endpoint("h", 2))

    assert answer.endpoints is not None
    assert [(each.endpoint.port, each.active) for each in answer.endpoints] == [
        (1, [("a", [0, 1, 2]), ("r", [0, 1, 2])]),
        (2, []),
    ]
    assert hand.beat("n", 3, endpoint_epoch=answer.endpoint_epoch).endpoints is None


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"member_epoch": -3}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": 0}, "RebalanceTimeoutMs must be provided in first request."),
        ({"active": {}}, "If one task-type is non-null, all must be non-null."),
        ({"topology": COUNTING}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(said: dict[str, Any], sentence: str) -> None:
    """In Kafka's words."""
    request = HeartbeatRequest("m", 2, "c", "/h")._replace(**said)

    with pytest.raises(InvalidRequest) as refused:
        check_request(request, "g")
    assert refused.value.own_message == sentence
