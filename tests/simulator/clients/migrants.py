"""Members of one group that speak the classic protocol or that of consumers, and change over.

With members of both kinds it is a consumer group. When the last one of that protocol goes it is a
classic group again, in which a leader assigns. Offsets stay through all of it.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.coordinator.consumer_protocol import decode_assignment, encode_assignment
from siltstone.protocol.coordinator.headed import write_value
from siltstone.protocol.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_SUBSCRIPTION,
    ConsumerProtocolSubscription,
)
from tests.simulator.clients.groups import GROUP_ID_NOT_FOUND, Pause, Sender
from tests.simulator.clients.requests import share
from tests.simulator.model.consumers import places_of
from tests.simulator.model.groups import GroupModel
from tests.simulator.model.log import Wrong
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from random import Random

    from tests.simulator.clients.groups import Groups
    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client, Question

    Place = tuple[bytes, int]

JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, BEAT, DESCRIBE = 11, 12, 13, 14, 68, 69
_REBALANCE, _UNRELEASED = 27, 111
_REFUSALS: Final = (22, 25, _REBALANCE, GROUP_ID_NOT_FOUND, 82, 110, _UNRELEASED, 113)
"""Another generation or epoch, an unknown or fenced member, a rebalance, an id that is in use."""
_SESSION_MS: Final = 6_000
_STRANGER_MS: Final = 60_000
"""The longest session of any history, and some time to note its end."""
_LEAVES, _LEAVES_A_WHILE = -1, -2
_ROUNDS: Final = 110


class Migrant:
    """One member; ``told`` is its assignment, None without one.

    A topic that was in doubt when the member was told stands there by its name.
    """

    def __init__(self, client: Client, instance_id: str | None, *, is_newer: bool) -> None:
        self.client = client
        self.instance_id = instance_id
        self.is_newer = is_newer
        self.is_busy = False
        self.seen_ms = 0
        self.forget()

    def forget(self) -> None:
        """Begin as a new member."""
        self.id = ""
        self.generation = 0
        self.leads = False
        self.told: set[Place] | None = None

    @property
    def must_join(self) -> bool:
        """Tell whether it has to send a JoinGroup: also where the assignment never came."""
        return not self.is_newer and (not self.generation or self.told is None)


class Migrants:
    """The group of a history that changes its protocol."""

    WEIGHTS: Final = {"stir": 2.5, "migrate": 1.2}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return which members are static, and which begin with the newer protocol."""
        members = [[rng.random() < 0.25, rng.random() < 0.5] for _ in range(rng.choice((1, 2, 3)))]
        return rng.choice(({}, {"members": members}))

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return a member as share of 1, and how many go on from there for how many rounds."""
        step: list[Any] = [share(rng)]
        return [*step, rng.choice((1, 3, 3)), rng.choice((1, 2, 4))] if kind == "stir" else step

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._ids = 0
        self._is_busy = False
        self._strangers_until = 0
        self._members = [
            Migrant(history.client(), f"goose{at}" if is_static else None, is_newer=is_newer)
            for at, (is_static, is_newer) in enumerate(drawn.get("members", ()))
        ]
        self._flock = GroupModel("geese", self._members, "both")

    @property
    def _groups(self) -> Groups:
        groups: Groups = self._history.parts["groups"]
        return groups

    def set_up(self) -> Action:
        """Have the offsets judged with those of all groups."""
        if self._members:
            self._groups.judged.append(self._flock)
        yield from ()

    def play(self, kind: str, which: float, count: int = 0, rounds: int = 0) -> Action:
        """Play a step, unless another one is under way."""
        place = int(which * len(self._members))
        if self._is_busy:
            return
        self._is_busy = True
        if kind == "migrate":
            yield from self._migrate(self._members[place])
        else:
            chosen = (self._members[place:] + self._members[:place])[:count]
            for _ in range(rounds):
                yield from self._round(chosen)
            yield from self._commit(chosen[0])
        self._is_busy = False

    def restarted(self, way: str) -> None:
        """Note that a power failure has the broker forget all members."""
        self._is_busy = False
        if way == "power" or self._history.now_ms <= self._strangers_until:
            self._note_stranger()  # a power failure may bring members back that have left
        for each in self._members:
            each.is_busy = False
            if way == "power":
                each.forget()

    def _note_stranger(self) -> None:
        """Note that the group may have members that are gone, up to the end of their sessions."""
        self._strangers_until = self._history.now_ms + _STRANGER_MS

    # One round: all members beat, and those join that must.

    def _round(self, members: Sequence[Migrant]) -> Generator[Any, None, bool]:
        """Have members beat; tell whether none had to join."""
        found = yield from self._groups.find_coordinator(members[0].client, self._flock)
        if not found:
            return False
        asked: dict[Migrant, Question] = {}
        while True:  # others learn by a heartbeat that they must join, too
            joining = [each for each in members if each.must_join and each not in asked]
            asked |= {each: self._send_join(each) for each in joining}
            beating = [each for each in members if each not in asked]
            if joining and beating:
                pause = Pause(self._history, 0.1)
                yield pause
                if pause.is_lost:
                    return False
            is_lost = yield from self._beat(beating)
            if is_lost:
                return False
            if not any(each.must_join for each in beating):
                break
        joins = yield from self._ask(asked, "joins")
        for member, answer in joins or ():
            member.id, member.generation = answer.member_id, answer.generation_id
            member.leads = bool(answer.members)
        syncs = yield from self._ask(
            {each: self._send_sync(each, answer) for each, answer in joins or ()}, "syncs"
        )
        for member, answer in syncs or ():
            member.told = self._read(bytes(answer.assignment))
        return all(each.generation for each in members) and not asked

    def _beat(self, members: list[Migrant]) -> Generator[Any, None, bool]:
        """Have members beat; tell whether an answer is lost."""
        beats = yield from self._ask({each: self._send_beat(each) for each in members}, "beats")
        for member, answer in beats or ():
            if member.is_newer:
                member.id, member.generation = answer.member_id, answer.member_epoch
                if answer.assignment is not None:
                    member.told = places_of(answer.assignment.topic_partitions)
        return beats is None

    def _ask(
        self, asked: dict[Migrant, Question], what: str
    ) -> Generator[Any, None, list[tuple[Migrant, Any]] | None]:
        """Return the members that were not refused with their answers; None if one is lost."""
        taken = []
        for member, question in asked.items():
            yield question
            if question.is_lost:
                return None
            if not self._is_refused(member, question.answer.error_code, what):
                taken.append((member, question.answer))
        return taken

    def _is_refused(self, member: Migrant, code: int, what: str) -> bool:
        """Note an error; tell whether there is one."""
        self._history.tell(f"  {self._flock.name} {member.id[-6:]} {what}: error {code}")
        if not code:
            return False
        if code not in _REFUSALS:
            self._groups.check_storage(code, f"{self._flock.name}: {member.id} {what}")
        elif code == _REBALANCE:
            member.generation, member.told = 0, None
        else:
            member.forget()
        return True

    def _topics(self) -> dict[str, bytes]:
        topics = self._groups.topics.values()
        return {each.name: each.topic_id for each in topics if each.presence is Presence.PRESENT}

    def _send_beat(self, member: Migrant) -> Question:
        name = self._flock.name
        if not member.is_newer:
            beat = name, member.generation, member.id, member.instance_id
            return member.client.send(HEARTBEAT, beat, 4)
        owned: dict[bytes, list[int]] = {}
        for topic_id, place in sorted(member.told or ()):
            owned.setdefault(topic_id, []).append(place)
        if not member.generation:
            self._ids += 1
            member.id = f"{name} {self._ids}"
        row = {
            "group_id": name,
            "member_id": member.id,
            "member_epoch": member.generation,
            "instance_id": member.instance_id,
            "rebalance_timeout_ms": _SESSION_MS,
            "subscribed_topic_names": sorted(self._groups.topics),
            "topic_partitions": [*owned.items()],
        }
        return member.client.send(BEAT, row, 1)

    def _send_join(self, member: Migrant) -> Question:
        row = ConsumerProtocolSubscription(sorted(self._groups.topics))
        metadata = write_value(CONSUMER_PROTOCOL_SUBSCRIPTION, 1, row)
        own = member.id, member.instance_id
        protocols = [("range", metadata)]
        join = self._flock.name, _SESSION_MS, _SESSION_MS, *own, "consumer", protocols
        return member.client.send(JOIN_GROUP, join, 3 if member.instance_id is None else 5)

    def _send_sync(self, member: Migrant, answer: Any) -> Question:
        """Ask for the assignment; a leader gives each member its share."""
        given: dict[str, dict[str, set[int]]] = {each.member_id: {} for each in answer.members}
        topics = self._groups.topics
        places = [(name, at) for name in self._topics() for at in range(topics[name].partitions)]
        for (name, at), member_id in zip(places, cycle(given), strict=False):
            given[member_id].setdefault(name, set()).add(at)
        rows = [
            (each, encode_assignment({name: frozenset(at) for name, at in theirs.items()}, 1))
            for each, theirs in given.items()
        ]
        numbers = member.generation, member.id, member.instance_id
        row = self._flock.name, *numbers, None, None, rows
        return member.client.send(SYNC_GROUP, row, 3)

    def _read(self, assignment: bytes) -> set[Place]:
        ids = self._topics()
        theirs = decode_assignment(assignment).partitions if assignment else {}
        return {
            (ids.get(name, name.encode()), at) for name, places in theirs.items() for at in places
        }

    # Changing over, committing.

    def _migrate(self, member: Migrant) -> Action:
        """Leave, and speak the other protocol from then on; a static member is only replaced."""
        name, is_newer = self._flock.name, member.is_newer
        before, member.is_newer = member.id, not is_newer
        if is_newer:
            ends = _LEAVES if member.instance_id is None else _LEAVES_A_WHILE
            row: Any = name, before, ends, member.instance_id
        else:
            row = {"group_id": name, "members": [(before,)]}
        must_leave = member.generation and (is_newer or member.instance_id is None)
        member.forget()
        if must_leave:
            asked = member.client.send(BEAT if is_newer else LEAVE_GROUP, row, 1 if is_newer else 5)
            yield asked
            what = f"leaves as {before}"
            if asked.is_lost or self._is_refused(member, asked.answer.error_code, what):
                self._note_stranger()

    def _commit(self, member: Migrant) -> Generator[Any, None, int | None]:
        """Commit as a member."""
        topics = list(self._groups.topics.values())
        if not member.generation:
            return None
        sender = Sender(member.id, member.instance_id, member.generation)
        topic = topics[self._history.rng.randrange(len(topics))]
        version = 9 if member.is_newer else 8
        code = yield from self._groups.commit_as(
            member.client, self._flock, topic, sender, version, must_fail=False
        )
        return code

    # The judge.

    def judge(self) -> None:
        """Have all members beat until each partition has one of them; then each may commit."""
        if self._history.is_sound and any(each.generation for each in self._members):
            self._history.run([self._judge_flock()])

    def _judge_flock(self) -> Action:
        fault: str | None = ""
        for _ in range(_ROUNDS):
            is_calm = yield from self._round(self._members)
            fault = self._find_fault() if is_calm else "members have to join"
            fault = fault or (yield from self._find_stranger())
            if fault is None:
                break
            # The leader sees that there are other topics. After a static leader has come back by a
            # JoinGroup that does not say that it leads (before KIP-814), all join again.
            older = [each for each in self._members if is_calm and not each.is_newer]
            leaders = [each for each in older if each.leads]
            for each in leaders or older:
                each.generation = 0
            yield Pause(self._history, 0.7)
        else:
            raise Wrong(f"{self._flock.name} does not come to rest: {fault}")
        for each in self._members:
            code = yield from self._commit(each)
            if code in _REFUSALS:
                raise Wrong(f"{self._flock.name} is at rest, but {each.id} commits: error {code}")

    def _find_stranger(self) -> Generator[Question, None, str | None]:
        """Return which kind the group has, if members that are gone may decide it."""
        client = self._members[0].client
        asked = client.send(DESCRIBE, ([self._flock.name],), 1)
        yield asked
        code = asked.response.groups[0].error_code
        is_newer = any(each.is_newer for each in self._members)
        if code == (0 if is_newer else GROUP_ID_NOT_FOUND):
            return None
        fault = f"{self._flock.name} is described with {code}: {is_newer}"
        if self._history.now_ms > self._strangers_until:
            raise Wrong(fault)
        return fault

    def _find_fault(self) -> str | None:
        """Return why the group is not at rest, None if it is."""
        topics = self._topics()
        ids = set(topics.values())
        named = {name.encode(): topic_id for name, topic_id in topics.items()}
        places = (each for one in self._members for each in one.told or ())
        known = ((named.get(key, key), at) for key, at in places)
        told = sorted(each for each in known if each[0] in ids)
        wanted = sorted(
            (each.topic_id, at)
            for each in self._groups.topics.values()
            if each.topic_id in ids
            for at in range(each.partitions)
        )
        return None if told == wanted else f"{told} are assigned, of {wanted}"
