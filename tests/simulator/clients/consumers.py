"""Members of groups of the consumer protocol (KIP-848): they beat, give up, commit, leave, return.

Some are static, some subscribe by an expression, some are slow to give partitions up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from tests.simulator.clients.groups import Pause, Sender
from tests.simulator.clients.requests import share
from tests.simulator.model.consumers import Band, Consumer
from tests.simulator.model.log import Wrong
from tests.simulator.model.topics import Presence

if TYPE_CHECKING:
    from collections.abc import Iterable
    from random import Random

    from tests.simulator.clients.groups import Groups
    from tests.simulator.history import Action, History

BEAT, DESCRIBE = 68, 69
_UNKNOWN_MEMBER, _NO_GROUP, _FENCED, _FENCED_EPOCH = 25, 69, 82, 110
_GONE: Final = (_UNKNOWN_MEMBER, _NO_GROUP, _FENCED, _FENCED_EPOCH)
_UNRELEASED, _STALE = 111, 113
_LEAVES, _LEAVES_A_WHILE = -1, -2
_FIRST_WITH_EPOCHS: Final = 9
_ROUNDS: Final = 90
"""How often members beat, every 0.7 s, until their group must be at rest."""
_WANTS: Final = (
    ["apples", "pears", "plums"],
    ["apples", "pears", "plums"],
    ["apples"],
    ["pears", "plums"],
    "p.*",
    "apples|plums",
)


class Consumers:
    """The groups of the consumer protocol of a history."""

    WEIGHTS: Final = {"pulse": 6, "subscribe": 1, "commit_in_epoch": 3, "quit": 1.2}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return the members of each group, and how long the broker waits for them."""
        names = rng.choice(((), ("owls",), ("owls", "rooks")))
        bands = {}
        for name in names:
            wants = rng.choice(_WANTS)
            bands[name] = [
                {
                    "is_static": rng.random() < 0.3,
                    "version": rng.choice((0, 1, 1)),
                    "rack": rng.choice((None, None, "a")),
                    "assignor": rng.choice((None, None, "uniform", "range")),
                    "timeout_ms": rng.choice((5_000, 60_000, 300_000)),
                    "wants": rng.choice((wants, wants, wants, rng.choice(_WANTS))),
                }
                for _ in range(rng.choice((1, 2, 3, 4)))
            ]
        return {
            "bands": bands,
            "session_ms": rng.choice((6_000, 45_000)),
            "interval_ms": rng.choice((0, 1000, 5000)),
        }

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the broker's settings that a history has because of its members."""
        return [
            "group.consumer.min.session.timeout.ms=6000",
            f"group.consumer.session.timeout.ms={drawn['session_ms']}",
            f"group.consumer.assignment.interval.ms={drawn['interval_ms']}",
        ]

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which group and member as shares of 1, and what else a step needs."""
        step: list[Any] = [share(rng), share(rng)]
        if kind == "pulse":
            return [*step, rng.choice((1, 1, 4, 4)), rng.choice(("", "", "slow", "full"))]
        if kind == "subscribe":
            return [*step, rng.choice(_WANTS)]
        if kind == "commit_in_epoch":
            how = rng.choice(("", "", "stale", "early", "nobody", "old_version"))
            return [*step, share(rng), rng.choice((9, 9, 10)), how]
        return [*step, rng.random() < 0.5]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._session_ms = drawn["session_ms"]
        self._ids = 0
        self._bands = [
            Band(
                name,
                [
                    Consumer(history.client(), f"{name}{at}" if each["is_static"] else None, each)
                    for at, each in enumerate(members)
                ],
            )
            for name, members in drawn["bands"].items()
        ]

    @property
    def _groups(self) -> Groups:
        groups: Groups = self._history.parts["groups"]
        return groups

    def set_up(self) -> Action:
        """Have the offsets judged with those of all groups."""
        self._groups.judged += self._bands
        yield from ()

    def play(self, kind: str, which: float, sender: float, *rest: Any) -> Action:
        """Play a step."""
        if not self._bands:
            return
        band = self._bands[int(which * len(self._bands))]
        place = int(sender * len(band.members))
        member = band.members[place]
        if kind == "pulse":
            count, how = rest
            for each in (band.members[place:] + band.members[:place])[:count]:
                yield from self._beat(band, each, how)
        elif kind == "subscribe":
            yield from self._beat(band, member, "full", *rest)
        elif kind == "commit_in_epoch":
            yield from self._commit(band, member, *rest)
        else:
            yield from self._quit(band, member, *rest)

    def restarted(self, way: str) -> None:
        """Note what members may find forgotten."""
        is_durable = self._groups.is_durable
        for each in self._bands:
            each.restarted("kill" if is_durable else way)

    # Heartbeats.

    def _beat(
        self,
        band: Band,
        member: Consumer,
        how: str = "",
        wants: list[str] | str | None = None,
    ) -> Action:
        if member.is_busy:
            return
        member.is_busy = True
        found = yield from self._groups.find_coordinator(member.client, band)
        if not found:
            member.is_busy = False
            return
        self._prepare(band, member, how, wants)
        row = self._row(band, member, how)
        sent_ms, was_sure = self._history.now_ms, member.is_sure(self._history.now_ms)
        was_free, member.is_free = member.is_free, False
        before, peers = band.epoch, band.find_sure(sent_ms)
        asked = member.client.send(BEAT, row, member.version)
        yield asked
        if asked.is_lost:
            return
        member.is_busy = False
        answer = asked.answer
        self._history.tell(
            f"  {band.name} {answer.member_id or member.id} beats: error {answer.error_code} epoch"
            f" {answer.member_epoch} {_text(answer.assignment)}"
        )
        if answer.error_code == 0:
            band.taken(member, answer, (sent_ms, before, peers), self._history.now_ms)
            band.stay(member, self._history.now_ms, was_sure=was_sure)
            band.check_names(member, self._groups.topics.values())
            member.alive_ms = sent_ms + self._session_ms
        else:
            self._refused(
                band,
                member,
                answer,
                sent_ms,
                was_sure=was_sure,
                must_join=not row.member_epoch and was_free,
            )

    def _prepare(
        self, band: Band, member: Consumer, how: str, wants: list[str] | str | None
    ) -> None:
        """Have a member want other topics, or an id, and give up what it does not have."""
        member.wants = member.wants if wants is None else wants
        if isinstance(member.wants, str):
            member.version = 1  # before, there are no expressions, and no way to end one
        if not member.is_member and member.instance_id is None:
            member.held.clear()
        if not member.is_member and member.version:
            self._ids += 1
            member.id = f"{band.name} {self._ids}"
        if how != "slow":
            member.give_up()

    def _refused(
        self,
        band: Band,
        member: Consumer,
        answer: Any,
        sent_ms: int,
        *,
        was_sure: bool,
        must_join: bool,
    ) -> None:
        """Judge an error of a heartbeat."""
        code = answer.error_code
        if code == _UNRELEASED and not member.is_member and member.instance_id is not None:
            if must_join:
                raise Wrong(f"{band.name}: {member.instance_id} is not released")
        elif code in _GONE and member.is_member:
            if was_sure and member.is_sure(self._history.now_ms):
                raise Wrong(f"{band.name}: {member.id} is fenced by {code} {answer.error_message}")
            member.forget()
        else:
            self._groups.check_storage(code, f"a heartbeat of {band.name}")
            member.unsure(sent_ms)

    @staticmethod
    def _row(band: Band, member: Consumer, how: str) -> ConsumerGroupHeartbeatRequest:
        """Return a heartbeat: it says all if it is full, else what has changed."""
        is_new = not member.is_member
        is_full = is_new or member.is_doubtful or how == "full"
        owned: dict[bytes, list[int]] = {}
        for topic_id, place in () if is_new else sorted(member.held):
            owned.setdefault(topic_id, []).append(place)
        row = ConsumerGroupHeartbeatRequest(
            band.name,
            "" if is_new and not member.id else member.id,
            member.epoch,
            member.instance_id,
            topic_partitions=[TopicPartitions(*each) for each in owned.items()],
        )
        if how == "slow" and not is_full:
            row = row._replace(topic_partitions=None)
        if not is_full:
            return row
        member.agreed.append(member.wants)
        wants = member.wants
        return row._replace(
            rack_id=member.said["rack"],
            rebalance_timeout_ms=member.said["timeout_ms"],
            subscribed_topic_names=[] if isinstance(wants, str) else wants,
            subscribed_topic_regex=wants if isinstance(wants, str) else "",
            server_assignor=member.said["assignor"],
        )

    def _quit(self, band: Band, member: Consumer, is_static: bool) -> Action:
        """Leave; a static member may leave for a while, and what it has is kept for its return."""
        if member.is_busy or not member.is_member:
            return
        stays = is_static and member.instance_id is not None
        now_ms = self._history.now_ms
        was_sure = member.is_sure(now_ms)
        kept, alive_ms = member.held & member.told, member.alive_ms
        row = ConsumerGroupHeartbeatRequest(
            band.name,
            member.id,
            _LEAVES_A_WHILE if stays else _LEAVES,
            member.instance_id,
        )
        member.is_busy = True
        left, member_id = member.id, member.id
        was_doubtful = member.is_doubtful
        member.forget()
        asked = member.client.send(BEAT, row, 1)
        yield asked
        if asked.is_lost:
            return
        member.is_busy = False
        code = asked.answer.error_code
        self._history.tell(
            f"  {band.name} {member_id} leaves with {row.member_epoch}: error {code}"
        )
        if code == 0:
            member.is_free = True
            if not stays:
                band.gone.add(left)
            elif not was_doubtful:
                member.held, member.alive_ms = kept, alive_ms
        elif code in _GONE:
            if was_sure and self._history.now_ms < alive_ms:
                raise Wrong(f"{band.name}: {member_id} cannot leave: error {code}")
        else:
            self._groups.check_storage(code, f"the end of {member_id} in {band.name}")

    # Commits.

    def _commit(self, band: Band, member: Consumer, where: float, version: int, how: str) -> Action:
        """Commit in the epoch, before it, behind it, as nobody, or as a client without epochs."""
        if member.is_busy or not member.is_member:
            return
        topics = list(self._groups.topics.values())
        topic = topics[int(where * len(topics))]
        now_ms = self._history.now_ms
        was_sure = member.is_sure(now_ms)
        sender = Sender(member.id, member.instance_id, member.epoch)
        since = member.since.get((topic.topic_id, 0))
        if how == "stale":
            sender = sender._replace(generation=member.epoch - 1)
        elif how == "early":
            sender = sender._replace(generation=member.epoch + 1)
        elif how == "nobody":
            sender = Sender("", None, -1)
        elif how == "old_version":
            version = 8
        is_early = how == "stale" and (since is None or since >= member.epoch)
        is_had = since is not None or (topic.topic_id, 0) not in member.held
        is_early &= topic.presence is Presence.PRESENT  # else another one may have its name
        must_fail = was_sure and (
            how in {"early", "nobody", "old_version"} or (is_early and is_had)
        )
        member.is_busy = True
        code = yield from self._groups.commit_as(
            member.client, band, topic, sender, version, must_fail=must_fail
        )
        if code is None:
            return
        member.is_busy = False
        is_refused = code in {_STALE, _UNKNOWN_MEMBER, _NO_GROUP, _FENCED, 35}
        if is_refused and not how and was_sure and member.is_sure(self._history.now_ms):
            raise Wrong(f"{band.name}: a commit by {sender} was refused with {code}")

    # The judge.

    def judge(self) -> None:
        """Have all members beat until each has what it must have."""
        for band in self._bands:
            if self._history.is_sound and any(each.is_member for each in band.members):
                self._history.run([self._judge_band(band)])

    def _judge_band(self, band: Band) -> Action:
        fault: str | None = ""
        for _ in range(_ROUNDS):
            for each in band.members:
                if each.is_member:
                    yield from self._beat(band, each)
            asked = band.members[0].client.send(DESCRIBE, ([band.name],), 1)
            yield asked
            (described,) = asked.response.groups
            live = {each.id for each in band.members if each.is_member}
            if not live:
                return
            if described.error_code:
                raise Wrong(f"describe {band.name}: error {described.error_code}")
            ids = {each.member_id for each in described.members}
            if ids & band.gone:
                raise Wrong(f"{band.name} has {sorted(ids & band.gone)}, which left")
            if ids != live and not self._history.is_over:
                return  # others must be given up first, and that takes a session
            fault = band.find_fault(described, self._groups.topics.values())
            if fault is None:
                return
            yield Pause(self._history, 0.7)
        raise Wrong(f"{band.name} does not come to rest: {fault}")


def _text(assignment: Any) -> str:
    if assignment is None:
        return ""
    topics: Iterable[Any] = assignment.topic_partitions
    return " ".join(f"{each.topic_id.hex()[:4]}:{list(each.partitions)}" for each in topics)
