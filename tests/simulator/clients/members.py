"""Members of classic groups: they join, get an assignment from their leader, beat, commit, leave.

Several members join side by side. Those that stay away are removed when the others have waited for
them, or when their sessions end. Some members are static.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tests.simulator.clients.groups import Sender
from tests.simulator.clients.requests import share
from tests.simulator.model.groups import GroupModel
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from random import Random

    from tests.simulator.clients.groups import Groups
    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client, Question

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP = 11, 12, 13, 14
_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCE, _FENCED, _NO_GROUP = 22, 25, 27, 82, 69
_ID_REQUIRED: Final = 79
_REFUSALS: Final = (_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCE, _FENCED, _NO_GROUP)
_FIRST_WITH_IDS: Final = 4
_FIRST_STATIC: Final = 5
_FIRST_STATIC_COMMIT: Final = 7
_PROTOCOL_TYPE: Final = "simulated"


class Member:
    """One member; ``generation`` is 0 while it has not joined."""

    def __init__(self, client: Client, instance_id: str | None, timeout_ms: int) -> None:
        self.client = client
        self.instance_id = instance_id
        self.timeout_ms = timeout_ms
        self.id = ""
        self.generation = 0
        self.is_synced = False
        self.is_busy = False
        self.alive_ms = self.seen_ms = 0
        """How long its session lasts at least, and when it was last told to be a member."""

    def forget(self) -> None:
        """Begin as a new member."""
        self.id = ""
        self.generation = 0
        self.is_synced = False


class Company(GroupModel):
    """A group and its members; ``given`` has what leaders gave in each generation."""

    members: list[Member]

    def __init__(self, name: str, members: list[Member]) -> None:
        super().__init__(name, members)
        self.generation = 0
        """The generation of the last answer to a join."""
        self.synced_generation = 0
        self.left: list[Sender] = []
        self.joins = self.moving = 0
        """Joins that were sent; joins and leaves that have no answer."""
        self.calm: list[Member] = []
        """All members, while none has joined or left since all have their assignment."""
        self.given: dict[int, dict[str, list[bytes]]] = {}

    @property
    def has_static(self) -> bool:
        """Tell whether some of the members are static."""
        return any(each.instance_id is not None for each in self.members)

    def is_sure(self, member: Member, now_ms: int) -> bool:
        """Tell whether the broker must know a member as it knows itself."""
        return member in self.calm and all(now_ms < each.alive_ms for each in self.calm)

    def check_joined(self, member: Member, answer: Any) -> None:
        """Compare an answer to a join with what the member knew.

        Raises:
            Wrong: The generation went back, or the leader does not know of the member.
        """
        what = f"{self.name}: member {answer.member_id}"
        if member.id == answer.member_id and answer.generation_id < member.generation:
            raise Wrong(f"{what} is in generation {answer.generation_id} after {member.generation}")
        listed = [each.member_id for each in answer.members]
        if listed and answer.member_id not in listed:
            raise Wrong(f"{what} leads, and is not among the members")

    def check_synced(self, member: Member, assignment: bytes) -> None:
        """Compare an assignment with those that leaders of the generation gave.

        Raises:
            Wrong: It is another one.
        """
        given = self.given.get(member.generation, {})
        allowed = given.get(member.id, [])
        if member.instance_id is not None:
            allowed = [one for each in given.values() for one in each]
        if assignment not in allowed and not (member.instance_id is not None and not assignment):
            raise Wrong(
                f"{self.name}: member {member.id} got {assignment!r} in generation"
                f" {member.generation}; its leader gave {allowed}"
            )

    def restarted(self, way: str) -> None:
        """Note that members without an assignment, or after a power failure all, are forgotten."""
        self.left.clear()
        self.moving = 0
        if way == "power":
            self.calm = []
            self.synced_generation = 0
        self.generation = self.synced_generation
        for each in self.members:
            each.is_busy = False
            if way == "power" or not each.is_synced:
                each.forget()


class Members:
    """The classic groups of a history."""

    WEIGHTS: Final = {"gather": 2.5, "beat": 1.5, "commit_as_member": 3, "leave": 0.6}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return how many members each group has, which are static, and their timeouts."""
        return {
            name: [
                [rng.random() < 0.2, rng.choice((6_000, 10_000, 30_000))]
                for _ in range(rng.choice((1, 2, 3)))
            ]
            for name in ("larks", "kites")[: rng.choice((1, 2))]
        }

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which group and member as shares of 1, and what else a step needs."""
        step: list[Any] = [share(rng), share(rng)]
        if kind == "gather":
            return [*step, rng.choice((1, 2, 3, 3)), rng.choice((3, 5, 7, 9)), rng.random() < 0.1]
        if kind == "commit_as_member":
            how = rng.choice(("", "", "", "", "stale", "ghost"))
            return [*step, share(rng), rng.choice((2, 5, 7, 8, 9, 10)), how]
        return step

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._values = 0
        self._companies = [
            Company(
                name,
                [
                    Member(history.client(), f"{name}{at}" if is_static else None, timeout_ms)
                    for at, (is_static, timeout_ms) in enumerate(members)
                ],
            )
            for name, members in drawn.items()
        ]

    @property
    def _groups(self) -> Groups:
        groups: Groups = self._history.parts["groups"]
        return groups

    def set_up(self) -> Action:
        """Have the offsets judged; the first member finds the coordinator."""
        self._groups.judged += self._companies
        for each in self._companies:
            each.retention_ms = self._groups.retention_ms
        yield from ()

    def play(self, kind: str, which: float, sender: float, *rest: Any) -> Action:
        """Play a step."""
        company = self._companies[int(which * len(self._companies))]
        place = int(sender * len(company.members))
        member = company.members[place]
        if kind == "gather":
            return self._gather(company, place, *rest)
        if kind == "beat":
            return self._beat(company, member)
        if kind == "leave":
            return self._leave(company, member)
        return self._commit(company, member, *rest)

    def restarted(self, way: str) -> None:
        """Note what members may find forgotten."""
        is_durable = self._groups.is_durable
        for each in self._companies:
            each.restarted("kill" if is_durable else way)

    # Joining.

    def _gather(
        self, company: Company, place: int, count: int, version: int, is_new: bool
    ) -> Action:
        """Have some members join side by side, and get their assignments."""
        found = yield from self._groups.find_coordinator(company.members[0].client, company)
        chosen = (company.members[place:] + company.members[:place])[:count]
        chosen = [each for each in chosen if not each.is_busy]
        if not found:
            return
        for each in chosen:
            each.is_busy = True
            if is_new:
                each.forget()
        version = max(version, _FIRST_STATIC) if company.has_static else version
        yield from self._get_ids(company, chosen, version)
        asked = [
            (each, self._send_join(company, each, version))
            for each in chosen
            if each.id or each.instance_id is not None or version < _FIRST_WITH_IDS
        ]
        joined: list[tuple[Member, Any]] = []
        for member, question in asked:
            yield question
            if question.is_lost:
                return
            company.moving -= 1
            if self._judge_join(company, member, question.answer):
                joined.append((member, question.answer))
        yield from self._sync(company, joined)
        for each in chosen:
            each.is_busy = False

    def _get_ids(self, company: Company, members: list[Member], version: int) -> Action:
        """Have new dynamic members get their ids."""
        if version < _FIRST_WITH_IDS:
            return
        new = [each for each in members if not each.id and each.instance_id is None]
        asked = [(each, self._send_join(company, each, version)) for each in new]
        for member, question in asked:
            yield question
            if question.is_lost:
                return
            company.moving -= 1
            answer = question.answer
            if answer.error_code == _ID_REQUIRED:
                member.id = answer.member_id
            else:
                self._check_refused(answer.error_code, f"a first join of {company.name}")

    def _send_join(self, company: Company, member: Member, version: int) -> Question:
        company.joins += 1
        company.moving += 1
        company.calm = []
        own = member.id, member.instance_id
        protocols = [("first", b"x"), ("second",)]
        times = member.timeout_ms, member.timeout_ms
        row = company.name, *times, *own, _PROTOCOL_TYPE, protocols
        return member.client.send(JOIN_GROUP, row, version)

    def _check_refused(self, code: int, what: str) -> None:
        """Allow a refusal that a member must expect, and errors while the disk does not work."""
        if code not in _REFUSALS:
            self._groups.check_storage(code, what)

    def _judge_join(self, company: Company, member: Member, answer: Any) -> bool:
        """Note the answer to a join; tell whether the member is in a generation."""
        self._history.tell(
            f"  {company.name} {answer.member_id[-6:]} joins: error {answer.error_code}"
            f" generation {answer.generation_id} of {len(answer.members)}"
        )
        if answer.error_code == _ID_REQUIRED and not member.id and member.instance_id is None:
            return False  # it asked for an id when there was no coordinator
        if answer.error_code:
            self._check_refused(answer.error_code, f"a join of {company.name}")
            member.forget()
            return False
        company.check_joined(member, answer)
        member.id = answer.member_id
        member.generation = company.generation = answer.generation_id
        member.is_synced = False
        return True

    # Assignments.

    def _sync(self, company: Company, joined: list[tuple[Member, Any]]) -> Action:
        leaders: dict[int, str] = {}
        asked = []
        joins, sent_ms = company.joins, self._history.now_ms
        for member, answer in joined:
            if answer.members and not company.has_static:
                leader = leaders.setdefault(answer.generation_id, member.id)
                if leader != member.id:
                    raise Wrong(f"{company.name}: {leader} and {member.id} lead at once")
            rows = self._assign(company, answer)
            numbers = member.generation, member.id, member.instance_id
            row = company.name, *numbers, _PROTOCOL_TYPE, answer.protocol_name, rows
            asked.append((member, member.client.send(SYNC_GROUP, row, 5)))
        for member, question in asked:
            yield question
            if question.is_lost:
                return
            code = question.answer.error_code
            self._history.tell(f"  {company.name} {member.id[-6:]} syncs: error {code}")
            if code == 0:
                company.check_synced(member, bytes(question.answer.assignment))
                member.is_synced = True
                member.alive_ms = sent_ms + member.timeout_ms
                member.seen_ms = self._history.now_ms
                company.synced_generation = member.generation
            else:
                self._check_refused(code, f"SyncGroup of {company.name}")
        listed = [len(answer.members) for _, answer in joined if answer.members]
        synced = [each for each, _ in joined if each.is_synced]
        if listed == [len(synced)] and joins == company.joins and not company.moving:
            company.calm = synced

    def _assign(self, company: Company, answer: Any) -> list[tuple[str, bytes]]:
        """Return what a leader gives to each member."""
        if not answer.members or answer.skip_assignment:
            return []
        self._values += 1
        given = company.given.setdefault(answer.generation_id, {})
        rows = []
        for each in answer.members:
            assignment = f"{answer.generation_id} {each.member_id} {self._values}".encode()
            given.setdefault(each.member_id, []).append(assignment)
            rows.append((each.member_id, assignment))
        return rows

    # Staying, leaving, committing.

    def _beat(self, company: Company, member: Member) -> Action:
        if member.is_busy or not member.generation:
            return
        name = company.name
        row = name, member.generation, member.id, member.instance_id
        must_fail = member.generation < company.generation
        member.is_busy = True
        sent_ms, was_sure = self._history.now_ms, company.is_sure(member, self._history.now_ms)
        asked = member.client.send(HEARTBEAT, row, 4)
        yield asked
        if asked.is_lost:
            return
        member.is_busy = False
        code = asked.answer.error_code
        self._history.tell(f"  {name} {member.id[-6:]} beats: error {code}")
        if code == 0 and must_fail:
            raise Wrong(f"{name}: a heartbeat of generation {member.generation} is taken late")
        self._check_sure(company, member, code, was_sure=was_sure)
        if code == 0:
            company.stay(member, self._history.now_ms, was_sure=was_sure)
            member.alive_ms = max(member.alive_ms, sent_ms + member.timeout_ms)
        if code:
            self._check_refused(code, f"a heartbeat of {name}")
        if code in {_UNKNOWN_MEMBER, _FENCED}:
            member.forget()

    def _check_sure(self, company: Company, member: Member, code: int, *, was_sure: bool) -> None:
        """Refuse that a member is unknown or late which cannot be.

        Raises:
            Wrong: The broker must know it.
        """
        if code in _REFUSALS and was_sure and company.is_sure(member, self._history.now_ms):
            raise Wrong(
                f"{company.name}: {member.id} is refused with {code}, although it has joined"
            )

    def _leave(self, company: Company, member: Member) -> Action:
        if member.is_busy or not member.id:
            return
        name = company.name
        row = {"group_id": name, "members": [(member.id, member.instance_id)]}
        member.is_busy = True
        company.calm = []
        company.moving += 1
        asked = member.client.send(LEAVE_GROUP, row, 5)
        yield asked
        if asked.is_lost:
            return
        company.moving -= 1
        answer = asked.answer
        code = answer.error_code or answer.members[0].error_code
        self._history.tell(f"  {name} {member.id[-6:]} leaves: error {code}")
        if code:
            self._check_refused(code, f"LeaveGroup of {name}")
        else:
            company.left.append(Sender(member.id, member.instance_id, member.generation))
        member.forget()
        member.is_busy = False

    def _commit(
        self, company: Company, member: Member, where: float, version: int, how: str
    ) -> Action:
        """Commit as a member, of an earlier generation, or as one that has left or never was."""
        if member.is_busy or not member.generation:
            return
        topics = list(self._groups.topics.values())
        topic = topics[int(where * len(topics))]
        if member.instance_id is not None:
            version = max(version, _FIRST_STATIC_COMMIT)
        sender = Sender(member.id, member.instance_id, member.generation)
        if how == "stale":
            sender = sender._replace(generation=member.generation - 1)
        elif how == "ghost":
            ghost = Sender("ghost", None, member.generation)
            sender = company.left[-1] if company.left else ghost
        must_fail = bool(how) or member.generation < company.generation
        member.is_busy = True
        was_sure = not how and company.is_sure(member, self._history.now_ms)
        code = yield from self._groups.commit_as(
            member.client, company, topic, sender, version, must_fail=must_fail
        )
        if code is None:
            return
        member.is_busy = False
        self._check_sure(company, member, code, was_sure=was_sure)
        if code in {_UNKNOWN_MEMBER, _FENCED} and not how:
            member.forget()
