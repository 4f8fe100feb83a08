"""Classic groups whatever happens: members come, go, fall silent, and the journal fails."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from siltstone.broker.groups.group import GroupState
from siltstone.protocol.errors import ErrorCode, NotCoordinator
from tests.support.classic_group import Asked, GroupInHand

PARKED_MOST_MS = 400_000


class ClassicGroupMachine(RuleBasedStateMachine):
    """Any order of requests, time and faults; what must hold is in the invariants.

    A well-behaved client is not assumed: any id that was ever given out joins, syncs, beats, leaves
    at any time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hand = GroupInHand(group_initial_rebalance_delay_ms=1000, group_max_size=4)
        self.ids: list[str] = ["nobody"]
        self.joins: list[Asked] = []
        self.syncs: list[list[object]] = []
        self.generation = 0
        self.replaced: set[int] = set()  # joins whose client has sent another

    def note(self, asked: Asked) -> None:
        """Keep what came of a join."""
        member_id = asked.request.member_id
        for place, earlier in enumerate(self.joins):
            if earlier.is_parked and member_id and earlier.request.member_id == member_id:
                self.replaced.add(place)
        self.joins.append(asked)
        if asked.answers and asked.answer.member_id and asked.answer.member_id not in self.ids:
            self.ids.append(asked.answer.member_id)

    @rule(
        version=st.sampled_from([3, 8, 9]),
        instance=st.sampled_from([None, None, "a", "b"]),
        names=st.permutations("xyz").map(lambda names: names[:2]),
    )
    def join_new(self, version: int, instance: str | None, names: list[str]) -> None:
        """Somebody new, or a static member that was started again."""
        protocols = tuple((name, name.encode()) for name in (*names, "all"))
        self.note(self.hand.join("", instance, version=version, protocols=protocols))

    @rule(data=st.data(), name=st.sampled_from("xy"))
    def join_again(self, data: st.DataObject, name: str) -> None:
        """A client that was given an id."""
        member_id = data.draw(st.sampled_from(self.ids))
        member = self.hand.group.members.by_id.get(member_id)
        instance = member.instance_id if member else None
        protocols = ((name, b"again"), ("all", b""))
        self.note(self.hand.join(member_id, instance, protocols=protocols))

    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, behind: int) -> None:
        """The leader assigns something to everybody."""
        member_id = data.draw(st.sampled_from(self.ids))
        group = self.hand.group
        member = group.members.by_id.get(member_id)
        assignments = {each: each.encode() for each in group.members.by_id}
        self.syncs.append(
            self.hand.sync(  # type: ignore[arg-type]
                member_id,
                assignments if member_id == group.members.leader else None,
                generation=group.generation - behind,
                instance_id=member.instance_id if member else None,
            )
        )

    @precondition(lambda self: self.hand.group.state is GroupState.COMPLETING)
    @rule()
    def sync_all(self) -> None:
        """Everybody does what clients do."""
        for member in list(self.hand.group.members):
            leads = member.member_id == self.hand.group.members.leader
            everybody = {each: each.encode() for each in self.hand.group.members.by_id}
            answers = self.hand.sync(
                member.member_id, everybody if leads else None, instance_id=member.instance_id
            )
            self.syncs.append(answers)  # type: ignore[arg-type]

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        """A heartbeat of anybody."""
        self.hand.beat(data.draw(st.sampled_from(self.ids)))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Somebody leaves, or is removed by instance."""
        who = data.draw(st.sampled_from([*((each, None) for each in self.ids), ("", "a")]))
        self.hand.group.leave([who])

    @rule(milliseconds=st.sampled_from([1, 500, 1000, 5000, 10_000, 60_000]))
    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        self.hand.advance(milliseconds)

    @rule(fails=st.booleans())
    def journal(self, fails: bool) -> None:
        """The journal begins to fail, or is well again."""
        self.hand.refusal = NotCoordinator() if fails else None

    @invariant()
    def there_is_one_leader(self) -> None:
        """Of the members, and none without members."""
        members = self.hand.group.members
        assert (members.leader in members.by_id) if members else members.leader is None

    @invariant()
    def the_generation_rises(self) -> None:
        """Or stays."""
        assert self.hand.group.generation >= self.generation
        self.generation = self.hand.group.generation

    @invariant()
    def nobody_is_answered_twice(self) -> None:
        """Neither a join nor a sync."""
        assert all(len(asked.answers) <= 1 for asked in self.joins)
        assert all(len(answers) <= 1 for answers in self.syncs)

    @invariant()
    def answers_are_owed_where_they_may_be(self) -> None:
        """Joins in PreparingRebalance, syncs in CompletingRebalance."""
        group = self.hand.group
        joining = sum(member.join_reply is not None for member in group.members)
        syncing = sum(member.sync_reply is not None for member in group.members)
        assert joining == group.members.joining_count
        assert not joining or group.state is GroupState.PREPARING
        assert not syncing or group.state is GroupState.COMPLETING

    @invariant()
    def a_stable_group_has_an_answer_for_everybody(self) -> None:
        """Its own, of this generation, which is also what is written."""
        group = self.hand.group
        if group.state is GroupState.STABLE:
            written = self.hand.written[-1]
            assert written.generation == group.generation
            assert {each.member_id: each.assignment for each in written.members} == (
                group.members.assignments
            )
        if group.state is GroupState.EMPTY:
            assert not group.members

    @invariant()
    def members_know_their_instances(self) -> None:
        """One member for each instance id."""
        members = self.hand.group.members
        assert members.static == {
            each.instance_id: each.member_id for each in members if each.instance_id is not None
        }

    @invariant()
    def bytes_are_those_of_members(self) -> None:
        """And of the ids that were given out."""
        group = self.hand.group
        given_out = sum(1060 + len(each) for each in group.pending)
        assert self.hand.member_bytes.size == given_out + sum(each.size for each in group.members)

    def teardown(self) -> None:
        """Left alone, every member falls silent and everybody gets an answer."""
        self.hand.refusal = None
        for _ in range(PARKED_MOST_MS // 5000):
            self.hand.advance(5000)

        assert self.hand.group.state is GroupState.EMPTY
        unanswered = {place for place, asked in enumerate(self.joins) if asked.is_parked}
        assert len(unanswered) <= len(self.replaced)
        assert not self.hand.group.pending
        for asked in self.joins:
            if asked.answers and asked.answer.error is ErrorCode.none:
                assert asked.answer.member_id
                assert asked.answer.generation >= 1


TestClassicGroup = ClassicGroupMachine.TestCase
TestClassicGroup.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
