"""ConsumerGroupHeartbeat on the state machine: joining, moving partitions, leaving, refusals."""

from typing import Any

import pytest

from siltstone.broker.groups.consumer.heartbeat import HeartbeatRequest, check_request
from siltstone.broker.groups.consumer.member import MemberState
from siltstone.broker.groups.deadlines import Deadline
from siltstone.protocol.coordinator.consumer_group_records import (
    ConsumerGroupKey,
    LegacyPartitionMetadata,
    RecordType,
)
from siltstone.protocol.coordinator.group_errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupMaxSizeReached,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from siltstone.protocol.errors import InvalidRegularExpression, InvalidRequest, KafkaError
from tests.support.consumer_groups import GroupInHand, Topics, count, plain


def test_the_first_member_gets_everything_at_once() -> None:
    """Epoch 2, all partitions, and the group is stable."""
    hand = GroupInHand()

    answer = hand.join("m")

    assert answer.member_epoch == 2
    assert answer.heartbeat_interval_ms == 5000
    assert plain(answer.assignment) == {hand.topics.id("a"): {0, 1, 2}}
    assert hand.group.state == "Stable"


def test_a_heartbeat_without_news_writes_and_tells_nothing() -> None:
    """An assignment of None is "as it was": an empty one would revoke everything."""
    hand = GroupInHand()
    hand.join("m")
    written = len(hand.journal)

    answer = hand.beat("m", 2)

    assert answer.assignment is None
    assert answer.member_epoch == 2
    assert len(hand.journal) == written


def test_a_full_request_is_told_everything() -> None:
    """A client that had an error says all it knows, and learns all there is."""
    hand = GroupInHand()
    owned = plain(hand.join("m").assignment)

    answer = hand.beat(
        "m", 2, rebalance_timeout_ms=60_000, subscribed_topic_names=("a",), owned=owned
    )

    assert plain(answer.assignment) == owned


def test_partitions_move_when_their_owner_has_given_them_up() -> None:
    """The first gives up, then says so; only then the second gets them."""
    hand = GroupInHand(Topics(a=4))
    topic = hand.topics.id("a")
    hand.join("m")

    second = hand.join("n")
    assert (second.member_epoch, plain(second.assignment)) == (3, {})
    assert hand.group.members["n"].state is MemberState.UNRELEASED_PARTITIONS

    first = hand.beat("m", 2)
    assert first.member_epoch == 2
    kept = plain(first.assignment)
    assert kept is not None
    assert count(kept) == 2
    assert hand.beat("n", 3).assignment is None
    assert hand.group.state == "Reconciling"

    assert hand.beat("m", 2, owned=kept).member_epoch == 3
    got = plain(hand.beat("n", 3).assignment)
    assert got is not None
    assert got[topic] | kept[topic] == {0, 1, 2, 3}
    assert hand.group.state == "Stable"


def test_a_member_that_keeps_its_partitions_is_fenced_in_time() -> None:
    """Its rebalance timeout runs from when it was told to give them up."""
    hand = GroupInHand()
    hand.join("m", rebalance_timeout_ms=10_000)
    hand.join("n")
    hand.beat("m", 2)

    hand.advance(9.9)
    assert hand.fenced == []
    hand.advance(0.2)

    assert hand.fenced == [("m", Deadline.REBALANCE)]
    assert set(hand.group.members) == {"n"}
    assert count(plain(hand.beat("n", 3).assignment) or {}) == 3


def test_a_silent_member_is_fenced_when_its_session_ends() -> None:
    """Every heartbeat begins the session again."""
    hand = GroupInHand()
    hand.join("m")
    hand.advance(44)
    hand.beat("m", 2)
    hand.advance(44)
    assert hand.group.members

    hand.advance(2)

    assert hand.fenced == [("m", Deadline.SESSION)]
    assert hand.group.state == "Empty"
    with pytest.raises(UnknownMemberId):
        hand.beat("m", 2)


def test_a_member_that_leaves_frees_its_partitions() -> None:
    """Epoch -1 is answered with itself; the others get what is free with their next heartbeat."""
    hand = GroupInHand()
    hand.join("m")
    hand.join("n")

    answer = hand.beat("m", -1)

    assert (answer.member_id, answer.member_epoch) == ("m", -1)
    assert count(plain(hand.beat("n", 3).assignment) or {}) == 3
    assert hand.group.owners[hand.topics.id("a")] == dict.fromkeys(range(3), "n")


def test_a_lost_answer_is_no_reason_to_be_fenced() -> None:
    """The epoch before is accepted from a member that owns no more than it was given."""
    hand = GroupInHand()
    hand.join("m")
    hand.topics.put("a", 5)
    assert hand.beat("m", 2).member_epoch == 3

    again = hand.beat("m", 2, owned={hand.topics.id("a"): frozenset({0, 1})})

    assert again.member_epoch == 3
    with pytest.raises(FencedMemberEpoch):
        hand.beat("m", 2, owned={hand.topics.id("a"): frozenset({9})})
    with pytest.raises(FencedMemberEpoch):
        hand.beat("m", 2)


def test_joining_again_is_always_possible() -> None:
    """A fenced member comes back with epoch 0 and is told all that is its."""
    hand = GroupInHand()
    hand.join("m")

    again = hand.join("m")

    assert again.member_epoch == 2
    assert count(plain(again.assignment) or {}) == 3


@pytest.mark.parametrize(
    ("member", "epoch", "said", "refusal"),
    [
        ("m", 3, {}, FencedMemberEpoch),
        ("x", 1, {}, UnknownMemberId),
        ("x", -1, {}, UnknownMemberId),
        ("x", -2, {"instance_id": "j"}, UnknownMemberId),
        ("x", 1, {"instance_id": "i"}, FencedInstanceId),
        ("x", -1, {"instance_id": "i"}, FencedInstanceId),
        ("s", 1, {"instance_id": "j"}, UnknownMemberId),
    ],
)
def test_who_is_refused(
    member: str, epoch: int, said: dict[str, Any], refusal: type[KafkaError]
) -> None:
    """Kafka's code for each, and nothing is written."""
    hand = GroupInHand()
    hand.join("m")
    hand.join("s", instance_id="i")
    written = len(hand.journal)

    with pytest.raises(refusal):
        hand.beat(member, epoch, **said)

    assert len(hand.journal) == written


FIRST = {"rebalance_timeout_ms": 1, "subscribed_topic_names": (), "owned": {}}


@pytest.mark.parametrize(
    ("said", "refusal"),
    [
        ({"member_epoch": -3}, InvalidRequest),
        ({"member_epoch": -2}, InvalidRequest),
        ({"member_epoch": 1, "member_id": ""}, InvalidRequest),
        ({"member_epoch": -1, "member_id": " "}, InvalidRequest),
        ({"member_epoch": 1, "instance_id": ""}, InvalidRequest),
        ({"member_epoch": 1, "rack_id": ""}, InvalidRequest),
        ({"member_epoch": 1, "server_assignor": "sticky"}, UnsupportedAssignor),
        ({"member_epoch": 0, **FIRST, "rebalance_timeout_ms": -1}, InvalidRequest),
        ({"member_epoch": 0, **FIRST, "owned": None}, InvalidRequest),
        ({"member_epoch": 0, **FIRST, "owned": {1: {0}}}, InvalidRequest),
        ({"member_epoch": 0, **FIRST, "subscribed_topic_names": None}, InvalidRequest),
        ({"member_epoch": 0, **FIRST, "subscribed_topic_names": None,
          "subscribed_topic_regex": ""}, None),
        ({"member_epoch": 0, **FIRST}, None),
        ({"member_epoch": 0, **FIRST, "member_id": ""}, None),
        ({"member_epoch": -2, "instance_id": "i"}, None),
        ({"member_epoch": 7}, None),
    ],
)  # fmt: skip
def test_requests_that_contradict_themselves(
    said: dict[str, Any], refusal: type[KafkaError] | None
) -> None:
    """A member must say some things when it joins, and nobody may say others."""
    request = HeartbeatRequest(**{"member_id": "m", "client_id": "", "client_host": ""} | said)

    if refusal is None:
        check_request(request, ("uniform", "range"), needs_member_id=False)
    else:
        with pytest.raises(refusal):
            check_request(request, ("uniform", "range"), needs_member_id=False)


def test_members_bring_their_ids_from_version_one_on() -> None:
    """Version 0 may leave it to the coordinator."""
    request = HeartbeatRequest(member_id="", member_epoch=0, client_id="", client_host="", **FIRST)  # type: ignore[arg-type]

    with pytest.raises(InvalidRequest):
        check_request(request, ("uniform",), needs_member_id=True)


def test_a_full_group_takes_only_its_own() -> None:
    """group.consumer.max.size counts members, and none of them is thrown out."""
    hand = GroupInHand(max_size=1)
    hand.join("m")

    with pytest.raises(GroupMaxSizeReached):
        hand.join("n")

    assert hand.join("m").member_epoch == 2


def test_a_static_member_comes_back_to_its_partitions() -> None:
    """It leaves with -2, nobody else gets them, and it has them under a new member id."""
    hand = GroupInHand()
    hand.join("m")
    hand.join("s", instance_id="i")
    kept = plain(hand.beat("m", 2).assignment)
    hand.beat("m", 2, owned=kept)
    before = plain(hand.beat("s", 3, instance_id="i").assignment)
    epoch = hand.group.epoch

    left = hand.beat("s", -2, instance_id="i")
    assert (left.member_id, left.member_epoch) == ("s", -2)
    again = hand.join("t", instance_id="i")

    assert plain(again.assignment) == before
    assert count(before or {}) == 1
    assert hand.group.epoch == epoch
    assert set(hand.group.members) == {"t", "m"}
    with pytest.raises(FencedInstanceId):
        hand.beat("s", 2, instance_id="i")


def test_a_static_member_may_come_back_under_the_same_id() -> None:
    """A client keeps its member id for as long as its process lives."""
    hand = GroupInHand()
    before = hand.join("s", instance_id="i").assignment
    hand.beat("s", -2, instance_id="i")

    again = hand.join("s", instance_id="i")

    assert plain(again.assignment) == plain(before)
    assert hand.reload().members == hand.group.members


def test_an_instance_that_is_there_is_not_given_away() -> None:
    """Only one that has left, or lost its session, can be taken over."""
    hand = GroupInHand()
    hand.join("s", instance_id="i")

    with pytest.raises(UnreleasedInstanceId):
        hand.join("t", instance_id="i")


def test_a_static_member_that_stays_away_is_fenced() -> None:
    """Its session goes on running while it is away."""
    hand = GroupInHand()
    hand.join("s", instance_id="i")
    hand.beat("s", -2, instance_id="i")

    hand.advance(46)

    assert hand.group.state == "Empty"
    assert hand.group.static_members == {}


def test_topics_that_come_grow_and_go_are_followed() -> None:
    """With the next heartbeat of anyone; the epoch rises by one for each change."""
    hand = GroupInHand(Topics())
    assert plain(hand.join("m", "a").assignment) == {}

    topic = hand.topics.put("a", 1)
    assert plain(hand.beat("m", 2).assignment) == {topic: {0}}
    hand.topics.put("a", 2)
    assert plain(hand.beat("m", 3).assignment) == {topic: {0, 1}}
    hand.topics.put("other", 1)
    assert hand.beat("m", 4).assignment is None
    hand.topics.drop("a")
    assert plain(hand.beat("m", 4).assignment) == {}

    assert hand.beat("m", 4, owned={}).member_epoch == 5
    assert hand.group.owners == {}


def test_a_topic_that_is_made_anew_is_another_topic() -> None:
    """Same name, same partitions, another id: all of it is assigned again."""
    hand = GroupInHand()
    old = plain(hand.join("m").assignment)
    hand.topics.drop("a")
    new = hand.topics.put("a", 3)

    assert plain(hand.beat("m", 2, owned=old).assignment) == {}
    assert plain(hand.beat("m", 2, owned={}).assignment) == {new: {0, 1, 2}}


def test_a_changed_subscription_takes_effect_at_once() -> None:
    """Topics that are not subscribed to any more are given up although the target is not new."""
    hand = GroupInHand(Topics(a=1, b=1), assignment_interval_ms=1000)
    owned = plain(hand.join("m", "a", "b").assignment)

    answer = hand.beat("m", 2, subscribed_topic_names=("b",), owned=owned)

    assert plain(answer.assignment) == {hand.topics.id("b"): {0}}
    assert hand.group.target_epoch == 2
    assert hand.group.state == "Assigning"


def test_a_wave_of_members_is_assigned_once() -> None:
    """KIP-1263: a target is kept for the assignment interval, then the next heartbeat moves it."""
    hand = GroupInHand(assignment_interval_ms=1000)
    hand.join("m")
    hand.advance(0.5)
    assert (hand.join("n").member_epoch, hand.join("o").member_epoch) == (2, 2)
    assert hand.group.epoch == 4
    assert hand.group.target_epoch == 2

    hand.advance(0.5)
    hand.beat("n", 2)

    assert hand.group.target_epoch == 4
    assert {count(each) for each in hand.group.targets.values()} == {1}


def test_the_assignor_that_most_ask_for_is_taken() -> None:
    """One vote each; a member that does not ask has no vote."""
    hand = GroupInHand(Topics(a=3, b=3))
    hand.join("m", "a", "b", server_assignor="range")
    hand.join("n", "a", "b")

    targets = hand.group.targets["m"]

    assert targets == {hand.topics.id("a"): {0, 1}, hand.topics.id("b"): {0, 1}}


def test_an_expression_subscribes_to_what_it_matches() -> None:
    """The whole name has to match; that is found out after the heartbeat, and the next has it."""
    hand = GroupInHand(Topics(a1=1, a2=1, ba1=1))
    first = hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    assert (first.member_epoch, plain(first.assignment), hand.group.epoch) == (1, {}, 1)

    hand.match()
    assert (hand.group.epoch, hand.group.target_epoch) == (2, 1)
    second = hand.beat("m", 1)

    assert second.member_epoch == 2
    assert plain(second.assignment) == {hand.topics.id("a1"): {0}, hand.topics.id("a2"): {0}}
    assert hand.reload().regexes == hand.group.regexes


def test_new_topics_are_matched_ten_seconds_after_the_last_time() -> None:
    """As in Apache Kafka; topics that go are gone at once, and need not be matched."""
    hand = GroupInHand(Topics(a1=1, a2=1))
    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="a.*")
    hand.match()
    hand.beat("m", 1)

    hand.topics.put("a3", 1)
    hand.advance(10)
    hand.beat("m", 2)
    assert hand.stale == frozenset()
    hand.advance(0.001)
    hand.beat("m", 2)
    assert hand.stale == {"a.*"}
    hand.match()
    later = plain(hand.beat("m", 2).assignment) or {}
    hand.topics.drop("a1")
    hand.advance(11)
    hand.beat("m", 3)

    assert later.keys() == {hand.topics.id(name) for name in ("a2", "a3")} | later.keys()
    assert len(later) == 3
    assert hand.stale == frozenset()
    assert hand.group.epoch == 4


def test_expressions_are_matched_anew_after_their_interval() -> None:
    """Whatever has come; what they matched is written with its time, and no epoch rises."""
    hand = GroupInHand(Topics(a=1))
    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="a")
    hand.match()
    for _ in range(16):
        hand.advance(40)
        before = hand.beat("m", hand.group.members["m"].epoch).member_epoch
    assert hand.stale == {"a"}
    hand.match()

    assert hand.group.epoch == before
    assert hand.group.regexes["a"].timestamp_ms == hand.clock.now_ms()


def test_one_more_with_a_known_expression_raises_the_epoch_at_once() -> None:
    """Its topics are known; an expression that is not matched yet waits for that."""
    hand = GroupInHand(Topics(a=2))
    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="a")
    hand.join("n", subscribed_topic_names=None, subscribed_topic_regex="a")
    assert hand.group.epoch == 1
    hand.match()
    assert hand.group.epoch == 2

    hand.join("o", subscribed_topic_names=None, subscribed_topic_regex="a")

    assert hand.group.epoch == 3


def test_an_expression_that_matches_nothing_changes_nothing() -> None:
    """Its record is kept, so that it is not matched again and again."""
    hand = GroupInHand(Topics(a=2))
    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="z")
    hand.match()
    hand.beat("m", 1)

    assert (hand.group.epoch, hand.stale) == (1, frozenset())
    assert hand.reload().regexes == hand.group.regexes != {}


def test_an_expression_that_was_given_up_while_it_was_matched_is_not_kept() -> None:
    """Nor does the epoch rise for it."""
    hand = GroupInHand(Topics(a=1, b=1))
    hand.join("m", "b", subscribed_topic_regex="a")
    hand.beat("m", 2, subscribed_topic_regex="")
    epoch = hand.group.epoch
    hand.match()

    assert hand.group.regexes == {}
    assert hand.group.epoch == epoch


def test_names_and_an_expression_add_up() -> None:
    """A member may have both."""
    hand = GroupInHand(Topics(a=1, b=1, c=1))

    first = hand.join("m", "c", subscribed_topic_regex="[ab]")
    hand.match()
    second = hand.beat("m", 2)

    assert [each.member_epoch for each in (first, second)] == [2, 3]
    assert [count(plain(each.assignment) or {}) for each in (first, second)] == [1, 3]


def test_an_expression_that_nobody_has_is_forgotten() -> None:
    """With its record; another member's stays."""
    hand = GroupInHand(Topics(a=1, b=1))
    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="a")
    hand.join("n", subscribed_topic_names=None, subscribed_topic_regex="b")
    hand.match()
    hand.advance(11)
    hand.beat("n", 1)
    hand.match()
    assert hand.group.regexes.keys() == {"a", "b"}

    hand.beat("m", 1, subscribed_topic_regex="b")
    assert hand.group.regexes.keys() == {"b"}
    hand.beat("m", -1)
    hand.beat("n", -1)

    assert hand.group.regexes == {}
    assert hand.reload().regexes == {}
    assert len(hand.regexes) == 0


@pytest.mark.parametrize("regex", ["(", "a**", "(?=a)", r"(a)\1"])
def test_what_is_no_expression_of_re2_is_refused(regex: str) -> None:
    """Look-around and back references are not RE2; nobody joins with them."""
    hand = GroupInHand()

    with pytest.raises(InvalidRegularExpression):
        hand.join("m", subscribed_topic_names=None, subscribed_topic_regex=regex)

    assert hand.group.members == {}
    assert hand.journal == []


def test_an_expression_cannot_stall_the_broker() -> None:
    """RE2 has no backtracking: what takes others ages is done at once."""
    hand = GroupInHand(Topics(**{"a" * 200: 1}))

    hand.join("m", subscribed_topic_names=None, subscribed_topic_regex="(a*)*b")
    hand.match()

    assert plain(hand.beat("m", 1).assignment) is None
    assert hand.group.regexes["(a*)*b"].topics == set()


def test_the_record_of_older_brokers_gets_its_tombstone() -> None:
    """Brokers before 4.1 wrote the partitions of subscribed topics into a record."""
    hand = GroupInHand()
    key = ConsumerGroupKey(RecordType.PARTITION_METADATA, "g")
    hand.group.apply(key, LegacyPartitionMetadata())

    hand.join("m")

    assert not hand.group.has_legacy_metadata
    assert (b"\0\4\0\1g", None) in hand.journal


def test_a_group_that_is_read_back_is_the_same() -> None:
    """All that is known of a group is in its records."""
    hand = GroupInHand(Topics(a=4, b=2))
    hand.join("m", "a", "b")
    hand.join("n", "a", instance_id="i")
    hand.beat("m", 2)
    hand.beat("n", -2, instance_id="i")

    loaded = hand.reload()

    for name in ("epoch", "metadata_hash", "members", "targets", "owners", "static_members"):
        assert getattr(loaded, name) == getattr(hand.group, name)
    assert (loaded.target_epoch, loaded.state) == (hand.group.target_epoch, hand.group.state)
