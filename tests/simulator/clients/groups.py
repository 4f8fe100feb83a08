"""Groups: offsets that are committed without members, fetched, deleted, and deleted with the group.

Commits race with each other, with the deletion of their group, and with topics that come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.java import partition_for
from tests.simulator.clients.requests import share
from tests.simulator.incarnation import JOURNAL_PARTITIONS
from tests.simulator.model.groups import (
    NOTHING,
    Committed,
    GroupModel,
    Reading,
    Write,
    is_certain,
)
from tests.simulator.model.log import Wrong
from tests.simulator.model.topics import Presence
from tests.simulator.wire import Pending

if TYPE_CHECKING:
    from collections.abc import Generator
    from random import Random

    from tests.simulator.clients.records import Records
    from tests.simulator.clients.transactions import Transactions
    from tests.simulator.history import Action, History
    from tests.simulator.model.topics import TopicModel
    from tests.simulator.wire import Client

OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR, DELETE_GROUPS, OFFSET_DELETE = 8, 9, 10, 42, 47
_UNKNOWN_TOPIC, _METADATA_TOO_LARGE, _UNKNOWN_ID = 3, 12, 100
_LOADING, _NOT_AVAILABLE, _NOT_COORDINATOR = 14, 15, 16
_NON_EMPTY, _SUBSCRIBED = 68, 86
GROUP_ID_NOT_FOUND: Final = 69
COORDINATOR: Final = (_LOADING, _NOT_AVAILABLE, _NOT_COORDINATOR)
_FIRST_WITH_EPOCH: Final = 6
_LAST_WITH_RETENTION: Final = 4
_FIRST_WITH_INSTANCE: Final = 7
_FIRST_WITH_GROUPS: Final = 8
_FIRST_WITH_IDS: Final = 10
_FETCHES_EPOCH: Final = 5
_REFUSED_SENDERS: Final = (22, 25, 27, 35, GROUP_ID_NOT_FOUND, 82, 113)
"""Another generation, an unknown or fenced member, a rebalance, no epochs, a stale epoch."""
_MOST_METADATA: Final = 4096
_NO_RETENTION = -1
_UNSTABLE: Final = 88
_PENDING: Final = Committed(-2)
"""Stands for an offset that an open transaction has."""
_PATIENCE: Final = 300
"""How often a client asks, every 0.2 s, until a coordinator must answer."""


class Sender(NamedTuple):
    """A member that commits; ``generation`` may be an epoch."""

    id: str
    instance_id: str | None
    generation: int


class Pause(Pending):
    """A wait of a client, as if it had asked for it."""

    def __init__(self, history: History, seconds: float) -> None:
        super().__init__()
        history.later(seconds, self.end)


class Groups:
    """The groups of a history and the clients that commit."""

    PLACE: Final = 2
    WEIGHTS: Final = {
        "commit": 5,
        "fetch_offsets": 1.5,
        "delete_offsets": 0.5,
        "delete_group": 0.4,
    }

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return the groups, and how long their offsets are kept."""
        minutes = rng.choice((10_080, 10_080, 1, 2))
        return {
            "groups": ["ants", "bees", "wasps"][: rng.choice((1, 1, 2, 3))],
            "minutes": minutes,
            "is_durable": rng.random() < 0.15,
            "segment_bytes": rng.choice((0, 0, 1000, 5000)),
            "delay_ms": rng.choice((0, 3000)),
        }

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return the broker's settings that a history has because of its groups."""
        settings = [
            f"offsets.retention.minutes={drawn['minutes']}",
            f"offsets.retention.check.interval.ms={_check_ms(drawn['minutes'])}",
            f"group.initial.rebalance.delay.ms={drawn['delay_ms']}",
        ]
        if drawn["is_durable"]:
            settings.append("log.flush.interval.messages=1")
        if drawn["segment_bytes"]:
            settings += [
                f"offsets.topic.segment.bytes={drawn['segment_bytes']}",
                "log.cleaner.min.cleanable.ratio=0.1",
            ]
        return settings

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which group, topic and partition as shares of 1, and what else a step needs."""
        step: list[Any] = [share(rng) for _ in range(3)]
        if kind == "commit":
            return [
                *step,
                rng.choice((2, 3, 5, 6, 8, 9, 10, 10)),
                rng.choice((_NO_RETENTION, _NO_RETENTION, 1000, 200_000)),
                rng.choice((0, 0, 5, 100, _MOST_METADATA + 1)),
                rng.random() < 0.3,
                rng.random() < 0.1,
            ]
        if kind == "fetch_offsets":
            return [*step, rng.choice((1, 2, 5, 7, 8, 9, 10)), rng.random() < 0.3]
        return step

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self.retention_ms = drawn["minutes"] * 60_000
        self._check_ms = _check_ms(drawn["minutes"])
        self.is_durable = drawn["is_durable"]
        self.groups = [GroupModel(name) for name in drawn["groups"]]
        self.judged = self.groups.copy()
        """All groups whose offsets are judged, those with members too."""
        self._client = history.client()
        self._offset = 0
        self._time = 0
        self._has_journal = False
        """Whether a client has found the coordinator, so that its journal exists."""
        self._way = ""
        self._quiet_ms = self._hits = 0
        """Since when the disk has worked and nothing is refused, and how many calls have failed."""

    @property
    def topics(self) -> dict[str, TopicModel]:
        """The topics of the history."""
        records: Records = self._history.parts["records"]
        return records.topics

    def play(self, kind: str, *step: Any) -> Action:
        """Play a step."""
        group = self.judged[int(step[0] * len(self.judged))]
        topics = list(self.topics.values())
        topic = topics[int(step[1] * len(topics))]
        partition = int(step[2] * topic.partitions)
        client = self._history.beside(self._client)
        if kind == "commit":
            return self._commit(client, group, topic, partition, *step[3:])
        if kind == "fetch_offsets":
            return self._fetch_step(client, group, topic, *step[3:])
        if kind == "delete_offsets":
            return self._delete_offsets(client, group, topic, partition)
        return self._delete_group(client, group)

    def restarted(self, way: str) -> None:
        """Note that nothing is on its way any more."""
        self._way = way
        self._quiet_ms = self._history.now_ms
        now = self.tick()
        for group in self.judged:
            for register in group.registers.values():
                register.restarted(now, may_lose=way == "power" and not self.is_durable)

    def settled(self) -> None:
        """Note that what was found is the truth."""
        self._way = ""

    def tick(self) -> int:
        """Return the next moment: requests and answers have different ones."""
        self._time += 1
        return self._time

    # The coordinator.

    def find_coordinator(self, client: Client, group: GroupModel) -> Generator[Any, None, bool]:
        """Have the coordinator found; tell whether it was."""
        if self._has_journal:
            return True
        for _ in range(_PATIENCE):
            asked = client.send(FIND_COORDINATOR, ("", 0, [group.name]), 4)
            yield asked
            if asked.is_lost:
                return False
            code = asked.answer.coordinators[0].error_code
            if code == 0:
                self._has_journal = True
                return True
            if code != _NOT_AVAILABLE:
                raise Wrong(f"the coordinator of {group.name}: error {code}")
            if not self._history.is_sound:
                return False
            pause = Pause(self._history, 0.2)
            yield pause
            if pause.is_lost:
                return False
        raise Wrong(f"no coordinator for {group.name}, although the disk works")

    def check_storage(self, code: int, what: str) -> None:
        """Allow an error of the coordinator while the disk does not work, or while it loads.

        Raises:
            Wrong: It is another error, or the disk works.
        """
        if code not in COORDINATOR:
            raise Wrong(f"{what}: error {code}")
        if self._history.is_sound and not (self._way and code == _LOADING):
            raise Wrong(f"{what}: error {code}, although the disk works")

    # Commits.

    def _commit(  # a step's parameters
        self,
        client: Client,
        group: GroupModel,
        topic: TopicModel,
        partition: int,
        version: int,
        retention_ms: int,
        size: int,
        is_wide: bool,
        is_stale: bool,
    ) -> Action:
        found = yield from self.find_coordinator(client, group)
        if not found:
            return
        if version > _LAST_WITH_RETENTION:
            retention_ms = _NO_RETENTION
        if version >= _FIRST_WITH_IDS and is_stale and topic.old_ids:
            yield from self._commit_to_old_id(client, group, topic, partition)
            return
        topics = list(self.topics.values()) if is_wide else [topic]
        members = group.find_sure(self._history.now_ms)
        is_exact = version >= _FIRST_WITH_IDS
        writes = []
        rows = []
        for each in topics:
            place = min(partition, each.partitions - 1)
            write = self.make_write(version, retention_ms, size, is_exact=is_exact)
            if group.members and group.protocol != "consumer":
                write.expires_ms = 0  # it expires with those from when the last member left
            group.register(each, place).send(write)
            life, was_certain = each.topic_id, each.presence is Presence.PRESENT
            writes.append((each, place, write, life, was_certain))
            rows.append((each.name, each.topic_id, [(place, *write.value)]))
        row = group.name, -1, "", None, retention_ms, rows
        asked = client.send(OFFSET_COMMIT, row, version)
        yield asked
        if asked.is_lost:
            return
        beside = sorted(members & group.find_sure(self._history.now_ms))
        codes = {
            (each.topic_id if is_exact else each.name, one.partition_index): one.error_code
            for each in asked.answer.topics
            for one in each.partitions
        }
        for each, place, write, life, was_certain in writes:
            code = codes[life if is_exact else each.name, place]
            is_sure = is_certain(each, life) and was_certain
            self._history.tell(
                f"  {group.name} {each.name}-{place} at {write.value.offset}: error {code}"
            )
            if code == 0 and beside:
                raise Wrong(f"a commit of nobody is taken in {group.name}, beside {beside}")
            self.judge_commit(group, each, write, code, retention_ms, is_sure=is_sure)

    def make_write(self, version: int, retention_ms: int, size: int, *, is_exact: bool) -> Write:
        """Make a commit of an offset that no other commit has."""
        self._offset += 1
        epoch = self._offset % 3 - 1 if version >= _FIRST_WITH_EPOCH else -1
        value = Committed(self._offset, epoch, (f"{self._offset} " * size)[:size])
        kept_ms = self.retention_ms if retention_ms == _NO_RETENTION else retention_ms
        return Write(value, self.tick(), self._history.now_ms + kept_ms, is_exact=is_exact)

    def judge_commit(
        self,
        group: GroupModel,
        topic: TopicModel,
        write: Write,
        code: int,
        retention_ms: int,
        *,
        is_sure: bool,
    ) -> None:
        """Note the answer to a commit.

        Raises:
            Wrong: It was taken against a rule, or refused without a reason.
        """
        what = f"a commit of {group.name} for {topic.name}"
        is_large = len(write.value.metadata) > _MOST_METADATA
        write.answered(self.tick(), is_sure=False)
        if code == 0:
            if is_large:
                raise Wrong(f"{what} with {len(write.value.metadata)} characters was taken")
            write.is_sure = is_sure
            if is_sure and not group.members:
                kept_ms = self.retention_ms if retention_ms == _NO_RETENTION else retention_ms
                write.must_go_ms = self._history.now_ms + kept_ms
        elif code == (_UNKNOWN_ID if write.is_exact else _UNKNOWN_TOPIC):
            if is_sure and retention_ms == _NO_RETENTION:
                raise Wrong(f"{what}: the topic is unknown, although it exists")
            write.refused()
        elif (code == _METADATA_TOO_LARGE and is_large) or (
            code in _REFUSED_SENDERS and group.members
        ):
            write.refused()
        else:
            self.check_storage(code, what)

    def commit_as(
        self,
        client: Client,
        group: GroupModel,
        topic: TopicModel,
        sender: Sender,
        version: int,
        *,
        must_fail: bool,
    ) -> Generator[Any, None, int | None]:
        """Commit for the first partition as a member; return the error code, None without answer.

        Raises:
            Wrong: The commit was taken, although it ``must_fail``; or as `judge_commit`.
        """
        write = self.make_write(version, _NO_RETENTION, 5, is_exact=version >= _FIRST_WITH_IDS)
        if not must_fail:
            group.register(topic, 0).send(write)
        instance_id = sender.instance_id if version >= _FIRST_WITH_INSTANCE else None
        rows = [(topic.name, topic.topic_id, [(0, *write.value)])]
        row = group.name, sender.generation, sender.id, instance_id, _NO_RETENTION, rows
        life, was_certain = topic.topic_id, topic.presence is Presence.PRESENT
        asked = client.send(OFFSET_COMMIT, row, version)
        yield asked
        if asked.is_lost:
            return None
        code: int = asked.answer.topics[0].partitions[0].error_code
        self._history.tell(
            f"  {group.name} {sender} {topic.name} at {write.value.offset}: error {code}"
        )
        if must_fail and code == 0:
            raise Wrong(f"{group.name}: a commit by {sender} was taken")
        is_sure = was_certain and is_certain(topic, life)
        self.judge_commit(group, topic, write, code, _NO_RETENTION, is_sure=is_sure)
        return code

    def _commit_to_old_id(
        self, client: Client, group: GroupModel, topic: TopicModel, partition: int
    ) -> Action:
        old = next(iter(topic.old_ids))
        rows = [("", old, [(partition, 7)])]
        asked = client.send(OFFSET_COMMIT, {"group_id": group.name, "topics": rows}, 10)
        yield asked
        if asked.is_lost:
            return
        code = asked.answer.topics[0].partitions[0].error_code
        if code != _UNKNOWN_ID:
            raise Wrong(f"a commit by the id of a deleted {topic.name}: error {code}")

    # Deletions.

    def _delete_offsets(
        self, client: Client, group: GroupModel, topic: TopicModel, partition: int
    ) -> Action:
        found = yield from self.find_coordinator(client, group)
        if not found:
            return
        start = self.tick()
        members = group.find_sure(self._history.now_ms, topic.name)
        reading = self._read_all(group)
        write = group.register(topic, partition).send(Write(NOTHING, start, 0))
        life, was_certain = topic.topic_id, topic.presence is Presence.PRESENT
        asked = client.send(OFFSET_DELETE, (group.name, [(topic.name, [(partition,)])]))
        yield asked
        beside = sorted(members & group.find_sure(self._history.now_ms, topic.name))
        must_exist = self._must_exist(reading) or beside
        if asked.is_lost:
            return
        write.answered(self.tick(), is_sure=False)
        answer = asked.answer
        code = answer.error_code or answer.topics[0].partitions[0].error_code
        self._history.tell(f"  {group.name} forgets {topic.name}-{partition}: error {code}")
        is_sure = is_certain(topic, life) and was_certain
        if code == 0:
            if beside:
                raise Wrong(f"OffsetDelete of {group.name} for {topic.name}, beside {beside}")
            write.is_sure = is_sure
        elif code == GROUP_ID_NOT_FOUND:
            if must_exist:
                raise Wrong(f"{group.name} is not found, although it has committed")
            write.refused()
        elif code in {_NON_EMPTY, _SUBSCRIBED} and group.members:
            write.refused()
        elif code == _UNKNOWN_TOPIC:
            if is_sure:
                raise Wrong(f"OffsetDelete: {topic.name} is unknown, although it exists")
            write.refused()
        else:
            self.check_storage(code, f"OffsetDelete of {group.name}")

    def _delete_group(self, client: Client, group: GroupModel) -> Action:
        found = yield from self.find_coordinator(client, group)
        if not found:
            return
        members = group.find_sure(self._history.now_ms)
        reading = self._read_all(group)
        start = self.tick()
        writes = []
        for topic, _, register in group.all_registers(self.topics):
            write = register.send(Write(NOTHING, start, 0))
            writes.append((topic, topic.topic_id, topic.presence is Presence.PRESENT, write))
        asked = client.send(DELETE_GROUPS, ([group.name],), 2)
        yield asked
        beside = sorted(members & group.find_sure(self._history.now_ms))
        must_exist = self._must_exist(reading) or beside
        if asked.is_lost:
            return
        code = asked.answer.results[0].error_code
        self._history.tell(f"  delete group {group.name}: error {code}")
        is_refused = code == GROUP_ID_NOT_FOUND or (code == _NON_EMPTY and group.members)
        if code == GROUP_ID_NOT_FOUND:
            if must_exist:
                raise Wrong(f"{group.name} is not found, although it has committed")
        elif code and not is_refused:
            self.check_storage(code, f"DeleteGroups of {group.name}")
        elif code == 0 and beside:
            raise Wrong(f"{group.name} is deleted, beside {beside}")
        now = self.tick()
        for topic, life, was_certain, write in writes:
            is_sure = code == 0 and was_certain and is_certain(topic, life)
            write.answered(now, is_sure=is_sure)
            if is_refused:
                write.refused()

    # Reading.

    def _read_all(self, group: GroupModel) -> list[tuple[TopicModel, int, bytes, bool, Reading]]:
        """Begin to read all registers of a group."""
        return [
            (topic, place, topic.topic_id, topic.presence is Presence.PRESENT, Reading(register))
            for topic, place, register in group.all_registers(self.topics)
        ]

    def _must_exist(
        self,
        reading: list[tuple[TopicModel, int, bytes, bool, Reading]],
    ) -> bool:
        """End a reading; tell whether the group had an offset all the time."""
        now_ms = self._history.now_ms
        certain = False
        for topic, _, life, was_certain, each in reading:
            each.end()
            if was_certain and is_certain(topic, life) and not each.allows(NOTHING, now_ms):
                certain = True
        return certain

    def _fetch_step(
        self,
        client: Client,
        group: GroupModel,
        topic: TopicModel,
        version: int,
        is_all: bool,
    ) -> Action:
        if self._has_journal:
            topics = None if is_all and version > 1 else [topic]
            yield from self.fetch(client, group, topics, version)

    def fetch(
        self, client: Client, group: GroupModel, topics: list[TopicModel] | None, version: int
    ) -> Generator[Any, None, list[str]]:
        """Fetch offsets of some topics, or all, and compare them; return those to expire."""
        reading = self._read_all(group)
        transactions: Transactions | None = self._history.parts.get("transactions")
        over = transactions.find_over() if transactions else ()
        asked = client.send(OFFSET_FETCH, _fetch_row(group, topics, version), version)
        yield asked
        read = [(*each[:4], each[4].end()) for each in reading]
        overdue: list[str] = []
        if asked.is_lost:
            return overdue
        found, code = _found(asked.answer, version)
        if code:
            self.check_storage(code, f"OffsetFetch of {group.name}")
            return overdue
        has_epoch = version >= _FETCHES_EPOCH
        for topic, place, life, was_certain, each in read:
            if topics is not None and topic not in topics:
                continue
            key = life if version >= _FIRST_WITH_IDS else topic.name
            value = found.get((key, place), NOTHING)
            is_judged = was_certain and is_certain(topic, life)
            if value == _PENDING and transactions and transactions.may_pend(each.register, over):
                continue
            if is_judged and not each.allows(value, self._history.now_ms, has_epoch=has_epoch):
                allowed = [tuple(one.value) for one in each.writes if not one.is_refused]
                raise Wrong(
                    f"{group.name} {topic.name}-{place}: {tuple(value)} is committed;"
                    f" it may be one of {allowed}"
                )
            if is_judged and self._is_overdue(each, value) and not self._must_stay(group):
                overdue.append(f"{group.name} {topic.name}-{place}: {tuple(value)}")
        return overdue

    def _is_overdue(self, reading: Reading, found: Committed) -> bool:
        """Tell whether an offset should have expired since all has been well."""
        transactions: Transactions | None = self._history.parts.get("transactions")
        due = [each.must_go_ms for each in reading.writes if each.value == found]
        late = self._history.now_ms - 2 * self._check_ms
        is_late = bool(due) and late > max(*due, self._quiet_ms)
        if transactions and transactions.may_pend(reading.register, transactions.find_over()):
            return False
        return is_late

    def _must_stay(self, group: GroupModel) -> bool:
        """Tell whether the directory of the group's journal fails, so that no deletion is taken."""
        partition = partition_for(group.name, JOURNAL_PARTITIONS)
        return self._history.is_failing("__consumer_offsets", partition)

    # The judge.

    def judge(self) -> None:
        """Fetch all offsets of all groups, and compare them."""
        hits = self._history.hits
        if hits != self._hits or not self._history.is_sound:
            self._hits, self._quiet_ms = hits, self._history.now_ms
        if self._has_journal:
            client = self._history.client()
            for group in self.judged:
                self._history.run([self._judge_group(client, group)])
            client.reset()

    def _judge_group(self, client: Client, group: GroupModel) -> Action:
        yield from self._wait_until_loaded(client, group)
        if not self._way:
            yield from self.fetch(client, group, None, 9)
            overdue = yield from self.fetch(client, group, list(self.topics.values()), 10)
            if overdue:  # the broker may have had no turn since time has jumped
                yield Pause(self._history, self._check_ms / 500)
                overdue = yield from self.fetch(client, group, None, 9)
            if overdue:
                raise Wrong(f"{overdue} should have expired")
            return
        asked = client.send(OFFSET_FETCH, _fetch_row(group, None, 9), 9)
        yield asked
        found, code = _found(asked.response, 9)
        if code:
            raise Wrong(f"OffsetFetch of {group.name}: error {code}, although the disk works")
        self._settle(group, found)

    def _wait_until_loaded(self, client: Client, group: GroupModel) -> Action:
        for _ in range(_PATIENCE):
            asked = client.send(OFFSET_FETCH, _fetch_row(group, None, 9), 9)
            yield asked
            if _found(asked.response, 9)[1] != _LOADING:
                return
            yield Pause(self._history, 0.2)
        raise Wrong(f"the offsets of {group.name} are never loaded")

    def _settle(self, group: GroupModel, found: dict[tuple[Any, int], Committed]) -> None:
        now, now_ms = self.tick(), self._history.now_ms
        for topic, place, register in group.all_registers(self.topics):
            value = found.pop((topic.name, place), NOTHING)
            if topic.presence is not Presence.PRESENT and value != NOTHING:
                raise Wrong(f"{group.name} has an offset of {topic.name}, which does not exist")
            if topic.presence is not Presence.PRESENT:
                group.registers.pop((topic.name, place), None)
                continue
            try:
                register.settle(value, now, now_ms, self._way, is_durable=self.is_durable)
            except Wrong as error:
                raise Wrong(f"{group.name} {topic.name}-{place}: {error}") from error
        if found:
            raise Wrong(f"{group.name} has offsets of {sorted(found)}")


def _check_ms(minutes: int) -> int:
    """Return how often the broker looks for expired offsets."""
    return 10_000 if minutes < 60 else 600_000


def _fetch_row(group: GroupModel, topics: list[TopicModel] | None, version: int) -> Any:
    old, new = None, None
    if topics is not None:
        old = [(each.name, range(each.partitions)) for each in topics]
        new = [(each.name, each.topic_id, range(each.partitions)) for each in topics]
    if version < _FIRST_WITH_GROUPS:
        return group.name, old
    wanted = {"group_id": group.name, "topics": new}
    return {"groups": [wanted], "require_stable": version % 2 == 0}


def _found(answer: Any, version: int) -> tuple[dict[tuple[Any, int], Committed], int]:
    """Return the committed offsets of an answer, and its error."""
    if version >= _FIRST_WITH_GROUPS:
        answer = answer.groups[0]
    found: dict[tuple[Any, int], Committed] = {}
    code = answer.error_code
    for topic in answer.topics:
        key = topic.topic_id if version >= _FIRST_WITH_IDS else topic.name
        for one in topic.partitions:
            if one.error_code == _UNSTABLE:
                found[key, one.partition_index] = _PENDING
            elif one.error_code != _UNKNOWN_ID:
                code = code or one.error_code
            if one.committed_offset != NOTHING.offset:
                found[key, one.partition_index] = Committed(*one[1:4])
    return found, code
