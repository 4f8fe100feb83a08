"""Requests of stock clients: many partitions a request, sessions, one request of each kind."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from bench.clients import messages
from bench.clients.messages import message
from bench.clients.playing import Playing, twice
from bench.clients.requests import HUNDRED, MANY, Surroundings
from bench.clients.scripts import Patch, Script, counter_patch, find_refusal, rehearse
from bench.clients.topics import end_offsets, fill_empty, make_topics, produce, topic_ids
from bench.connection import frame
from bench.frames import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from uuid import UUID

    from bench.brokers import Broker
    from bench.clients.scripts import Step
    from bench.connection import Connection

_SESSION_MAX_BYTES: Final = 50 << 20
_PARTITION_MAX_BYTES: Final = 1 << 20
_MARKS: Final = (0x1122_3344_5566_7788, 0x0102_0304_0506_0708)
_NO_FLIPS: Final = (0,) * 32


@dataclass(frozen=True, kw_only=True)
class ProduceMany(Playing):
    """Produce of the newest version with several partitions, one record of 100 bytes each.

    Each connection goes round the partitions, so that requests of two connections overlap.
    """

    partitions: int = 10
    topic: str = "ask-produced"
    topic_partitions: int = 100
    record_bytes: int = 100

    def scripts(self, broker: Broker, connection: Connection) -> Sequence[Script]:  # noqa: ARG002
        """Return four requests for each connection."""
        make_topics(connection, {self.topic: self.topic_partitions})
        topic_id = topic_ids(connection, [self.topic])[self.topic]
        batch = batch_of(0, self.record_bytes, int(time.time() * 1000))
        return [
            Script(
                [self._step(connection, topic_id, batch, 4 * number + turn) for turn in range(4)],
                self.inflight,
            )
            for number in range(self.connections)
        ]

    def _step(self, connection: Connection, topic_id: UUID, batch: bytes, number: int) -> Step:
        first = number * self.partitions * 3 % self.topic_partitions
        indexes = [(first + each) % self.topic_partitions for each in range(self.partitions)]
        return rehearse(connection, produce(topic_id, dict.fromkeys(indexes, batch)))


@dataclass(frozen=True, kw_only=True)
class Sessions(Playing):
    """Incremental fetches in a session for each connection, whose partitions have been read.

    Of some partitions, ``moved`` of them, the client asks for the last record again in each
    request, as it lists those that it got records of. If ``grows`` it produces that record before.
    """

    partitions: int
    moved: int = 0
    grows: bool = False

    def scripts(self, broker: Broker, connection: Connection) -> Sequence[Script]:  # noqa: ARG002
        """Begin the sessions and return a request for each, with the one before it."""
        quiet, lively = f"ask-quiet-{self.partitions}", f"ask-lively-{self.partitions}"
        topics = {quiet: self.partitions}
        if self.moved:
            topics[lively] = self.moved * self.connections
        make_topics(connection, topics)
        ids = topic_ids(connection, topics)
        batch = batch_of(0, 100, int(time.time() * 1000))
        for name, count in topics.items():
            fill_empty(connection, name, ids[name], range(count), batch)
        return [
            self._script(connection, ids[quiet], lively, ids.get(lively), number, batch)
            for number in range(self.connections)
        ]

    def finish(self, connection: Connection, scripts: Sequence[Script]) -> None:
        """End the sessions."""
        for script in scripts:
            data = script.steps[-1].frame
            session = int.from_bytes(data[_session_at() : _session_at() + 4], "big", signed=True)
            refusal = find_refusal(connection.ask(_fetch(session, -1, [])))
            if refusal is not None:
                raise RuntimeError(f"session {session} was not ended: {refusal}")

    def _script(
        self,
        connection: Connection,
        quiet_id: UUID,
        lively: str,
        lively_id: UUID | None,
        number: int,
        batch: bytes,
    ) -> Script:
        quiet = (quiet_id, dict.fromkeys(range(self.partitions - self.moved), 1))
        steps: list[Step] = []
        if lively_id is None:
            session = self._begin(connection, [quiet])
            request, other = (_fetch(session, epoch, []) for epoch in _epochs())
            steps.append(self._rehearsed(connection, session, [], (request, other)))
            return Script(steps, counter=2)
        own = range(number * self.moved, (number + 1) * self.moved)
        ends = end_offsets(connection, lively, own)
        session = self._begin(connection, [quiet, (lively_id, ends)])
        patches: list[Patch] = []
        if self.grows:
            steps.append(rehearse(connection, produce(lively_id, dict.fromkeys(own, batch))))
            asked = ends
        else:
            asked = {index: end - 1 for index, end in ends.items()}
        topics = [(lively_id, asked)]
        request, other = (_fetch(session, epoch, topics) for epoch in _epochs())
        if self.grows:
            patches += _offset_patches(session, lively_id, own)
        steps.append(self._rehearsed(connection, session, topics, (request, other), patches))
        if self.grows:  # the rehearsal has appended and read a record of each
            moved = {index: end + 1 for index, end in ends.items()}
            data = frame(_fetch(session, 1, [(lively_id, moved)]))
            last = steps[-1]
            steps[-1] = type(last)(data, last.answer, 0, last.checks, last.patches)
        return Script(steps, counter=2)

    @staticmethod
    def _begin(connection: Connection, topics: Sequence[tuple[UUID, Mapping[int, int]]]) -> int:
        answer = connection.ask(_fetch(0, 0, topics))
        if find_refusal(answer) is not None or not answer.session_id:
            raise RuntimeError(f"no session was begun: {find_refusal(answer)}")
        session: int = answer.session_id
        return session

    @staticmethod
    def _rehearsed(
        connection: Connection,
        session: int,
        topics: Sequence[tuple[UUID, Mapping[int, int]]],
        differing: tuple[Any, Any],
        patches: Sequence[Patch] = (),
    ) -> Step:
        return rehearse(
            connection, _fetch(session, 1, topics), [counter_patch(*differing), *patches]
        )


def _epochs() -> tuple[int, int]:
    return 0x0101_0101, 0x0202_0202


def _fetch(session: int, epoch: int, topics: Sequence[tuple[UUID, Mapping[int, int]]]) -> Any:
    """Return a Fetch that does not wait; topics have an offset for each partition."""
    return message(
        messages.FETCH,
        max_wait=timedelta(0),
        min_bytes=1,
        max_bytes=_SESSION_MAX_BYTES,
        isolation_level=0,
        session_id=session,
        session_epoch=epoch,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition": index,
                        "fetch_offset": offset,
                        "partition_max_bytes": _PARTITION_MAX_BYTES,
                    }
                    for index, offset in offsets.items()
                ],
            }
            for topic_id, offsets in topics
        ],
        forgotten_topics_data=(),
        rack_id="",
    )


def _session_at() -> int:
    """Return where the session's id stands in a Fetch."""
    mark = 0x1122_3344
    return frame(_fetch(mark, 0, [])).index(mark.to_bytes(4, "big"))


def _offset_patches(session: int, topic_id: UUID, indexes: Sequence[int]) -> list[Patch]:
    """Return patches that raise each fetch offset by one a time: its low half has no CRC."""
    data, at, patches = (
        frame(_fetch(session, 1, [(topic_id, dict.fromkeys(indexes, _MARKS[0]))])),
        0,
        [],
    )
    for _ in indexes:
        at = data.index(_MARKS[0].to_bytes(8, "big"), at)
        at += 4
        patches.append(Patch(at, 1, 0, _NO_FLIPS))
    return patches


@dataclass(frozen=True, kw_only=True)
class Asking(Playing):
    """One request of one kind, from each of four connections."""

    request: Callable[[Surroundings], Any]
    surroundings: dict[str, Surroundings] = field(default_factory=dict)  # by broker, of all cases

    def scripts(self, broker: Broker, connection: Connection) -> Sequence[Script]:
        """Return the same request for each connection."""
        around = self.surroundings.get(broker.name)
        if around is None:
            around = self.surroundings[broker.name] = Surroundings(connection)
        around.connection = connection
        return [
            Script([rehearse(connection, self.request(around))], self.inflight)
            for _ in range(self.connections)
        ]


def asking_cases() -> list[Asking]:
    """Return one request of each kind, of one element and of many."""
    shared: dict[str, Surroundings] = {}
    hot, rest = twice(2, 0.5), twice(1.1, 0.9)
    rows: list[tuple[str, dict[str, Any], Callable[[Surroundings], Any]]] = [
        ("Metadata, 1 topic", rest, lambda on: on.metadata(MANY[:1])),
        ("Metadata, 20 topics", hot, lambda on: on.metadata(MANY[:20])),
        ("Metadata, 100 topics", hot, lambda on: on.metadata(MANY)),
        ("Metadata, 100 partitions", hot, lambda on: on.metadata([HUNDRED])),
        ("Metadata, everything", hot, lambda on: on.metadata(None)),
        ("ListOffsets, 1", rest, lambda on: on.list_offsets(1)),
        ("ListOffsets, 100", hot, lambda on: on.list_offsets(100)),
        ("OffsetFetch, 1", rest, lambda on: on.offset_fetch(1)),
        ("OffsetFetch, 100", hot, lambda on: on.offset_fetch(100)),
        ("OffsetCommit, 1", rest, lambda on: on.offset_commit(1)),
        ("OffsetCommit, 20", twice(3, 0.2), lambda on: on.offset_commit(20)),
        ("OffsetCommit, 100", hot, lambda on: on.offset_commit(100)),
        ("Fetch in full, 1 quiet", rest, lambda on: on.fetch(1, 1)),
        ("Fetch in full, 100 quiet", hot, lambda on: on.fetch(100, 1)),
        ("Fetch in full, 1 with a record", rest, lambda on: on.fetch(1, 0)),
        ("Fetch in full, 100 with a record", hot, lambda on: on.fetch(100, 0)),
        ("DescribeTopicPartitions, 1", rest, lambda on: on.describe_topic(MANY[:1])),
        ("DescribeTopicPartitions, 100", hot, lambda on: on.describe_topic([HUNDRED])),
        ("Heartbeat", twice(2.2, 0.35), lambda on: on.heartbeat()),
        ("ConsumerGroupHeartbeat", rest, lambda on: on.consumer_heartbeat()),
        ("ConsumerGroupDescribe, 1", rest, lambda on: on.consumer_describe(1)),
        ("ConsumerGroupDescribe, 100", rest, lambda on: on.consumer_describe(100)),
        ("FindCoordinator, 1", rest, lambda on: on.find_coordinator(1)),
        ("FindCoordinator, 100", rest, lambda on: on.find_coordinator(100)),
        ("DescribeGroups, 1", rest, lambda on: on.describe_groups(1)),
        ("DescribeGroups, 100", rest, lambda on: on.describe_groups(100)),
        ("ListGroups", rest, lambda on: on.list_groups()),
        ("ApiVersions", rest, lambda on: on.api_versions()),
        ("InitProducerId", rest, lambda on: on.init_producer_id()),
        ("OffsetForLeaderEpoch, 1", rest, lambda on: on.leader_epochs(1)),
        ("OffsetForLeaderEpoch, 100", rest, lambda on: on.leader_epochs(100)),
        ("OffsetDelete, 1", rest, lambda on: on.offset_delete(1)),
        ("OffsetDelete, 100", rest, lambda on: on.offset_delete(100)),
        ("DescribeConfigs, 1 topic", rest, lambda on: on.describe_configs(1)),
        ("DescribeConfigs, 100 topics", rest, lambda on: on.describe_configs(100)),
        ("DescribeConfigs, broker", rest, lambda on: on.describe_broker_configs()),
        ("DescribeLogDirs, 1", rest, lambda on: on.describe_log_dirs(1)),
        ("DescribeLogDirs, 100", rest, lambda on: on.describe_log_dirs(100)),
        ("DescribeProducers, 1", rest, lambda on: on.describe_producers(1)),
        ("DescribeProducers, 100", rest, lambda on: on.describe_producers(100)),
        ("DeleteRecords, 1", rest, lambda on: on.delete_records(1)),
        ("DeleteRecords, 100", rest, lambda on: on.delete_records(100)),
        ("CreateTopics, 1, validated", rest, lambda on: on.create_topics(1)),
        ("CreateTopics, 100, validated", rest, lambda on: on.create_topics(100)),
        ("IncrementalAlterConfigs, 1, validated", rest, lambda on: on.alter_configs(1)),
        ("IncrementalAlterConfigs, 100, validated", rest, lambda on: on.alter_configs(100)),
        ("DescribeCluster", rest, lambda on: on.describe_cluster()),
        ("DescribeQuorum", rest, lambda on: on.describe_quorum()),
        ("ListTransactions", rest, lambda on: on.list_transactions()),
        ("ListConfigResources", rest, lambda on: on.list_config_resources()),
        ("ListPartitionReassignments", rest, lambda on: on.list_reassignments()),
    ]
    # Apache Kafka takes ids by the thousand and refuses while it waits for more.
    loading = ErrorCode.coordinator_load_in_progress.value
    return [
        Asking(
            name=f"ask {name}",
            expected=expected,
            request=request,
            surroundings=shared,
            tolerated=loading if name == "InitProducerId" else 0,
        )
        for name, expected, request in rows
    ]


def many_partition_cases() -> list[ProduceMany | Sessions]:
    """Return requests of several partitions, and sessions."""
    return [
        ProduceMany(
            name="produce 100 B, 8x1, 10 partitions", connections=8, expected=twice(2, 0.4)
        ),
        ProduceMany(
            name="produce 100 B, 8x8, 10 partitions",
            connections=8,
            inflight=8,
            expected=twice(2, 0.4),
        ),
        ProduceMany(
            name="produce 100 B, 4x5, 50 partitions",
            connections=4,
            inflight=5,
            partitions=50,
            expected=twice(2, 0.4),
        ),
        Sessions(
            name="session of 100, quiet, 8x1",
            connections=8,
            partitions=100,
            expected=twice(3, 0.3),
        ),
        Sessions(name="session of 1,000, quiet, 4x1", partitions=1000, expected=twice(20, 0.03)),
        Sessions(
            name="session of 1,000, 10 with records, 4x1",
            partitions=1000,
            moved=10,
            expected=twice(3, 0.3),
        ),
        Sessions(name="session of 1,000, 10 that grow, 4x1", partitions=1000, moved=10, grows=True),
    ]
