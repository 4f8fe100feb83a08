"""Plays what was recorded of an application, on any broker, as fast as answers come.

A recording names topics, members, producers and sessions of a broker that is gone. Each client of
a case is one connection that sends the application's requests in their order, so that the mix
stays what it was. Before that it does what the application did once: it enters the group, begins
the fetch session, gets a producer id. What is different from the recording:

* No request waits: a Fetch that found nothing comes back at once.
* A partition of a topic that is read has one batch, as big as what a Fetch mostly got from one.
  Where the recorded Fetch got records the offset is 0, elsewhere the end. What is produced goes to
  a topic of its own, so that what is read does not grow.
* Batches have times of today, the sequences of a live producer, and no transaction.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import struct
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import crc32c

from bench.clients import messages
from bench.clients.playing import Playing
from bench.clients.recording import (
    begins_session,
    busy_from,
    is_data,
    most_in_flight,
    read,
    read_request,
)
from bench.clients.scripts import (
    Patch,
    Script,
    Step,
    count_of,
    counter_patch,
    find_refusal,
    producer_of,
    sequence_patches,
    step_of,
    with_producer,
)
from bench.clients.topics import (
    await_producer_ids,
    end_offsets,
    fill_empty,
    init_producer_id,
    make_topics,
    topic_ids,
)
from bench.connection import Connection, frame, part, read_answer
from bench.group_cases import await_coordinator
from bench.group_requests import commit, enter
from siltstone.broker.api import BY_KEY
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.brokers import Broker
    from bench.clients.recording import Recording, Request

RECORDINGS: Final = Path(__file__).parent / "recordings"
_STEPS: Final = 160
"""Requests of a cycle, at most."""

_ONCE: Final = frozenset(
    {
        messages.JOIN_GROUP,
        messages.SYNC_GROUP,
        messages.LEAVE_GROUP,
        messages.INIT_PRODUCER_ID,
        messages.CREATE_TOPICS,
        messages.CONSUMER_GROUP_HEARTBEAT,
    }
)
"""Requests that change the members; they are sent once, before."""

_GROUP_FIELDS: Final = frozenset({"group_id", "group_ids", "groups", "coordinator_keys", "key"})
_RECORD_BYTES: Final = 100
_RECORD_OVERHEAD: Final = 6
_TIMES_AT: Final = 27
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_EPOCHS: Final = (0x0101_0101, 0x0202_0202)
_MOST_IN_FLIGHT: Final = 8


@dataclass(frozen=True, kw_only=True)
class Mix(Playing):
    """Some clients that each do what a recorded application did."""

    path: Path
    recordings: dict[str, Recording] = field(default_factory=dict)

    def scripts(self, broker: Broker, connection: Connection) -> Sequence[Script]:  # noqa: ARG002
        """Return a script for each client."""
        if not self.recordings:
            self.recordings[""] = read(self.path)
        stage = Stage(self.recordings[""], connection)
        return [Client(stage, number).script() for number in range(self.connections)]


def mix_cases() -> list[Mix]:
    """Return a case for each recording."""
    return [
        Mix(name=f"mix {path.name.removesuffix('.jsonl.xz')}", path=path)
        for path in sorted(RECORDINGS.glob("*.jsonl.xz"))
    ]


def produced_name(topic: str) -> str:
    """Return where it goes what an application produces to a topic."""
    return f"{topic}-in"


class Stage:
    """The topics that the clients of a recording share."""

    def __init__(self, recording: Recording, connection: Connection) -> None:
        self.connection = connection
        self.recorded = recording.requests
        self.requests = [each for each in recording.requests if each.data and each.api in BY_KEY]
        self.names = {topic.topic_id: name for name, topic in recording.topics.items()}
        known = {
            name: topic.partitions
            for name, topic in recording.topics.items()
            if not name.startswith("__")
        }
        if not known:
            raise RuntimeError(f"the recording of {recording.application} has no topic")
        self.first_topic = next(iter(known))
        make_topics(connection, {**known, **{produced_name(n): c for n, c in known.items()}})
        self.ids = topic_ids(connection, [*known, *map(produced_name, known)])
        await_producer_ids(connection)
        now_ms = int(time.time() * 1000)
        for name, share in self._shares().items():
            batch = _batch(max(1, share // (_RECORD_BYTES + _RECORD_OVERHEAD)), now_ms)
            fill_empty(connection, name, self.ids[name], range(known[name]), batch)
        self.ends = {
            name: end_offsets(connection, name, range(count)) for name, count in known.items()
        }
        self.joined = {
            read_request(each.data).group_id
            for each in self.requests
            if each.api in {messages.JOIN_GROUP, messages.CONSUMER_GROUP_HEARTBEAT}
        }
        self._make_groups()

    @property
    def inflight(self) -> int:
        """How many Produce of a connection were on their way at once; librdkafka has no limit."""
        produced = (each for each in self.requests if each.api == messages.PRODUCE)
        return max(1, min(_MOST_IN_FLIGHT, most_in_flight(produced)))

    def cycle(self) -> list[Request]:
        """Return the requests that are played again and again."""
        start = busy_from(self.requests)
        lasting = [each for each in self.requests if each.at >= start and not _is_once(each)]
        data = [each for each in lasting if is_data(each)]
        others = [each for each in lasting if not is_data(each)]
        if data:  # of the others, too, as many as of what there is very much of
            seen = sum(is_data(each) and each.at >= start for each in self.recorded)
            others = others[:: max(1, round(seen / len(data)))]
        chosen = sorted([*data, *others], key=lambda each: each.at)
        return chosen[:: math.ceil(len(chosen) / _STEPS)]

    def _shares(self) -> dict[str, int]:
        """Return how much a Fetch mostly got of a partition, by topic."""
        found: dict[str, list[int]] = defaultdict(list)
        for request in self.requests:
            for name, _, size in request.returned:
                if name in self.ids:
                    found[name].append(size)
        return {name: int(statistics.median(sizes)) for name, sizes in found.items()}

    def _make_groups(self) -> None:
        """Make the groups that clients ask about and do not join."""
        groups: set[str] = set()
        for each in self.requests:
            if each.api in {messages.DESCRIBE_GROUPS, messages.OFFSET_FETCH}:
                asked = read_request(each.data)
                rows = getattr(asked, "groups", None) or [getattr(asked, "group_id", None)]
                groups |= {getattr(row, "group_id", row) for row in rows} - {None}
        for group in sorted(groups - self.joined):
            await_coordinator(self.connection, [group])
            refusal = find_refusal(self.connection.ask(commit(group, self.first_topic, [0], 0)))
            if refusal is not None:
                raise RuntimeError(f"{group} could not commit: {refusal}")


class Client:
    """One client: its own group, session and producers, and a script of the recorded requests."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage = stage
        self._connection = stage.connection
        self._groups = {name: f"{name}-{number}-{time.time_ns()}" for name in stage.joined}
        self._members: dict[str, tuple[str, int]] = {}
        for group in self._groups.values():
            await_coordinator(self._connection, [group])
            self._members[group] = enter(self._connection, group, stage.first_topic)
        self._producers: dict[int, tuple[int, int]] = {}
        self._session = 0
        self._epoch = 0

    def script(self) -> Script:
        """Rehearse the cycle once and return it."""
        cycle = self._stage.cycle()
        self._begin_session()
        rising = self._rising(cycle)
        sequences: Counter[tuple[int, str, int]] = Counter()
        fetches = [each for each in cycle if each.api == messages.FETCH]
        before = dict(zip(map(id, fetches), fetches[-1:] + fetches[:-1], strict=True))
        steps = []
        for each in cycle:
            if each.api == messages.PRODUCE:
                steps.append(self._produce(each, rising, sequences))
            elif each.api == messages.FETCH:
                steps.append(self._fetch(each, before[id(each)]))
            else:
                request = self._translated(read_request(each.data))
                steps.append(self._rehearsed(each, request))
        return Script(steps, self._stage.inflight, self._epoch)

    def _rehearsed(self, recorded: Request, request: Any, patches: Sequence[Patch] = ()) -> Step:
        data = frame(request, recorded.client)
        body = self._connection.exchange(data)
        answer = read_answer(type(request), body)
        refusal = find_refusal(answer)
        received = len(body).to_bytes(4, "big") + body
        if refusal is None:
            return step_of(request, data, received, answer, patches)
        if not recorded.refused:
            raise RuntimeError(f"{request} was refused, which the recorded one was not: {refusal}")
        return Step(data, received, len(received), (), tuple(patches))

    # -- Produce ------------------------------------------------------------------------------

    def _rising(self, cycle: Iterable[Request]) -> Counter[tuple[int, str, int]]:
        """Return how many records a cycle appends, by recorded producer and partition."""
        found: Counter[tuple[int, str, int]] = Counter()
        for each in cycle:
            if each.api == messages.PRODUCE:
                for name, row in self._produced(read_request(each.data)):
                    producer = producer_of(row.records)[0]
                    found[producer, name, row.index] += count_of(row.records)
        return found

    def _produced(self, request: Any) -> Iterable[tuple[str, Any]]:
        if request.transactional_id is not None:
            raise RuntimeError("transactions of a recording cannot be played")
        for topic in request.topic_data:
            for row in topic.partition_data:
                yield self._name(topic), row

    def _produce(
        self,
        recorded: Request,
        rising: Mapping[tuple[int, str, int], int],
        sequences: Counter[tuple[int, str, int]],
    ) -> Step:
        request = read_request(recorded.data)
        first, later, batches, steps = {}, {}, [], []
        for name, row in self._produced(request):
            batch = _restamped(bytes(row.records), int(time.time() * 1000))
            recorded_id = producer_of(batch)[0]
            key = (recorded_id, name, row.index)
            step = 0
            if recorded_id >= 0:
                producer_id, epoch = self._producer(recorded_id)
                step, sequence = rising[key], sequences[key]
                first[key] = with_producer(batch, producer_id, epoch, sequence)
                later[key] = with_producer(batch, producer_id, epoch, sequence + step)
                sequences[key] += count_of(batch)
            else:
                first[key] = later[key] = batch
            batches.append(later[key])
            steps.append(step)
        got = self._rehearsed(recorded, self._with_batches(request, first))
        data = frame(self._with_batches(request, later), recorded.client)
        return dataclasses.replace(
            got, frame=data, patches=tuple(sequence_patches(data, batches, steps))
        )

    def _with_batches(self, request: Any, batches: Mapping[tuple[int, str, int], bytes]) -> Any:
        topics = []
        for topic in request.topic_data:
            name = self._name(topic)
            rows = tuple(
                dataclasses.replace(
                    row, records=batches[producer_of(row.records)[0], name, row.index]
                )
                for row in topic.partition_data
            )
            topics.append(self._renamed(topic, produced_name(name), partition_data=rows))
        return dataclasses.replace(request, topic_data=tuple(topics))

    def _producer(self, recorded_id: int) -> tuple[int, int]:
        if recorded_id not in self._producers:
            answer = self._connection.ask(init_producer_id())
            self._producers[recorded_id] = (answer.producer_id, answer.producer_epoch)
        return self._producers[recorded_id]

    # -- Fetch --------------------------------------------------------------------------------

    def _begin_session(self) -> None:
        """Begin one session over all partitions that the recorded ones began with."""
        rows: dict[tuple[str, int], Any] = {}
        full = None
        for each in self._stage.requests:
            if each.api == messages.FETCH and begins_session(request := read_request(each.data)):
                full = full or request
                rows = {**self._rows(request), **rows}
        if full is None:
            return
        quiet = {key: self._at_end(key, row) for key, row in rows.items()}
        answer = self._connection.ask(self._with_rows(full, quiet))
        if find_refusal(answer) is not None or not answer.session_id:
            raise RuntimeError(f"no session was begun: {find_refusal(answer)}")
        self._session, self._epoch = answer.session_id, 1

    def _fetch(self, recorded: Request, before: Request) -> Step:
        request = read_request(recorded.data)
        returned = _returned(recorded)
        rows = self._rows(request)
        in_session = bool(getattr(request, "session_id", 0)) and bool(self._session)
        if in_session:
            forgotten = {
                (self._name(topic), index)
                for topic in request.forgotten_topics_data
                for index in topic.partitions
            }
            kind = part(request, "FetchPartition")
            template = next(iter(rows.values()), None) or kind(
                partition=0, fetch_offset=0, partition_max_bytes=1 << 20
            )
            for key in sorted((returned | _returned(before)) - rows.keys() - forgotten):
                if key[0] in self._stage.ids:
                    rows[key] = dataclasses.replace(template, partition=key[1])
        at = {
            key: dataclasses.replace(row, fetch_offset=0)
            if key in returned
            else self._at_end(key, row)
            for key, row in rows.items()
        }
        request = self._with_rows(request, at)
        if not in_session:
            if getattr(request, "session_id", 0):
                raise RuntimeError("a Fetch is of a session whose beginning was not recorded")
            return self._rehearsed(recorded, request)
        request = dataclasses.replace(request, session_id=self._session)
        one, other = (dataclasses.replace(request, session_epoch=epoch) for epoch in _EPOCHS)
        patch = counter_patch(one, other, recorded.client)
        now = dataclasses.replace(request, session_epoch=self._epoch)
        self._epoch += 1
        return self._rehearsed(recorded, now, [patch])

    def _rows(self, request: Any) -> dict[tuple[str, int], Any]:
        return {
            (self._name(topic), row.partition): row
            for topic in request.topics
            for row in topic.partitions
        }

    def _at_end(self, key: tuple[str, int], row: Any) -> Any:
        return dataclasses.replace(row, fetch_offset=self._stage.ends[key[0]][key[1]])

    def _with_rows(self, request: Any, rows: Mapping[tuple[str, int], Any]) -> Any:
        """Return a Fetch of these partitions that does not wait."""
        kind = part(request, "FetchTopic")
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for (name, _), row in rows.items():
            by_topic[name].append(row)
        changes: dict[str, Any] = {
            "max_wait": timedelta(0),
            "topics": tuple(
                kind(partitions=tuple(each), **self._called(kind, name))
                for name, each in by_topic.items()
            ),
        }
        if hasattr(request, "forgotten_topics_data"):
            changes["forgotten_topics_data"] = tuple(self._forgotten(request, rows))
        return dataclasses.replace(request, **changes)

    def _forgotten(self, request: Any, rows: Mapping[tuple[str, int], Any]) -> Iterable[Any]:
        for topic in request.forgotten_topics_data:
            name = self._name(topic)
            left = tuple(index for index in topic.partitions if (name, index) not in rows)
            if left:
                yield self._renamed(topic, name, partitions=left)

    # -- what else names things of the broker that is gone --------------------------------------

    def _name(self, topic: Any) -> str:
        """Return the name of a topic in a request that has its name or its id."""
        for each in ("name", "topic"):
            if getattr(topic, each, None):
                return str(getattr(topic, each))
        return self._stage.names[topic.topic_id]

    def _called(self, kind: Any, name: str) -> dict[str, Any]:
        """Return the field that says which topic it is."""
        fields = {each.name for each in dataclasses.fields(kind)}
        if "topic_id" in fields:
            return {"topic_id": self._stage.ids[name]}
        return {"topic" if "topic" in fields else "name": name}

    def _renamed(self, topic: Any, name: str, **changes: Any) -> Any:
        return dataclasses.replace(topic, **self._called(type(topic), name), **changes)

    def _translated(self, request: Any) -> Any:
        group = self._groups.get(getattr(request, "group_id", ""), "")
        return self._walked(request, group)

    def _walked(self, part: Any, group: str) -> Any:
        if isinstance(part, tuple):
            return tuple(self._walked(each, group) for each in part)
        if isinstance(part, UUID):
            return self._stage.ids.get(self._stage.names.get(part, ""), part)
        if not dataclasses.is_dataclass(part) or isinstance(part, type):
            return part
        group = self._groups.get(getattr(part, "group_id", ""), group)
        changes: dict[str, Any] = {}
        for each in dataclasses.fields(part):
            value = getattr(part, each.name)
            if each.name == "member_id" and value and group:
                changes[each.name] = self._members[group][0]
            elif each.name in {"generation_id", "generation_id_or_member_epoch"} and group:
                changes[each.name] = self._members[group][1]
            elif each.name in _GROUP_FIELDS:
                changes[each.name] = self._regrouped(value, group)
            elif each.name == "offset" and type(part).__name__ == "DeleteRecordsPartition":
                changes[each.name] = 0
            else:
                changes[each.name] = self._walked(value, group)
        return dataclasses.replace(part, **changes)

    def _regrouped(self, value: Any, group: str) -> Any:
        """Return the live name of a group, those of several, or rows that are about groups."""
        if isinstance(value, str):
            return self._groups.get(value, value)
        if isinstance(value, tuple) and all(isinstance(each, str) for each in value):
            return tuple(self._groups.get(each, each) for each in value)
        return self._walked(value, group)


def _is_once(request: Request) -> bool:
    if request.api == messages.FETCH:
        fetch = read_request(request.data)
        return begins_session(fetch) or _ends_session(fetch)
    return request.api in _ONCE


def _ends_session(fetch: Any) -> bool:
    return getattr(fetch, "session_epoch", -1) == -1 and bool(getattr(fetch, "session_id", 0))


def _returned(request: Request) -> set[tuple[str, int]]:
    return {(name, index) for name, index, _ in request.returned}


def _batch(count: int, now_ms: int) -> bytes:
    value = bytes(range(_RECORD_BYTES))
    return bytes(build_batch([Record(number, now_ms, None, value) for number in range(count)]))


def _restamped(batch: bytes, now_ms: int) -> bytes:
    """Return a batch whose newest record is of now."""
    changed = bytearray(batch)
    base, newest = struct.unpack_from(">qq", changed, _TIMES_AT)
    struct.pack_into(">qq", changed, _TIMES_AT, base + now_ms - newest, now_ms)
    changed[_CRC_AT:_CRC_FROM] = crc32c.crc32c(bytes(changed[_CRC_FROM:])).to_bytes(4, "big")
    return bytes(changed)
