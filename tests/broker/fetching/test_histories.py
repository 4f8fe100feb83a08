"""Random histories of sessions, answered as by Kafka's walk over all partitions of each."""

import asyncio
import random
import sys
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from struct import pack
from typing import Any, Final, Self

import pytest
from kio.index import load_response_schema
from kio.serial import entity_reader

from siltstone.broker.transactions.markers import Outcome
from siltstone.protocol.core.constants import TRANSACTIONAL
from siltstone.protocol.errors import InvalidFetchSessionEpoch
from siltstone.protocol.messages.fetch import FetchPartition
from siltstone.protocol.names import TopicKey
from siltstone.storage.log.log import Log
from tests.support.appending import append
from tests.support.fetch_requests import FetchRequest, request_entity
from tests.support.fetch_walk import Place, Row, Walk
from tests.support.kio_messages import encode
from tests.support.services import ServicesOnDisk
from tests.support.talks import Client, Stand
from tests.support.waiting import give_turns_until

pytestmark = pytest.mark.usefixtures("no_fsync")

BY_NAME, BY_ID = 12, 17
NAMES = ("a", "b", "c")
SMALL = {"segment.bytes": "1200", "retention.bytes": "2400"}
PLENTY = 1 << 20
PLAIN: Final[dict[str, Any]] = {"replica_id": -1, "isolation_level": 0, "max_bytes": 1 << 30}
INVALID_EPOCH = InvalidFetchSessionEpoch.code.value


class Session:
    """A session of the broker and the same one by the specification."""

    def __init__(self, walk: Walk, client: Client) -> None:
        self.walk = walk
        self.client = client
        self.session_id = 0
        self.epoch = 0


class History:
    """A broker to which anything happens, and clients that fetch in sessions."""

    def __init__(self, stand: Stand, seed: int) -> None:
        self.random = random.Random(seed)
        self.stand = stand
        self.home = stand.home
        self.version = self.random.choice([BY_NAME, BY_ID])
        self.sessions: list[Session] = []
        self.sequences: dict[tuple[Any, int], int] = {}
        self.dead_ids = [self.random.randbytes(16)]
        self.transactional_ids = 0

    @property
    def logs(self) -> list[Log]:
        """Every log of a client's topic."""
        return list(self.home.services.topics.logs.values())

    async def produce(self) -> None:
        """Append a plain batch somewhere."""
        if self.logs:
            log = self.random.choice(self.logs)
            append(log, self.random.randint(1, 3), timestamp=self.home.clock.now_ms())

    async def produce_in_transaction(self) -> None:
        """Append a batch of one of two producers, whose transaction is open from then on."""
        if self.logs:
            log = self.random.choice(self.logs)
            producer_id = self.random.choice([7, 8])
            place = log, producer_id
            append(
                log,
                timestamp=self.home.clock.now_ms(),
                flags=TRANSACTIONAL,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=self.sequences.get(place, 0),
            )
            self.sequences[place] = self.sequences.get(place, 0) + 1

    async def end_transaction(self) -> None:
        """Commit or abort in one partition."""
        opened = [place for place in self.sequences if place[0] in self.logs]
        if opened:
            log, producer_id = self.random.choice(opened)
            outcome = Outcome(producer_id, 0, self.random.random() < 0.5)
            self.home.services.transactions().markers.write(log, outcome)

    async def delete_records(self) -> None:
        """Raise a log start offset, as DeleteRecords does and as a cleaner thread may."""
        if self.logs:
            log = self.random.choice(self.logs)
            offset = self.random.randint(log.log_start_offset, log.log_end_offset)
            if self.random.random() < 0.5:
                log.delete_records(offset)
            else:
                await asyncio.to_thread(log.delete_records, offset)

    async def retain(self) -> None:
        """Have old segments go."""
        for log in self.logs:
            log.apply_retention(self.home.clock.now_ms())

    async def create(self) -> None:
        """Make a topic, or make one again that was deleted."""
        topics = self.home.services.topics
        missing = [name for name in NAMES if name not in topics.topics]
        if missing:
            await topics.create(self.random.choice(missing), self.random.randint(1, 4), SMALL)

    async def delete(self) -> None:
        """Take a topic away."""
        topics = self.home.services.topics
        if topics.topics:
            topic = self.random.choice(list(topics.topics.values()))
            self.dead_ids.append(topic.id.bytes)
            await topics.delete(topic)

    async def extend(self) -> None:
        """Give a topic one more partition."""
        topics = self.home.services.topics
        if topics.topics:
            topic = self.random.choice(list(topics.topics.values()))
            if topic.partitions < 6:
                await topics.add_partitions(topic, topic.partitions + 1)

    async def open(self) -> None:
        """Begin a session, in place of another one if there are many."""
        if len(self.sessions) >= 3:
            await self.close()
        walk = Walk(self.home)
        session = Session(walk, self.stand.connect())
        count = self.random.randint(1, 12)
        request = self.request(session, [self.some_place() for _ in range(count)])
        expected = walk.open(request)
        error, session.session_id, rows = await self.ask(session, request)
        assert (error, rows) == (0, expected)
        assert session.session_id
        session.epoch = 1
        self.sessions.append(session)

    async def close(self) -> None:
        """End a session: nothing of it is left in any log."""
        session = self.sessions.pop(self.random.randrange(len(self.sessions)))
        session.epoch = -1
        request = self.request(session, [])
        assert await self.ask(session, request) == (0, 0, [])

    async def fetch(self) -> None:
        """Ask in a session; the answer is what a walk over all of its partitions says."""
        if not self.sessions:
            return
        session = self.random.choice(self.sessions)
        request = self.next_request(session)
        session.walk.update(request)
        if not session.walk.partitions:
            self.sessions.remove(session)
            assert await self.ask(session, request) == (0, 0, [])
            return
        expected = session.walk.answer(request)
        assert await self.ask(session, request) == (0, session.session_id, expected)
        session.epoch += 1

    def next_request(self, session: Session) -> FetchRequest:
        """Return what a client asks next: mostly it goes on, now and then it does anything."""
        chance = self.random
        known = list(session.walk.partitions)
        changed = [place for place in known if chance.random() < 0.4]
        if chance.random() < 0.2:
            changed += [self.some_place() for _ in range(chance.randint(1, 3))]
        gone = [place for place in known if chance.random() < 0.03]
        if chance.random() < 0.3:
            changed, gone = [], []
        return self.request(session, list(dict.fromkeys(changed)), gone)

    def patient_request(self, session: Session) -> FetchRequest:
        """Return a request that gives up what is wrong and asks for less than there is to come."""
        sound, gone = [], []
        for key, index in session.walk.partitions:
            log = self.home.services.topics.get_log(key, index)
            if log is None:
                gone.append((key, [index]))
                continue
            if self.random.random() < 0.5 and session.walk.is_sound((key, index)):
                continue
            end = log.log_end_offset
            offset = self.random.choice([end, end, end, max(log.last_stable_offset, end - 1)])
            most = self.random.choice([100, 1 << 20])
            sound.append((key, [FetchPartition(index, -1, offset, -1, -1, most)]))
        return replace(
            self.request(session, []),
            replica_id=-1,
            max_wait_ms=600_000,
            min_bytes=self.random.choice([1, 1, 150, 300, 700]),
            topics=sound,
            forgotten=gone,
        )

    def request(
        self, session: Session, places: list[Place], gone: list[Place] | None = None
    ) -> FetchRequest:
        """Build a request that names some partitions."""
        chance = self.random
        return FetchRequest(
            replica_id=1 if chance.random() < 0.01 else -1,
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=chance.choice([1, 200, 500, 1 << 20, 1 << 20]),
            isolation_level=0 if chance.random() < 0.5 else 1,
            session_id=session.session_id,
            session_epoch=session.epoch,
            topics=[(key, [self.wanted(key, index)]) for key, index in dict.fromkeys(places)],
            forgotten=[(key, [index]) for key, index in gone or []],
        )

    def wanted(self, key: TopicKey, index: int) -> FetchPartition:
        """Return what is asked of a partition: mostly its end, or somewhere before."""
        chance = self.random
        log = self.home.services.topics.get_log(key, index)
        if log is None:
            start = stable = end = 0
        else:
            start, stable, end = log.log_start_offset, log.last_stable_offset, log.log_end_offset
        offset = chance.choice([end, end, stable, stable, start, chance.randint(start, end)])
        if chance.random() < 0.03:
            offset = chance.choice([-1, end + 1, start - 1])
        is_odd = chance.random() < 0.03
        return FetchPartition(
            index,
            chance.choice([0, 1]) if chance.random() < 0.1 else -1,
            offset,
            chance.choice([0, 5]) if is_odd else -1,
            -1,
            chance.choice([1, 100, 300, 1 << 20, 1 << 20]),
        )

    def some_place(self) -> Place:
        """Name a partition that exists, or one that does not."""
        chance = self.random
        name = chance.choice(NAMES)
        topic = self.home.services.topics.topics.get(name)
        is_odd = topic is None or chance.random() < 0.1
        index = (
            chance.randrange(6) if topic is None or is_odd else chance.randrange(topic.partitions)
        )
        if self.version < BY_ID:
            return name, index
        if topic is None or is_odd:
            return chance.choice(self.dead_ids), index
        return topic.id.bytes, index

    async def wait(self) -> None:
        """Ask for some bytes and wait; the answer comes with the last of them and no sooner."""
        if not self.sessions:
            await self.open()
        session = self.random.choice(self.sessions)
        waiting = self.home.services.waiting
        request = self.patient_request(session)
        session.walk.update(request)
        if not session.walk.partitions:
            self.sessions.remove(session)
            assert await self.ask(session, request) == (0, 0, [])
            return
        await self.send(session, request)
        session.epoch += 1
        if not session.walk.answers_at_once(request):
            await give_turns_until(lambda: waiting.count, "a parked fetch")
            if not await self._is_released(session, request):
                await self._overtake(session)
                return
        expected = session.walk.answer(request)
        assert await self.receive(session) == (0, session.session_id, expected)

    async def _is_released(self, session: Session, request: FetchRequest) -> bool:
        """Let things happen until a request that waits must go on; false if that is never."""
        steps = [self.produce] * 6 + [self.produce_in_transaction] * 2
        steps += [self.end_transaction, self.delete, self.create]
        for _ in range(12):
            await self.random.choice(steps)()
            for _ in range(5):
                await asyncio.sleep(0)
            is_enough = session.walk.is_enough(request)
            assert self.home.services.waiting.count == (not is_enough)
            if is_enough:
                return True
        return False

    async def _overtake(self, session: Session) -> None:
        """Ask again while a request waits: that one is told that the session has gone on."""
        before, session.client = session.client, self.stand.connect()
        request = self.request(session, [])
        expected = session.walk.answer(request)
        assert await self.ask(session, request) == (0, session.session_id, expected)
        session.epoch += 1
        session.client, new = before, session.client
        assert await self.receive(session) == (INVALID_EPOCH, session.session_id, [])
        session.client = new

    async def send(self, session: Session, request: FetchRequest) -> None:
        """Send a request as kio writes it."""
        await session.client.send(self.frame(request))

    def frame(self, request: FetchRequest) -> bytes:
        """Return the frame of a request."""
        entity = request_entity(self.version, request)
        body = pack(">hhihB", 1, self.version, 7, -1, 0) + encode(entity)
        return len(body).to_bytes(4, "big") + body

    async def receive(self, session: Session) -> tuple[int, int, list[Row]]:
        """Return the next answer."""
        return self.read(await session.client.receive())

    def read(self, answer: bytes) -> tuple[int, int, list[Row]]:
        """Return error, session and partitions of an answer as kio reads it."""
        entity: Any
        entity, _ = entity_reader(load_response_schema(1, self.version))(memoryview(answer), 9)
        return entity.error_code, entity.session_id, list(_rows(self.version, entity))

    async def ask(self, session: Session, request: FetchRequest) -> tuple[int, int, list[Row]]:
        """Send and receive."""
        await self.send(session, request)
        return await self.receive(session)

    async def step(self) -> None:
        """Do one of these."""
        often = [self.fetch] * 12 + [self.produce] * 6 + [self.produce_in_transaction] * 2
        seldom = [self.end_transaction, self.delete_records, self.retain, self.open, self.wait]
        rarely = [self.create, self.create, self.delete, self.extend]
        await self.random.choice(often + seldom * 2 + rarely)()

    def check(self) -> None:
        """No log knows of a partition but for a session that is open."""
        sessions = self.home.services.sessions
        watchers = [each for log in self.logs for each in log.watchers]
        here = {
            partition
            for session in sessions.sessions.values()
            for partition in session.partitions.values()
        }
        assert len(sessions) == len(self.sessions)
        assert set(watchers) <= here
        assert len(watchers) == len(set(watchers))


def _rows(version: int, entity: Any) -> Iterator[Row]:
    for topic in entity.responses:
        key = topic.topic if version < BY_ID else topic.topic_id.bytes
        for each in topic.partitions:
            aborted = each.aborted_transactions
            diverging = each.diverging_epoch
            yield Row(
                key,
                each.partition_index,
                each.error_code,
                each.high_watermark,
                each.last_stable_offset,
                each.log_start_offset,
                None
                if aborted is None
                else tuple((one.producer_id, one.first_offset) for one in aborted),
                bytes(each.records or b""),
                None if diverging.epoch < 0 else (diverging.epoch, diverging.end_offset),
            )


@pytest.mark.parametrize("seed", range(25))
async def test_sessions_answer_as_a_walk_over_all_partitions(tmp_path: Path, seed: int) -> None:
    """Whatever happens to logs and topics, and whatever is asked, moved or forgotten."""
    async with Stand(ServicesOnDisk(tmp_path)) as stand:
        history = History(stand, seed)
        await history.create()
        for _ in range(200):
            await history.step()
        history.check()
        while history.sessions:
            await history.close()
        history.check()


class Calls:
    """How often any function is called between ``with`` and its end."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, _frame: object, event: str, _argument: object) -> None:
        self.count += event in {"call", "c_call"}


@pytest.mark.parametrize("max_wait_ms", [0, 600_000])
async def test_an_empty_request_makes_as_many_calls_for_ten_thousand_partitions(
    tmp_path: Path, max_wait_ms: int
) -> None:
    """As for ten: no quiet partition is looked at, whether the request waits or not."""
    async with Stand(ServicesOnDisk(tmp_path)) as stand:
        history = History(stand, 1)
        history.version = BY_NAME
        topics = history.home.services.topics
        (log,) = (await topics.create("a", 1, {})).logs
        assert log is not None
        calls = []
        for count in (10, 10_000):
            # One log stands for all of them: each has its own place in the session.
            topics.logs.update({("a", index): log for index in range(count)})
            session = Session(Walk(history.home), stand.connect())
            wanted = [FetchPartition(index, -1, 0, -1, -1, PLENTY) for index in range(count)]
            full = replace(history.request(session, []), topics=[("a", wanted)], **PLAIN)
            _, session.session_id, rows = await history.ask(session, full)
            assert len(rows) == count
            for session.epoch in (1, 2):  # the first does what is done once
                empty = replace(history.request(session, []), **PLAIN, max_wait_ms=max_wait_ms)
                counter = Calls()
                answer = _serve(history, session, empty, counter)
                assert history.read(answer) == (0, session.session_id, [])
            calls.append(counter.count)
        append(log, timestamp=history.home.clock.now_ms())
        session.epoch = 3
        _, _, rows = await history.ask(session, replace(empty, session_epoch=3, max_wait_ms=0))

        assert calls[0] == calls[1] < 200
        assert len(rows) == 10_000


def _serve(history: History, session: Session, request: FetchRequest, counter: Calls) -> bytes:
    """Return the answer to a request, which does not wait any longer once it has begun to."""
    frame = memoryview(history.frame(request))[4:]
    connection = next(iter(history.stand.listener.connections))
    with counter:
        reply: Any = history.stand.dispatcher.dispatch(connection, frame, 0, len(frame))
        if isinstance(reply, Coroutine):
            reply.send(None)
    if isinstance(reply, Coroutine):
        history.home.services.sessions.sessions[session.session_id].group.release()
        with counter, pytest.raises(StopIteration) as end:
            reply.send(None)
        reply = end.value.value
    assert reply is not None
    return b"".join(bytes(part) for part in ([reply] if isinstance(reply, bytes) else reply))
