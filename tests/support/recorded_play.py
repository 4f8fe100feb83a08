"""Plays a recorded application on a new broker, and keeps the answers.

Every request whose bytes were kept is sent, in its order and on its connection, from the first
ApiVersions to the last LeaveGroup. Ids of topics, members, producers and sessions are replaced by
those of this broker. These differ from the recording:

* positions: only some Produce and Fetch requests were kept, so a Fetch begins where the one before
it ended; if the recorded Fetch got records, a batch of that size is appended before it;
* sequences and times of batches, for the same reason;
* waits: a Fetch that finds nothing is answered at once, and a slow member stays a member.
"""

import dataclasses
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from bench.clients import messages
from bench.clients.recording import Recording, Request, read_request
from bench.clients.scripts import count_of, find_refusal, producer_of, with_producer
from bench.clients.topics import (
    await_producer_ids,
    end_offsets,
    init_producer_id,
    make_topics,
    produce,
    topic_ids,
)
from bench.connection import Connection, frame, part, read_answer
from bench.group_cases import await_coordinator
from bench.group_requests import commit
from siltstone.broker.api import BY_KEY
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.support.side_by_side import batches_of

_RECORD_BYTES: Final = 100
_HEAD_BYTES: Final = 61
_LAST_DELTA_AT: Final = 23
_TIMES_AT: Final = 27
_PARTITION_BYTES: Final = 1 << 20
_SESSION: Final = timedelta(minutes=20)

Key = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A request as it was sent, its answer after the correlation id, and its content."""

    client: str
    request: Any
    body: bytes
    answer: Any


@dataclass(slots=True)
class _Reader:
    """A client that fetches: its session, and where it is in each partition."""

    session_id: int = 0
    epoch: int = 0
    at: dict[Key, int] = field(default_factory=dict)
    told: dict[Key, int] = field(default_factory=dict)  # the positions that the broker knows


class Play:
    """One recorded application on one broker."""

    def __init__(self, recording: Recording, port: int, now_ms: int) -> None:
        self._recorded = [each for each in recording.requests if each.data and each.api in BY_KEY]
        self._port = port
        self._now_ms = now_ms
        self._helper = Connection(port)
        self._connections: dict[int, Connection] = {}
        self._names = {topic.topic_id: name for name, topic in recording.topics.items()}
        self._partitions = {
            name: topic.partitions
            for name, topic in recording.topics.items()
            if not name.startswith("__")
        }
        self._members: dict[str, str] = {}
        self._given: dict[str, tuple[int, int]] = {}  # client -> its producer
        self._producers: dict[int, tuple[int, int]] = {}  # recorded id -> producer
        self._sequences: Counter[tuple[int, Key]] = Counter()
        self._readers: dict[int, _Reader] = defaultdict(_Reader)  # connection -> reader
        self._ends: dict[Key, int] = {}
        self.ids: dict[str, UUID] = {}
        """The topics of this broker."""
        self._set_stage()

    def answers(self) -> Iterator[Answered]:
        """Send every request and return each with its answer."""
        try:
            for recorded in self._recorded:
                yield self._play(recorded)
        finally:
            for each in (self._helper, *self._connections.values()):
                each.close()

    def _set_stage(self) -> None:
        """Create what existed before the recording: topics, groups, coordinators."""
        asked = [(each.api, read_request(each.data)) for each in self._recorded]
        own = {
            topic.name
            for api, request in asked
            if api == messages.CREATE_TOPICS
            for topic in request.topics
        }
        joined = {request.group_id for api, request in asked if api == messages.JOIN_GROUP}
        groups = joined | {
            getattr(row, "group_id", row)
            for api, request in asked
            if api in {messages.DESCRIBE_GROUPS, messages.OFFSET_FETCH}
            for row in getattr(request, "groups", None) or [request.group_id]
        }
        make_topics(self._helper, {n: c for n, c in self._partitions.items() if n not in own})
        self._learn_topics(self._partitions.keys() - own)
        for group in sorted(groups):
            await_coordinator(self._helper, [group])
        for group in sorted(groups - joined):
            self._ask(commit(group, min(self._partitions), range(3), 7))
        await_producer_ids(self._helper)

    def _learn_topics(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self.ids.update(topic_ids(self._helper, [name]))
            for index, end in end_offsets(
                self._helper, name, range(self._partitions[name])
            ).items():
                self._ends[name, index] = end

    def _ask(self, request: Any) -> Any:
        """Send a request that is not in the recording and must succeed.

        Raises:
            RuntimeError: It was refused.
        """
        answer = self._helper.ask(request)
        refusal = find_refusal(answer)
        if refusal is not None:
            raise RuntimeError(f"{request} was refused: {refusal}")
        return answer

    def _play(self, recorded: Request) -> Answered:
        request = read_request(recorded.data)
        if recorded.api == messages.PRODUCE:
            request = self._produced(recorded, request)
        elif recorded.api == messages.FETCH:
            request = self._fetched(recorded, request)
        else:
            request = self._renamed(request, getattr(request, "group_id", ""))
        if recorded.connection not in self._connections:
            self._connections[recorded.connection] = Connection(self._port)
        body = self._connections[recorded.connection].exchange(frame(request, recorded.client))
        answered = Answered(recorded.client, request, body[4:], read_answer(type(request), body))
        self._learn(recorded, answered)
        return answered

    def _learn(self, recorded: Request, answered: Answered) -> None:
        """Note the ids that this broker gave."""
        request, answer = answered.request, answered.answer
        if recorded.api == messages.JOIN_GROUP and answer.member_id:
            self._members[request.group_id] = answer.member_id
        elif recorded.api == messages.INIT_PRODUCER_ID:
            self._given[recorded.client] = (answer.producer_id, answer.producer_epoch)
        elif recorded.api == messages.CREATE_TOPICS:
            names = {topic.name for topic in answer.topics}
            make_topics(self._helper, {name: self._partitions[name] for name in names})
            self._learn_topics(names)
        elif recorded.api == messages.PRODUCE:
            self._note_ends(request, answer)
        elif recorded.api == messages.FETCH:
            self._note_fetched(self._readers[recorded.connection], answer)

    # -- names ----------------------------------------------------------------------------------

    def _renamed(self, value: Any, group: str) -> Any:
        """Return a part of a request with the ids of this broker."""
        if isinstance(value, tuple):
            return tuple(self._renamed(each, group) for each in value)
        if isinstance(value, UUID):
            return self.ids.get(self._names.get(value, ""), value)
        if not dataclasses.is_dataclass(value) or isinstance(value, type):
            return value
        group = getattr(value, "group_id", "") or group
        changes: dict[str, Any] = {}
        for each in dataclasses.fields(value):
            found = getattr(value, each.name)
            if each.name == "member_id" and found:
                changes[each.name] = self._members[group]
            elif each.name == "session_timeout":
                changes[each.name] = _SESSION
            else:
                changes[each.name] = self._renamed(found, group)
        return dataclasses.replace(value, **changes)

    def _topic_of(self, topic: Any) -> str:
        for each in ("name", "topic"):
            if getattr(topic, each, None):
                return str(getattr(topic, each))
        if topic.topic_id in self._names:
            return self._names[topic.topic_id]
        return next(name for name, each in self.ids.items() if each == topic.topic_id)

    # -- Produce --------------------------------------------------------------------------------

    def _produced(self, recorded: Request, request: Any) -> Any:
        topics = []
        for topic in request.topic_data:
            name = self._topic_of(topic)
            rows = tuple(
                dataclasses.replace(
                    row, records=self._sent(recorded.client, (name, row.index), row.records)
                )
                for row in topic.partition_data
            )
            topics.append(dataclasses.replace(self._renamed(topic, ""), partition_data=rows))
        return dataclasses.replace(request, topic_data=tuple(topics))

    def _sent(self, client: str, key: Key, records: bytes) -> bytes:
        """Return a batch with present timestamps, the next one of this broker's producer."""
        batch = bytearray(records)
        first, newest = struct.unpack_from(">qq", batch, _TIMES_AT)
        struct.pack_into(">qq", batch, _TIMES_AT, first + self._now_ms - newest, self._now_ms)
        recorded_id, _, _ = producer_of(bytes(batch))
        if recorded_id < 0:
            return with_producer(bytes(batch), -1, -1, -1)
        producer_id, epoch = self._producer(client, recorded_id)
        sequence = self._sequences[recorded_id, key]
        self._sequences[recorded_id, key] += count_of(bytes(batch))
        return with_producer(bytes(batch), producer_id, epoch, sequence)

    def _producer(self, client: str, recorded_id: int) -> tuple[int, int]:
        if recorded_id not in self._producers:
            if client not in self._given:  # it got its id before the recording began
                answer = self._ask(init_producer_id())
                self._given[client] = (answer.producer_id, answer.producer_epoch)
            self._producers[recorded_id] = self._given[client]
        return self._producers[recorded_id]

    def _note_ends(self, request: Any, answer: Any) -> None:
        count = {
            (self._topic_of(topic), row.index): count_of(row.records)
            for topic in request.topic_data
            for row in topic.partition_data
        }
        for topic in answer.responses:
            for row in topic.partition_responses:
                key = (self._topic_of(topic), row.index)
                if row.base_offset >= 0:
                    self._ends[key] = row.base_offset + count[key]

    # -- Fetch ----------------------------------------------------------------------------------

    def _fetched(self, recorded: Request, request: Any) -> Any:
        reader = self._readers[recorded.connection]
        epoch = getattr(request, "session_epoch", -1)
        if epoch == 0:
            reader.session_id, reader.epoch, reader.told = 0, 0, {}
        elif request.session_id and not reader.session_id:
            raise RuntimeError("a Fetch is of a session whose beginning was not recorded")
        forgotten = {
            (self._topic_of(topic), index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        }
        for key in forgotten:
            reader.told.pop(key, None)
        wanted = {(name, index): size for name, index, size in recorded.returned}
        for key, size in wanted.items():
            if reader.at.setdefault(key, self._ends[key]) == self._ends[key]:
                self._put(key, size)
        rows = {
            (self._topic_of(topic), row.partition): row
            for topic in request.topics
            for row in topic.partitions
        }
        if epoch > 0:  # a client names all partitions whose positions have changed
            moved = {key for key, at in reader.told.items() if at != reader.at[key]}
            for key in sorted((moved | wanted.keys()) - rows.keys() - forgotten):
                rows[key] = part(request, "FetchPartition")(
                    partition=key[1],
                    current_leader_epoch=0,
                    fetch_offset=0,
                    partition_max_bytes=_PARTITION_BYTES,
                )
        for key, row in rows.items():
            reader.told[key] = reader.at.setdefault(key, self._ends[key])
            rows[key] = dataclasses.replace(row, fetch_offset=reader.told[key])
        request = dataclasses.replace(
            self._renamed(request, ""),
            topics=tuple(self._by_topic(request, rows)),
            max_wait=timedelta(0),
            session_id=reader.session_id,
            session_epoch=reader.epoch if epoch > 0 else epoch,
        )
        reader.epoch += epoch > 0
        return request

    def _by_topic(self, request: Any, rows: Mapping[Key, Any]) -> Iterable[Any]:
        kind = part(request, "FetchTopic")
        has_id = any(each.name == "topic_id" for each in dataclasses.fields(kind))
        by_topic: dict[str, list[Any]] = defaultdict(list)
        for (name, _), row in rows.items():
            by_topic[name].append(row)
        for name, each in by_topic.items():
            called = {"topic_id": self.ids[name]} if has_id else {"topic": name}
            yield kind(partitions=tuple(each), **called)

    def _put(self, key: Key, size: int) -> None:
        """Append a batch of about that size, as the producers of the recorded broker did."""
        count = max(1, (size - _HEAD_BYTES) // (_RECORD_BYTES + 8))
        value = bytes(range(_RECORD_BYTES))
        batch = build_batch([Record(number, self._now_ms, None, value) for number in range(count)])
        name, index = key
        self._ask(produce(self.ids[name], {index: bytes(batch)}))
        self._ends[key] += count

    def _note_fetched(self, reader: _Reader, answer: Any) -> None:
        if answer.session_id and not reader.session_id:
            reader.session_id, reader.epoch = answer.session_id, 1
        for topic in answer.responses:
            for row in topic.partitions:
                for batch in batches_of(row.records or b""):
                    last = int.from_bytes(batch[_LAST_DELTA_AT : _LAST_DELTA_AT + 4], "big")
                    end = int.from_bytes(batch[:8], "big") + last + 1
                    reader.at[self._topic_of(topic), row.partition_index] = end
