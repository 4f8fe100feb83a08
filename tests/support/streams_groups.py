"""A streams group with topics, time and heartbeats of the test, without a broker."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.streams.changes import Changes
from siltstone.broker.groups.streams.group import StreamsGroup
from siltstone.broker.groups.streams.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    fence,
    heartbeat,
    leave,
)
from siltstone.broker.groups.streams.policy import STANDBY_REPLICAS, Policy, World
from siltstone.broker.groups.streams.target import assign
from siltstone.protocol.coordinator.streams_group_records import (
    CopartitionGroup,
    HeldTasks,
    Subtopology,
    TopicInfo,
    Topology,
    decode_key,
    decode_value,
)
from siltstone.protocol.errors import KafkaError
from tests.support.clock import FakeClock
from tests.support.consumer_groups import Topics

T = TypeVar("T")

COUNTING = Topology(
    1,
    (
        Subtopology("0", source_topics=("a",), repartition_sink_topics=("r",)),
        Subtopology(
            "1",
            repartition_source_topics=(TopicInfo("r"),),
            state_changelog_topics=(TopicInfo("c"),),
        ),
    ),
)
"""Topic "a" is repartitioned by way of "r"; what comes is counted in a store, kept in "c"."""


class StreamsGroupInHand:
    """One group, driven as the coordinator does, with a journal instead of a log."""

    def __init__(self, topics: Topics | None = None, standby: int = 0, **policy: Any) -> None:
        self.topics = Topics(a=3, r=3, c=3) if topics is None else topics
        self.clock = FakeClock()
        self.timers = Timers(self.clock)
        quick = {"assignment_interval_ms": 0, "initial_rebalance_delay_ms": 0}
        self.policy = Policy(**{**quick, "configs": {STANDBY_REPLICAS: str(standby)}, **policy})
        self.deadlines = Deadlines(self.timers, self._missed)
        self.group = StreamsGroup("g", 0)
        self.journal: list[tuple[bytes, bytes | None]] = []

    @property
    def world(self) -> World:
        """The surroundings of the group right now."""
        return World(self.policy, self.topics, self.clock.now_ms())

    def write(self, transition: Callable[[Changes], T]) -> T:
        """Run a transition: into the journal if it succeeds, undone if it is refused."""
        changes = Changes(self.group)
        try:
            result = transition(changes)
        except KafkaError:
            changes.undo()
            raise
        finally:
            changes.settle(self.deadlines)
        self.journal += changes.encode()
        return result

    def beat(self, member_id: str, epoch: int, **said: Any) -> HeartbeatResult:
        """Send a heartbeat."""
        request = HeartbeatRequest(member_id, epoch, "client", "/127.0.0.1", **said)
        if request.is_leaving:
            return self.write(lambda changes: leave(changes, request))
        return self.write(lambda changes: heartbeat(changes, request, self.world))

    def join(self, member_id: str, process: str = "", **said: Any) -> HeartbeatResult:
        """Let a member join, by default in a process of its own."""
        full: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "topology": COUNTING,
            "process_id": process or member_id,
            "active": {},
            "standby": {},
            "warmup": {},
        }
        return self.beat(member_id, 0, **(full | said))

    def assign_first(self) -> None:
        """End the delay of the first assignment."""
        self.group.is_delayed = False
        configured = self.group.configured
        assert configured is not None
        self.write(lambda changes: assign(changes, configured, self.world))

    def advance(self, seconds: float) -> None:
        """Let time pass, and deadlines with it."""
        self.clock.advance(seconds * 1000)
        self.timers.run_due()

    def reload(self) -> StreamsGroup:
        """Return the group as a start would read it from the journal."""
        loaded = StreamsGroup("g", 0)
        for key, value in self.journal:
            decoded = decode_key(key)
            assert decoded is not None
            loaded.apply(decoded, None if value is None else decode_value(decoded.type, value))
        return loaded

    def _missed(self, member_id: str, deadline: Deadline) -> None:
        del deadline
        member = self.group.members.get(member_id)
        if member is not None:
            self.write(lambda changes: fence(changes, member))


def owned(tasks: HeldTasks | None) -> dict[str, Any]:
    """Return tasks as a client reports that it has them."""
    assert tasks is not None
    active = {name: frozenset(each) for name, each in tasks.active.items()}
    return {"active": active, "standby": tasks.standby, "warmup": tasks.warmup}


def count(role: Mapping[str, Any]) -> int:
    """Return how many tasks there are."""
    return sum(map(len, role.values()))


def joined(*sources: str) -> Topology:
    """Return a topology of one subtopology that joins topics."""
    group = CopartitionGroup(source_topics=tuple(range(len(sources))))
    return Topology(1, (Subtopology("0", source_topics=sources, copartition_groups=(group,)),))
