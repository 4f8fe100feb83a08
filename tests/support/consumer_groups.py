"""A consumer group with topics, time and heartbeats of the test, without a broker."""

import struct
from collections.abc import Callable, KeysView, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple, TypeVar
from uuid import UUID

import pytest

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.consumer.changes import Changes
from siltstone.broker.groups.consumer.group import ConsumerGroup
from siltstone.broker.groups.consumer.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    heartbeat,
    leave,
)
from siltstone.broker.groups.consumer.membership import fence
from siltstone.broker.groups.consumer.policy import Policy, World
from siltstone.broker.groups.consumer.regex_refresh import (
    find_stale,
    last_resolved_ms,
    take_matches,
)
from siltstone.broker.groups.consumer.regexes import Regexes
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.member_bytes import MemberBytes
from siltstone.broker.process.loop_share import LoopShare
from siltstone.protocol.coordinator.consumer_group_records import (
    OwnedPartitions,
    decode_key,
    decode_value,
)
from siltstone.protocol.errors import KafkaError
from tests.support.clock import FakeClock

T = TypeVar("T")


class Topic(NamedTuple):
    """A topic of the image."""

    name: str
    id: UUID
    partitions: int


class Topics:
    """A TopicImage that the test changes: ``topics.put("a", 3)``, ``topics.drop("a")``."""

    def __init__(self, **partitions: int) -> None:
        self.version = 0
        self._by_name: dict[str, Topic] = {}
        self._made = 0
        for name, count in partitions.items():
            self.put(name, count)

    def put(self, name: str, partitions: int) -> UUID:
        """Create a topic, or give it so many partitions."""
        known = self._by_name.get(name)
        self._made += known is None
        topic_id = UUID(int=1000 + self._made) if known is None else known.id
        self._by_name[name] = Topic(name, topic_id, partitions)
        self.version += 1
        return topic_id

    def drop(self, name: str) -> None:
        """Delete a topic."""
        del self._by_name[name]
        self.version += 1

    def id(self, name: str) -> UUID:
        """Return the id of a topic."""
        return self._by_name[name].id

    def names(self) -> KeysView[str]:
        """Return all names."""
        return self._by_name.keys()

    def find(self, name: str) -> Topic | None:
        """Return a topic by its name."""
        return self._by_name.get(name)

    def find_id(self, topic_id: UUID) -> Topic | None:
        """Return a topic by its id."""
        return next((each for each in self._by_name.values() if each.id == topic_id), None)


def match_at_once(regexes: Regexes, regex: str, topics: Topics) -> frozenset[str]:
    """Return the topics that an expression matches, without letting other work run."""
    with pytest.raises(StopIteration) as end:
        regexes.match(regex, topics, LoopShare(60.0)).send(None)
    result: frozenset[str] = end.value.value
    return result


class GroupInHand:
    """One group, driven as the coordinator does, with a journal instead of a log.

    ``stale`` are the expressions that a heartbeat has asked to be matched: `match` does it.
    """

    def __init__(self, topics: Topics | None = None, **policy: object) -> None:
        self.topics = Topics(a=3) if topics is None else topics
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        self.policy = Policy(**{"assignment_interval_ms": 0} | policy)  # type: ignore[arg-type]
        self.regexes = Regexes(MemberBytes(lambda _: None))
        self.deadlines = Deadlines(self.timers, self._missed)
        self.group = ConsumerGroup("g", 0)
        self.journal: list[tuple[bytes, bytes | None]] = []
        self.fenced: list[tuple[str, Deadline]] = []
        self.stale: frozenset[str] = frozenset()

    @property
    def world(self) -> World:
        """The surroundings of the group right now."""
        return World(
            policy=self.policy, image=self.topics, regexes=self.regexes, now_ms=self.clock.now_ms()
        )

    def write(self, transition: Callable[[Changes], T]) -> T:
        """Run a transition: into the journal if it succeeds, undone if it is refused."""
        changes = Changes(self.group)
        try:
            result = transition(changes)
        except KafkaError:
            changes.undo()
            raise
        finally:
            changes.settle_all(self.deadlines, self.regexes)
        self.journal += changes.encode()
        return result

    def beat(self, member_id: str, epoch: int, **said: object) -> HeartbeatResult:
        """Send a heartbeat."""
        request = HeartbeatRequest(
            member_id=member_id,
            member_epoch=epoch,
            client_id="client",
            client_host="/127.0.0.1",
            **said,  # type: ignore[arg-type]
        )
        last_ms = last_resolved_ms(self.group)
        act = leave if request.is_leaving else heartbeat
        result = self.write(lambda changes: act(changes, request, self.world))
        if not request.is_leaving:
            self.stale = self.stale or find_stale(self.group, last_ms, self.world)
        return result

    def match(self) -> None:
        """Match the expressions that are to be matched."""
        stale, self.stale = self.stale, frozenset()
        if stale:
            found = {regex: match_at_once(self.regexes, regex, self.topics) for regex in stale}
            version = self.topics.version
            self.write(lambda changes: take_matches(changes, found, version, self.world))
            for regex in stale:
                self.regexes.settle(regex, self.group)

    def join(self, member_id: str, *names: str, **said: object) -> HeartbeatResult:
        """Let a member join that subscribes to topics, to "a" by default."""
        full: dict[str, object] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": names or ("a",),
            "owned": {},
        }
        return self.beat(member_id, 0, **(full | said))

    def advance(self, seconds: float) -> None:
        """Let time pass, and deadlines with it."""
        self.clock.advance(seconds * 1000)
        self.timers.run_due()

    def reload(self) -> ConsumerGroup:
        """Return the group as a start would read it from the journal."""
        loaded = ConsumerGroup("g", 0)
        for key, value in self.journal:
            decoded = decode_key(key)
            assert decoded is not None
            loaded.apply(decoded, None if value is None else decode_value(decoded.type, value))
        return loaded

    def _missed(self, member_id: str, deadline: Deadline) -> None:
        self.fenced.append((member_id, deadline))
        member = self.group.members.get(member_id)
        if member is not None:
            self.write(lambda changes: fence(changes, (member,), self.world))


def plain(owned: OwnedPartitions | None) -> dict[UUID, AbstractSet[int]] | None:
    """Return an assignment as a client sees it: partitions without epochs."""
    return None if owned is None else {topic: frozenset(each) for topic, each in owned.items()}


def count(partitions: Mapping[UUID, AbstractSet[int] | Mapping[int, int]]) -> int:
    """Return how many partitions there are."""
    return sum(map(len, partitions.values()))


def subscription(*topics: str, owned: Mapping[str, AbstractSet[int]] | None = None) -> bytes:
    """Return the metadata of a consumer that joins in the classic protocol, version 1."""
    names = b"".join(_text(topic) for topic in topics)
    has = b"".join(_text(topic) + _numbers(each) for topic, each in (owned or {}).items())
    head = struct.pack(">hi", 1, len(topics)) + names
    return head + struct.pack(">ii", -1, len(owned or {})) + has


def with_user_data(assignment: bytes, data: bytes) -> bytes:
    """Return an assignment with data of an assignor of its own."""
    return assignment[:-4] + struct.pack(">i", len(data)) + data


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _numbers(values: AbstractSet[int]) -> bytes:
    return struct.pack(f">i{len(values)}i", len(values), *sorted(values))
