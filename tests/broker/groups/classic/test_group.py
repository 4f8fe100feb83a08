"""A classic group by the rules of Kafka's: joins, rebalances, static members, time."""

import gc
from sys import getrefcount

import pytest

from siltstone.broker.groups.classic.group import NEW_MEMBER_JOIN_MS
from siltstone.broker.groups.group import GroupState
from siltstone.broker.process.bounded_lines import MAX_PER_SECOND
from siltstone.protocol.errors import ErrorCode, NotCoordinator
from siltstone.protocol.messages.consumer_offsets import GroupMetadataValue, OffsetCommitValue
from tests.support.classic_group import REBALANCE_MS, SESSION_MS, GroupInHand

DELAY_MS = 3000
OTHER = (("roundrobin", b"other"),)


def test_a_newcomer_is_given_an_id_first() -> None:
    """From version 4 on it joins twice; the id begins with the client's."""
    hand = GroupInHand()
    asked = hand.join()

    assert asked.answer.error is ErrorCode.member_id_required
    assert asked.answer.member_id.startswith("c-")
    assert asked.answer.generation == -1
    assert hand.state() is GroupState.EMPTY


@pytest.mark.parametrize(("version", "instance_id"), [(3, None), (9, "i")])
def test_old_and_static_members_join_at_once(version: int, instance_id: str | None) -> None:
    """KIP-394 is not for them."""
    hand = GroupInHand()
    asked = hand.join("", instance_id, version=version)
    hand.advance(DELAY_MS)

    assert asked.answer.error is ErrorCode.none
    assert asked.answer.generation == 1
    assert asked.answer.leader == asked.answer.member_id


def test_the_first_member_leads_and_learns_of_all() -> None:
    """Only the leader gets the members, with what they say under the chosen protocol."""
    hand = GroupInHand()
    first, one = hand.enter(protocols=(("range", b"1"), ("sticky", b"s1")))
    second, two = hand.enter(protocols=(("sticky", b"s2"), ("range", b"2")))
    hand.advance(DELAY_MS)
    hand.advance(DELAY_MS)

    assert one.answer.leader == two.answer.leader == first
    assert one.answer.protocol_name == two.answer.protocol_name
    assert two.answer.members == ()
    chosen = {"range": (b"1", b"2"), "sticky": (b"s1", b"s2")}[str(one.answer.protocol_name)]
    assert [(each.member_id, each.metadata) for each in one.answer.members] == list(
        zip((first, second), chosen, strict=True)
    )


def test_the_protocol_with_the_most_votes_is_chosen() -> None:
    """A member votes for the first of its list that all have."""
    hand = GroupInHand()
    lists = ["xab", "ab", "ba", "ab"]
    joined = [hand.enter(protocols=tuple((name, b"") for name in each))[1] for each in lists]
    hand.advance(DELAY_MS)
    hand.advance(DELAY_MS)

    assert {asked.answer.protocol_name for asked in joined} == {"a"}


def test_a_protocol_that_is_listed_twice_counts_once() -> None:
    """For as long as its member says so, alone and with others; the first metadata counts."""
    hand = GroupInHand()
    first, one = hand.enter(protocols=(("range", b"1"), ("range", b"2")))
    second, two = hand.enter()
    hand.advance(DELAY_MS)
    hand.advance(DELAY_MS)

    assert {one.answer.leader, two.answer.leader} == {first}
    assert one.answer.protocol_name == "range"
    assert [each.metadata for each in one.answer.members] == [b"1", b"metadata"]

    again = hand.join(first, protocols=OTHER)

    assert again.answer.error is ErrorCode.inconsistent_group_protocol
    assert second in hand.group.members.by_id


def test_an_empty_group_waits_for_more_members() -> None:
    """Each that comes gives the next one the delay, up to the rebalance timeout in all."""
    hand = GroupInHand()
    joined = [hand.enter()[1]]
    for _ in range(4):
        hand.advance(DELAY_MS - 1)
        joined.append(hand.enter()[1])
        hand.advance(1)
        assert joined[0].is_parked
    hand.advance(DELAY_MS)

    assert {asked.answer.generation for asked in joined} == {1}


def test_the_wait_of_an_empty_group_ends_with_the_rebalance_timeout() -> None:
    """However many keep coming."""
    hand = GroupInHand()
    first = hand.join(version=3, rebalance_ms=10_000)
    for _ in range(10):
        if first.is_parked:
            hand.advance(1000)
            hand.join(version=3, rebalance_ms=10_000)
            hand.advance(0)

    assert not first.is_parked
    assert hand.clock.monotonic() - 1000.0 <= 10.0


def test_a_follower_that_syncs_first_waits_for_the_leader() -> None:
    """Everybody gets what the leader gave it; a member that was given nothing gets no bytes."""
    hand = GroupInHand()
    leader, follower, idle = hand.gather(3)
    early = hand.sync(follower)
    assert early == []
    own = hand.sync(leader, {leader: b"L", follower: b"F"})
    late = hand.sync(idle)

    assert hand.state() is GroupState.STABLE
    assert [each.assignment for each in (*early, *own, *late)] == [b"F", b"L", b""]
    assert {each.protocol_type for each in (*early, *own, *late)} == {"consumer"}
    assert {each.protocol_name for each in (*early, *own, *late)} == {"range"}
    written = hand.written[-1]
    assert written.generation == 1
    assert {each.member_id: each.assignment for each in written.members} == {
        leader: b"L",
        follower: b"F",
        idle: b"",
    }


def test_long_metadata_and_assignments_outlive_their_frames() -> None:
    """They are views of frames, whose memory is used again."""
    hand = GroupInHand()
    frame, given = bytearray(b"m" * 200_000), bytearray(b"a" * 200_000)
    first = hand.join(protocols=(("range", memoryview(frame)),), version=0)
    hand.advance(DELAY_MS)
    member_id = first.answer.member_id
    hand.sync(member_id, {member_id: memoryview(given)})
    frame[:] = given[:] = bytes(200_000)

    member = hand.group.members.by_id[member_id]
    assert member.protocols == (("range", b"m" * 200_000),)
    assert member.assignment == b"a" * 200_000


def test_an_assignment_that_can_not_be_written_is_nobodys() -> None:
    """The journal first: all are told its error and rebalance."""
    hand = GroupInHand()
    leader, follower = hand.gather(2)
    parked = hand.sync(follower)
    hand.refusal = NotCoordinator()
    own = hand.sync(leader, {leader: b"L", follower: b"F"})

    assert [each.error for each in (*parked, *own)] == [ErrorCode.not_coordinator] * 2
    assert hand.state() is GroupState.PREPARING
    assert set(hand.group.members.assignments.values()) == {b""}


def test_the_rebalance_after_such_an_assignment_takes_a_second() -> None:
    """Some clients come back at once: a broker went round thousands of times a second."""
    hand = GroupInHand()
    leader, follower = hand.gather(2)
    hand.sync(follower)
    hand.refusal = NotCoordinator()
    hand.sync(leader, {leader: b"L", follower: b"F"})
    again = [hand.join(leader), hand.join(follower)]

    hand.advance(999)
    assert all(asked.is_parked for asked in again)
    hand.advance(1)
    assert [asked.answer.error for asked in again] == [ErrorCode.none] * 2
    assert hand.state() is GroupState.COMPLETING


def test_lines_about_a_journal_that_fails_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """They are written just while a disk is full."""
    hand = GroupInHand(group_initial_rebalance_delay_ms=0)
    hand.refusal = NotCoordinator()
    for _ in range(30):
        member, asked = hand.enter()
        hand.advance(0)
        assert not asked.is_parked
        hand.group.leave([(member, None)])

    assert sum("empty group not written" in each for each in caplog.messages) == MAX_PER_SECOND


def test_a_new_member_makes_the_others_join_again() -> None:
    """They learn it by their heartbeats, and may still commit what they have done."""
    hand = GroupInHand()
    one, two = hand.settle(2)
    three, third = hand.enter()

    assert hand.beat(one) is ErrorCode.rebalance_in_progress
    assert hand.commit(one, 1) is ErrorCode.none
    again = [hand.join(one), hand.join(two)]
    assert [asked.answer.generation for asked in (third, *again)] == [2, 2, 2]
    assert hand.state() is GroupState.COMPLETING
    assert third.answer.leader == one
    assert hand.beat(three) is ErrorCode.none
    assert hand.commit(three, 2) is ErrorCode.rebalance_in_progress


def test_who_does_not_join_again_is_left_out() -> None:
    """When the longest rebalance timeout is over; and it learns so."""
    hand = GroupInHand()
    one, two = hand.settle(2)
    _, third = hand.enter()
    again = hand.join(two)
    for _ in range(REBALANCE_MS // 5000):
        hand.beat(one)
        hand.advance(5000)

    assert third.answer.generation == again.answer.generation == 2
    assert set(hand.group.members.by_id) == {two, third.answer.member_id}
    assert again.answer.leader == two
    assert hand.beat(one) is ErrorCode.unknown_member_id


def test_a_join_that_was_sent_again_is_answered_once() -> None:
    """The first one's connection has given up on it."""
    hand = GroupInHand()
    member_id, first = hand.enter()
    second = hand.join(member_id)
    hand.advance(DELAY_MS)
    hand.advance(DELAY_MS)

    assert first.is_parked
    assert second.answer.error is ErrorCode.none


def test_a_join_that_changes_nothing_is_answered_at_once() -> None:
    """A follower may have missed the answer; a leader that joins again wants a rebalance."""
    hand = GroupInHand()
    leader, follower = hand.gather(2)
    again = hand.join(leader)
    assert again.answer.generation == 1
    assert len(again.answer.members) == 2
    hand.sync(leader, {})
    hand.sync(follower)
    answer = hand.join(follower).answer
    assert answer.generation == 1
    assert answer.members == ()
    assert hand.state() is GroupState.STABLE

    assert hand.join(leader).is_parked
    assert hand.state() is GroupState.PREPARING


def test_changed_metadata_is_a_rebalance() -> None:
    """In a stable group as in one whose leader is about to assign: parked syncs learn it."""
    hand = GroupInHand()
    leader, follower, third = hand.gather(3)
    parked = hand.sync(third)
    changed = hand.join(follower, protocols=(("range", b"changed"),))

    assert [each.error for each in parked] == [ErrorCode.rebalance_in_progress]
    assert changed.is_parked
    assert hand.state() is GroupState.PREPARING
    assert hand.sync(leader)[0].error is ErrorCode.rebalance_in_progress


def test_a_member_that_leaves_makes_room() -> None:
    """The rest rebalances; the last one leaves an empty group, which is written."""
    hand = GroupInHand()
    one, two = hand.settle(2)
    assert hand.group.leave([(two, None)]) == [ErrorCode.none]
    assert hand.state() is GroupState.PREPARING
    again = hand.join(one)
    assert again.answer.generation == 2
    assert hand.group.leave([(one, None)]) == [ErrorCode.none]

    assert hand.state() is GroupState.EMPTY
    assert hand.group.generation == 3
    assert hand.written[-1] == GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol=None,
        leader=None,
        current_state_timestamp=hand.clock.now_ms(),
        members=[],
    )


def test_leaving_is_answered_for_each() -> None:
    """By id, by instance id alone, an id that was only given out, and those nobody knows."""
    hand = GroupInHand()
    (member,) = hand.settle(1)
    static = hand.join("", "i")
    hand.join(member)
    pending = hand.join().answer.member_id
    codes = hand.group.leave(
        [(pending, None), ("", "i"), ("", "other"), ("nobody", None), (member, "other"), ("", None)]
    )

    assert static.answer.error is ErrorCode.none
    unknown = ErrorCode.unknown_member_id
    assert codes == [ErrorCode.none, ErrorCode.none, unknown, unknown, unknown, unknown]


def test_a_parked_join_is_answered_when_its_member_leaves() -> None:
    """Nothing hangs."""
    hand = GroupInHand()
    hand.settle(1)
    member_id, asked = hand.enter()
    hand.group.leave([(member_id, None)])

    assert asked.answer.error is ErrorCode.unknown_member_id


def test_silence_ends_a_session() -> None:
    """Heartbeats and commits do not let it come to that."""
    hand = GroupInHand()
    alive, silent = hand.settle(2)
    for _ in range(3):
        hand.advance(SESSION_MS - 1000)
        hand.group.touch(alive)

    assert silent not in hand.group.members.by_id
    assert hand.beat(silent) is ErrorCode.unknown_member_id
    assert hand.beat(alive) is ErrorCode.rebalance_in_progress


def test_who_waits_for_an_answer_is_not_silent() -> None:
    """However long the others take to come; a first join is kept five minutes at most."""
    hand = GroupInHand()
    hand.settle(1)
    newcomer, asked = hand.enter(session_ms=SESSION_MS)
    hand.advance(SESSION_MS)  # the first member is gone, and the newcomer alone
    assert asked.answer.generation == 2
    leader = newcomer
    follower, other = hand.enter()
    hand.join(leader)
    assert other.answer.generation == 3
    parked = hand.sync(follower)
    for _ in range(5):
        hand.advance(SESSION_MS - 1)
        hand.beat(leader)

    assert follower in hand.group.members.by_id
    assert parked == []
    hand.sync(leader, {follower: b"F"})
    assert [each.assignment for each in parked] == [b"F"]


def test_a_first_join_is_not_kept_for_ever() -> None:
    """Its member cannot heartbeat yet, and may have gone away."""
    hand = GroupInHand(group_initial_rebalance_delay_ms=0)
    asked = hand.join("", "static-and-silent", rebalance_ms=2 * NEW_MEMBER_JOIN_MS)
    hand.advance(0)
    assert asked.answer.error is ErrorCode.none
    hand.sync(asked.answer.member_id, {})
    dynamic = hand.join(version=3, rebalance_ms=2 * NEW_MEMBER_JOIN_MS)
    for _ in range(NEW_MEMBER_JOIN_MS // 5000):
        hand.beat(asked.answer.member_id, instance_id="static-and-silent")
        hand.advance(5000)

    assert dynamic.answer.error is ErrorCode.unknown_member_id


def test_an_id_that_is_not_used_is_forgotten() -> None:
    """And a rebalance waits for it so long, and no longer."""
    hand = GroupInHand()
    (leader,) = hand.settle(1)
    pending = hand.join(session_ms=6000).answer.member_id
    _, asked = hand.enter(session_ms=30_000)
    hand.join(leader, session_ms=30_000)
    assert asked.is_parked
    hand.advance(6000)

    assert asked.answer.error is ErrorCode.none
    assert hand.join(pending).answer.error is ErrorCode.unknown_member_id


def test_who_does_not_sync_is_left_out() -> None:
    """It has learned of the generation and did not ask for its part."""
    hand = GroupInHand()
    leader, follower = hand.gather(2)
    hand.sync(leader, {})
    for _ in range(REBALANCE_MS // 5000):
        hand.beat(leader)
        hand.beat(follower)
        hand.advance(5000)

    assert set(hand.group.members.by_id) == {leader}
    assert hand.state() is GroupState.PREPARING


def test_the_leader_goes_and_another_follows() -> None:
    """The generation of the others is not lost with it."""
    hand = GroupInHand()
    leader, *rest = hand.settle(3)
    hand.group.leave([(leader, None)])
    again = [hand.join(member_id) for member_id in rest]

    assert {asked.answer.leader for asked in again} <= set(rest)
    assert len({asked.answer.leader for asked in again}) == 1
    assert [len(asked.answer.members) for asked in again].count(2) == 1


class TestStaticMembers:
    """Members with an instance id keep their place (KIP-345)."""

    @staticmethod
    def settle(hand: GroupInHand) -> tuple[str, str]:
        """Make a stable group of two static members, instances a (leader) and b."""
        joined = [hand.join("", name) for name in "ab"]
        hand.advance(DELAY_MS)
        hand.advance(DELAY_MS)
        leader, follower = (asked.answer.member_id for asked in joined)
        hand.sync(leader, {leader: b"A", follower: b"B"}, instance_id="a")
        hand.sync(follower, instance_id="b")
        return leader, follower

    def test_a_restart_is_no_rebalance(self) -> None:
        """The new self is written and gets the old one's assignment; the old one is fenced."""
        hand = GroupInHand()
        leader, old = self.settle(hand)
        answer = hand.join("", "b").answer

        assert answer.error is ErrorCode.none
        assert answer.generation == 1
        assert answer.member_id != old
        assert answer.leader == leader
        assert not answer.skip_assignment
        assert hand.state() is GroupState.STABLE
        assert hand.beat(old, instance_id="b") is ErrorCode.fenced_instance_id
        assert hand.sync(answer.member_id, instance_id="b")[0].assignment == b"B"
        members = {each.group_instance_id: each.member_id for each in hand.written[-1].members}
        assert members == {"a": leader, "b": answer.member_id}

    @pytest.mark.parametrize("version", [8, 9])
    def test_a_leader_that_restarts_does_not_assign(self, version: int) -> None:
        """From version 9 on it is told so (KIP-814); before, it is not told that it leads."""
        hand = GroupInHand()
        old, _ = self.settle(hand)
        answer = hand.join("", "a", version=version).answer

        if version >= 9:
            assert answer.skip_assignment
            assert answer.leader == answer.member_id
            assert len(answer.members) == 2
        else:
            assert not answer.skip_assignment
            assert answer.leader == old
            assert answer.members == ()
        assert hand.group.members.leader == answer.member_id

    def test_another_choice_of_protocol_is_a_rebalance(self) -> None:
        """The group would not choose what it has chosen."""
        hand = GroupInHand()
        both = (("range", b"r"), ("sticky", b"s"))
        joined = [hand.join("", name, protocols=both) for name in "ab"]
        hand.advance(DELAY_MS)
        hand.advance(DELAY_MS)
        hand.sync(joined[0].answer.member_id, {}, instance_id="a")
        again = hand.join("", "b", protocols=(("sticky", b"s"),))

        assert again.is_parked
        assert hand.state() is GroupState.PREPARING

    def test_a_restart_that_can_not_be_written_did_not_happen(self) -> None:
        """The old self stays in its place."""
        hand = GroupInHand()
        _, old = self.settle(hand)
        hand.refusal = NotCoordinator()
        answer = hand.join("", "b").answer

        assert (answer.error, answer.member_id) == (ErrorCode.not_coordinator, "")
        assert hand.beat(old, instance_id="b") is ErrorCode.none

    def test_a_restart_while_the_leader_assigns_is_a_rebalance(self) -> None:
        """The assignment would be for the old id."""
        hand = GroupInHand()
        joined = [hand.join("", name) for name in "ab"]
        hand.advance(DELAY_MS)
        hand.advance(DELAY_MS)
        old = joined[1].answer.member_id
        parked = hand.sync(old, instance_id="b")
        again = hand.join("", "b")

        assert [each.error for each in parked] == [ErrorCode.fenced_instance_id]
        assert again.is_parked
        assert hand.state() is GroupState.PREPARING

    def test_a_parked_join_of_the_old_self_is_fenced(self) -> None:
        """The connection of a process that was replaced learns it."""
        hand = GroupInHand()
        first = hand.join("", "a")
        second = hand.join("", "a")

        assert first.answer.error is ErrorCode.fenced_instance_id
        assert first.answer.member_id != ""
        assert second.is_parked

    def test_they_stay_when_they_do_not_join_again(self) -> None:
        """Only their session ends them."""
        hand = GroupInHand()
        leader, follower = self.settle(hand)
        newcomer = hand.join("", "c", session_ms=200_000)
        hand.join(leader, "a", session_ms=200_000)
        hand.group.members.by_id[follower].session_timeout_ms = 200_000
        hand.beat(follower, instance_id="b")
        hand.advance(REBALANCE_MS)

        assert newcomer.answer.error is ErrorCode.none
        assert follower in hand.group.members.by_id
        assert len(hand.group.members) == 3

    def test_an_instance_is_known_by_its_current_id(self) -> None:
        """Another id is fenced, and an instance that nobody has is unknown."""
        hand = GroupInHand()
        leader, follower = self.settle(hand)

        assert hand.beat(leader, instance_id="b") is ErrorCode.fenced_instance_id
        assert hand.beat(follower, instance_id="z") is ErrorCode.unknown_member_id
        assert hand.commit(leader, 1, "b") is ErrorCode.fenced_instance_id
        assert hand.join(leader, "b").answer.error is ErrorCode.fenced_instance_id


def test_a_group_takes_so_many_members() -> None:
    """group.max.size; a member of the group stays."""
    hand = GroupInHand(group_max_size=2)
    one, two = hand.settle(2)

    assert hand.join(version=3).answer.error is ErrorCode.group_max_size_reached
    assert hand.join(one).is_parked
    assert hand.join(version=3).is_parked  # one has not come back yet, and may not
    assert hand.join(two).answer.error is ErrorCode.group_max_size_reached


def test_what_a_member_has_said_goes_with_it() -> None:
    """Refused or removed: the garbage collector may come much later."""
    gc.collect()
    gc.disable()
    try:
        metadata = bytes(100_000)
        before = getrefcount(metadata)
        for max_bytes in (10_000, 200_000):
            hand = GroupInHand(group_members_max_bytes=max_bytes)
            asked = hand.join(protocols=(("range", metadata),), version=3)
            assert asked.is_parked is (max_bytes > 10_000)
            member_ids = list(hand.group.members.by_id)
            hand.group.leave([(each, None) for each in member_ids])
            del asked

            assert getrefcount(metadata) == before
            assert hand.member_bytes.size == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [
        ("", (("range", b""),)),
        ("consumer", ()),
        ("connect", (("range", b""),)),
        ("consumer", OTHER),
    ],
)
def test_members_must_have_a_protocol_in_common(
    protocol_type: str, protocols: tuple[tuple[str, bytes], ...]
) -> None:
    """And be of one kind; an empty group takes any kind but none."""
    hand = GroupInHand()
    hand.settle(1)
    answer = hand.join(protocols=protocols, protocol_type=protocol_type).answer

    assert answer.error is ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("kind", ["connect", "sr", "stream"])
def test_other_kinds_of_groups_are_groups_too(kind: str) -> None:
    """Their words are theirs alone."""
    hand = GroupInHand()
    asked = hand.join(version=3, protocol_type=kind, protocols=(("v0", b"\xff"),))
    hand.advance(DELAY_MS)

    assert asked.answer.protocol_type == kind
    assert hand.group.is_subscribed_to("t") is False


def test_sync_is_refused_by_the_rules() -> None:
    """Unknown, of another generation, of another protocol, before the join."""
    hand = GroupInHand()
    leader, follower = hand.gather(2)

    def code(member_id: str, **changes: object) -> ErrorCode:
        (answer,) = hand.sync(member_id, **changes)  # type: ignore[arg-type]
        return answer.error

    assert code("nobody") is ErrorCode.unknown_member_id
    assert code(follower, generation=0) is ErrorCode.illegal_generation
    assert code(follower, protocol_type="connect") is ErrorCode.inconsistent_group_protocol
    assert code(follower, protocol_name="sticky") is ErrorCode.inconsistent_group_protocol
    assert code(follower, instance_id="i") is ErrorCode.unknown_member_id
    assert hand.sync(follower, protocol_type="consumer", protocol_name="range") == []
    hand.sync(leader, {})
    hand.group.leave([(leader, None)])
    assert code(follower) is ErrorCode.rebalance_in_progress


def test_commits_are_refused_by_the_rules() -> None:
    """Members of the generation may, and anybody while nobody is a member."""
    hand = GroupInHand()
    assert hand.commit("", -1) is ErrorCode.none
    assert hand.commit("anybody", -1) is ErrorCode.none
    assert hand.commit("anybody", 0) is ErrorCode.unknown_member_id
    leader, follower = hand.gather(2)
    assert hand.commit(follower, 1) is ErrorCode.rebalance_in_progress
    assert hand.commit(follower, 1, version=None) is ErrorCode.none
    hand.sync(leader, {})
    hand.sync(follower)
    assert hand.commit(follower, 1) is ErrorCode.none
    assert hand.commit(follower, 0) is ErrorCode.illegal_generation
    assert hand.commit(follower, 2) is ErrorCode.illegal_generation
    assert hand.commit("nobody", 1) is ErrorCode.unknown_member_id
    assert hand.commit("", -1) is ErrorCode.unknown_member_id
    assert hand.commit("", -1, version=None) is ErrorCode.none
    assert hand.commit("", -1, "i") is ErrorCode.unknown_member_id


def test_a_dead_group_answers_nobody() -> None:
    """Every client that waits is told, and no timer is left."""
    hand = GroupInHand()
    hand.settle(1)
    _, parked = hand.enter()
    hand.group.close()

    assert parked.answer.error is ErrorCode.coordinator_not_available
    assert hand.join().answer.error is ErrorCode.coordinator_not_available
    assert hand.sync("m")[0].error is ErrorCode.coordinator_not_available
    assert hand.beat("m") is ErrorCode.coordinator_not_available
    assert hand.commit("m", 1) is ErrorCode.coordinator_not_available
    hand.advance(10 * REBALANCE_MS)
    assert hand.state() is GroupState.DEAD


def test_a_group_comes_back_from_its_record() -> None:
    """Stable, with its assignments, and its sessions begin again."""
    before = GroupInHand()
    leader, follower = before.settle(2)
    static = before.join("", "i")
    before.join(leader)
    before.join(follower)
    before.sync(leader, {each: each.encode() for each in before.group.members.by_id})
    hand = GroupInHand()
    hand.group.restore(before.written[-1])
    hand.group.resume()

    assert hand.state() is GroupState.STABLE
    assert hand.group.generation == 2
    assert hand.group.members.leader == leader
    assert hand.sync(follower)[0].assignment == follower.encode()
    assert hand.beat(static.answer.member_id, instance_id="i") is ErrorCode.none
    hand.advance(SESSION_MS - 1)
    assert len(hand.group.members) == 3
    hand.advance(1)
    assert hand.state() is GroupState.EMPTY


def test_a_group_that_has_become_too_large_rebalances_when_it_comes_back() -> None:
    """Some of its members will not find room."""
    before = GroupInHand()
    before.settle(3)
    hand = GroupInHand(group_max_size=2)
    hand.group.restore(before.written[-1])
    hand.group.resume()

    assert hand.state() is GroupState.PREPARING


def subscription(*topics: str) -> bytes:
    """Return the metadata of a consumer of these topics."""
    names = b"".join(len(name).to_bytes(2, "big") + name.encode() for name in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def test_offsets_are_of_use_while_somebody_reads_the_topic() -> None:
    """And count from the commit, or from the moment the group became empty."""
    hand = GroupInHand()
    offset = OffsetCommitValue(1, -1, "", 1000)
    assert hand.group.expiry_base("t", offset) == 1000  # nobody was ever a member
    joined = hand.join(version=3, protocols=(("range", subscription("t", "u")),))
    assert hand.group.expiry_base("t", offset) is None
    hand.advance(DELAY_MS)
    member_id = joined.answer.member_id
    assert hand.group.expiry_base("x", offset) is None  # not stable yet
    hand.sync(member_id, {})
    assert hand.group.is_subscribed_to("u")
    assert hand.group.expiry_base("t", offset) is None
    assert hand.group.expiry_base("x", offset) == 1000
    hand.group.leave([(member_id, None)])

    assert hand.group.expiry_base("t", offset) == hand.clock.now_ms()
    assert not hand.group.is_subscribed_to("t")


def test_topics_are_read_whatever_the_version_says_of_the_rest() -> None:
    """A client that names version 1 and leaves out what it owns subscribes to its topics alone."""
    hand = GroupInHand()
    joined = hand.join(version=3, protocols=(("range", b"\0\1" + subscription("t")[2:]),))
    hand.advance(DELAY_MS)
    hand.sync(joined.answer.member_id, {})

    assert hand.group.is_subscribed_to("t")
    assert not hand.group.is_subscribed_to("x")


def test_what_can_not_be_read_may_be_any_topic() -> None:
    """Metadata that no consumer could write keeps all offsets."""
    hand = GroupInHand()
    joined = hand.join(version=3, protocols=(("range", b"\1"),))
    hand.advance(DELAY_MS)
    hand.sync(joined.answer.member_id, {})

    assert hand.group.is_subscribed_to("anything")
    assert hand.group.expiry_base("anything", OffsetCommitValue(1, -1, "", 1)) is None
