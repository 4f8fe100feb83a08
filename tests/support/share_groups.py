"""A share group with topics, time and heartbeats of the test, without a broker."""

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from siltstone.broker.coordination.timers import Timers
from siltstone.broker.groups.deadlines import Deadline, Deadlines
from siltstone.broker.groups.share import states
from siltstone.broker.groups.share.changes import Changes
from siltstone.broker.groups.share.group import ShareGroup
from siltstone.broker.groups.share.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    begin_states,
    fence,
    heartbeat,
)
from siltstone.broker.groups.share.policy import Policy, World
from siltstone.protocol.coordinator.share_group_records import decode_key, decode_value
from siltstone.protocol.errors import KafkaError
from tests.support.clock import FakeClock
from tests.support.consumer_groups import Topics

T = TypeVar("T")


class ShareGroupInHand:
    """One group, driven as the coordinator does, with a journal instead of a log.

    ``starts`` are the delivery states that heartbeats have asked for: `make` makes them.
    """

    def __init__(self, topics: Topics | None = None, **policy: int) -> None:
        self.topics = Topics(a=3) if topics is None else topics
        self.clock = FakeClock()
        self.policy = Policy(**{"assignment_interval_ms": 0} | policy)
        self.timers = Timers(self.clock)
        self.deadlines = Deadlines(self.timers, self._missed)
        self.group = ShareGroup("g", 0)
        self.journal: list[tuple[bytes, bytes | None]] = []
        self.starts: dict[tuple[UUID, int], int] = {}

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

    def beat(
        self, member_id: str, epoch: int, *names: str, rack_id: str | None = None
    ) -> HeartbeatResult:
        """Send a heartbeat; without names, the subscription is the one from before."""
        request = HeartbeatRequest(
            "g", member_id, epoch, "client", "/127.0.0.1", rack_id, tuple(sorted(names)) or None
        )

        def both(changes: Changes) -> HeartbeatResult:
            result = heartbeat(changes, request, self.world)
            self.starts |= begin_states(changes, self.world)
            return result

        return self.write(both)

    def leave(self, member_id: str) -> None:
        """Let a member leave."""
        member = self.group.get(member_id)
        self.write(lambda changes: fence(changes, (member,), self.world))
        self.deadlines.cancel(member_id)

    def make(self, settle: Callable[..., None] = states.complete) -> None:
        """Make the states that heartbeats have asked for; ``settle`` may give them up instead."""
        made: dict[UUID, frozenset[int]] = {}
        for topic_id, partition in self.starts:
            made[topic_id] = made.get(topic_id, frozenset()) | {partition}
        self.starts = {}
        self.write(lambda changes: settle(changes, made, self.world))

    def join(self, member_id: str, *names: str) -> HeartbeatResult:
        """Join, have the states made, and heartbeat until the assignment has arrived."""
        epoch = self.beat(member_id, 0, *names).member_epoch
        self.make()
        return self.beat(member_id, epoch, *names)

    def replayed(self) -> ShareGroup:
        """Return the group as the journal describes it."""
        group = ShareGroup("g", 0)
        for key, value in self.journal:
            known = decode_key(key)
            assert known is not None
            group.apply(known, None if value is None else decode_value(known.type, value))
        return group

    def _missed(self, member_id: str, deadline: Deadline) -> None:
        assert deadline is Deadline.SESSION
        self.leave(member_id)
