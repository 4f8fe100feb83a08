"""Topics with records: produced, fetched, looked up by time, deleted from the front.

Topics come and go: they are created, deleted and created again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from tests.simulator.clients.requests import (
    CREATE_TOPICS,
    EARLIEST,
    EXISTS,
    JUDGES_SPLIT,
    LATEST,
    METADATA,
    OUT_OF_RANGE,
    STORAGE,
    TOO_LARGE,
    UNKNOWN_ID,
    UNKNOWN_TOPIC,
    answer_of,
    creation,
    send_batch,
    send_fetch,
    send_lookup,
    share,
)
from tests.simulator.incarnation import ROOT
from tests.simulator.model.files import judge_files
from tests.simulator.model.log import LogModel, Sent, Stored, Wrong, read_batches, sent_of
from tests.simulator.model.topics import Presence, TopicModel
from tests.simulator.world.inodes import BLOCK

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client, Question

DELETE_TOPICS, DELETE_RECORDS = 20, 21
_POLICY_VIOLATION: Final = 44
_NONE: Final = -1
_DAY_MS: Final = 86_400_000
_AGAIN: Final = 0.2
"""The share of offsets from which is fetched that were judged before."""
_TRIES: Final = 3
"""So often a log is read until no transaction has ended between."""
_FETCH_VERSIONS: Final = (4, 11, 12, 13, 18)


class Records:
    """The topics of a history and their clients."""

    PLACE: Final = 1
    WEIGHTS: Final = {
        "produce": 12,
        "fetch": 3,
        "look_up": 2,
        "delete_records": 0.7,
        "create": 0.6,
        "delete": 0.4,
        "create_again": 0.3,
        "list": 0.5,
    }

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return the topics: partitions and settings of each."""
        topics = {}
        for name in ("apples", "pears", "plums")[: rng.choice((1, 1, 2, 3))]:
            settings: dict[str, Any] = {
                "segment.bytes": rng.choice((300, 2_000, 5_000, 1 << 20)),
                "index.interval.bytes": rng.choice((50, 400, 4096)),
            }
            if rng.random() < 0.3:
                settings["flush.messages"] = rng.choice((1, 1, 3))
            if rng.random() < 0.15:
                settings["flush.ms"] = rng.choice((50, 1000))
            if rng.random() < 0.2:
                settings["preallocate"] = "true"
            if rng.random() < 0.15:
                settings["segment.index.bytes"] = rng.choice((24, 96))
            texts = {key: str(value) for key, value in settings.items()}
            topics[name] = {"partitions": rng.choice((1, 1, 1, 2)), "settings": texts}
        return topics

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which topic and partition, as shares of 1, and what else a step needs."""
        where = [share(rng), share(rng)]
        if kind == "produce":
            return [
                *where,
                rng.choice((1, 1, 2, 5)),
                rng.choice((1, 20, 60, 200, 600, 3000)),
                rng.choice((0, 0, 0, 1, 2, 3, 4)),
                rng.choice((-1, -1, -1, 1, 0)),
            ]
        if kind == "fetch":
            return [
                *where,
                share(rng),
                rng.choice((1, 100, 200_000)),
                rng.choice(_FETCH_VERSIONS),
            ]
        if kind in {"look_up", "delete_records"}:
            return [*where, share(rng)]
        return where

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        settings = dict(each.split("=") for each in history.plan.settings)
        flushes = settings.get("log.flush.interval.messages") == "1"
        usual = {"flush.messages": "1"} if flushes else {}
        self._forgets_ms = int(settings.get("producer.id.expiration.ms", 0))
        self.topics = {
            name: TopicModel(name, usual | each["settings"], each["partitions"])
            for name, each in drawn.items()
        }
        self._client = history.client()
        self._judge = self._client
        self._stamp = history.now_ms
        self._values = 0
        self._lost_power = False
        self._fetched: dict[LogModel, set[int]] = {}
        """The batches from whose offsets all was fetched in this life of the broker."""
        self._segments: dict[tuple[bytes, int], dict[int, int]] = {}
        """The state on the disk of each segment when all offsets of its log were fetched."""
        self.judged: dict[LogModel, tuple[int, int, list[Stored]]] = {}
        """Start, end and batches of each log, as `judge` has read them a moment ago."""

    def set_up(self) -> Action:
        """Create the topics."""
        for topic in self.topics.values():
            yield from self._create(topic, self._client)

    def play(self, kind: str, which: float, partition: float, *rest: Any) -> Action:
        """Play a step."""
        names = list(self.topics)
        topic = self.topics[names[int(which * len(names))]]
        client = self._history.beside(self._client)
        number = int(partition * topic.partitions)
        if kind == "list":
            return self._list(client)
        if kind in {"create", "delete", "create_again"}:
            action = getattr(self, f"_{kind}")(topic, client)
        else:
            action = getattr(self, f"_{kind}")(topic, number, client, *rest)
        return action  # type: ignore[no-any-return]

    def stopped(self) -> None:
        """Where nothing has failed, all is durable, and logs take the room that they need."""
        if not self._history.is_sound:
            return
        for log in self._logs():
            log.flushed()
        for path, size, room in self._history.world.disk.rooms(ROOT):
            needed = -(-size // BLOCK) * BLOCK
            if path.endswith(".log") and "-delete/" not in path and room > needed:
                raise Wrong(f"{path} has {size} bytes and takes {room} after a clean stop")
        judge_files(self._history.world.disk, ROOT)

    def restarted(self, way: str) -> None:
        """Note that a power failure may have taken what was not durable."""
        self._fetched.clear()
        for topic in self.topics.values():
            topic.restarted()
            for log in topic.logs:
                if way == "power":
                    log.lost_power()
                log.restarted()
        if way == "power":
            self._lost_power = True

    def settled(self) -> None:
        """Note that what is missing after a start will not come."""
        self._lost_power = False
        for topic in self.topics.values():
            topic.is_doubtful = False
        for log in self._logs():
            log.forget_perhaps()

    def _logs(self) -> Iterator[LogModel]:
        for topic in self.topics.values():
            yield from topic.logs

    # Topics.

    def _create(self, topic: TopicModel, client: Client) -> Action:
        before, change = topic.presence, topic.changing()
        row = creation(topic.name, topic.partitions, topic.settings)
        asked = client.send(CREATE_TOPICS, row)
        topic.is_doubtful = True
        yield asked
        if asked.is_lost:
            return
        (answer,) = asked.answer.topics
        topic.is_doubtful = answer.error_code == STORAGE
        self._history.tell(f"  create {topic.name}: {answer.error_code}")
        if not topic.is_changed_alone(change):
            topic.old_ids.pop(answer.topic_id, None)
        elif answer.error_code == 0:
            if before is Presence.PRESENT:
                raise Wrong(f"{topic.name} was created, although it exists")
            topic.born(answer.topic_id)
        elif answer.error_code == EXISTS:
            if before is Presence.ABSENT:
                raise Wrong(f"{topic.name} exists, although it was deleted")
            topic.presence = before
        elif self._history.is_sound:
            raise Wrong(f"create {topic.name}: {answer.error_code} {answer.error_message}")
        elif before is Presence.PRESENT:
            topic.presence = before

    def _delete(self, topic: TopicModel, client: Client) -> Action:
        before, change = topic.presence, topic.changing()
        asked = client.send(DELETE_TOPICS, ([(topic.name,)], (), 30_000))
        yield asked
        if asked.is_lost:
            return
        (answer,) = asked.answer.responses
        self._history.tell(f"  delete {topic.name}: {answer.error_code}")
        if not topic.is_changed_alone(change):
            return
        if answer.error_code == 0:
            if before is Presence.ABSENT:
                raise Wrong(f"{topic.name} was deleted, although it does not exist")
            topic.died()
        elif answer.error_code == UNKNOWN_TOPIC:
            if before is Presence.PRESENT:
                raise Wrong(f"{topic.name} does not exist, although nobody has deleted it")
            topic.presence = Presence.ABSENT
        elif self._history.is_sound:
            raise Wrong(f"delete {topic.name}: {answer.error_code} {answer.error_message}")

    def _create_again(self, topic: TopicModel, client: Client) -> Action:
        yield from self._delete(topic, client)
        yield from self._create(topic, client)

    def _list(self, client: Client) -> Action:
        """Ask for all topics: those that exist all the while must be in the answer."""
        before = self._present_ids()
        asked = client.send(METADATA, (None, False), 12)
        yield asked
        if asked.is_lost:
            return
        told = {each.name: each.topic_id for each in asked.answer.topics}
        for name, topic_id in self._present_ids().items():
            if before.get(name) == topic_id and told.get(name) != topic_id:
                raise Wrong(f"{name} is not among all topics, although it exists")

    def _present_ids(self) -> dict[str, bytes]:
        present = [each for each in self.topics.values() if each.presence is Presence.PRESENT]
        return {topic.name: topic.topic_id for topic in present}

    def may_miss(self, topic: TopicModel, log: LogModel) -> bool:
        """Tell whether a client may be told that the topic does not exist."""
        return topic.presence is not Presence.PRESENT or log not in topic.logs

    # Records.

    @property
    def expired_ms(self) -> int:
        """The time of the newest batches whose producers logs may have forgotten."""
        return self._history.now_ms - (self._forgets_ms or _DAY_MS)

    def make(
        self, count: int, size: int, codec: int, **fields: Any
    ) -> tuple[bytearray, tuple[int, ...]]:
        """Return a batch of new records and their timestamps; ``fields`` are of its header.

        Where producers are forgotten soon, the times are those of the clock.
        """
        step = 1 if self._forgets_ms else 1000
        if self._forgets_ms:
            self._stamp = max(self._stamp, self._history.now_ms)
        stamps = tuple(range(self._stamp, self._stamp + count * step, step))
        self._stamp += count * step
        self._values += 1
        filling = (b"%d " % self._values) * (size // 4 + 1)
        records = [
            Record(at, stamp, b"k%d" % (self._values % 7), filling[:size] + b"%d" % self._values)
            for at, stamp in enumerate(stamps)
        ]
        return build_batch(records, codec=codec, **fields), stamps

    def _produce(  # a step's parameters
        self,
        topic: TopicModel,
        partition: int,
        client: Client,
        count: int,
        size: int,
        codec: int,
        acks: int,
    ) -> Action:
        log = topic.logs[partition]
        batch, stamps = self.make(count, size, codec)
        sent = sent_of(batch, stamps)
        end_before = log.end
        log.sending(sent)
        asked = send_batch(client, topic, partition, batch, acks=acks)
        if not acks:
            return
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.responses[0].partition_responses[0]
        error = answer.error_code
        self._history.tell(f"  {topic.name}-{partition} error {error} base {answer.base_offset}")
        if error == 0:
            if not self.may_miss(topic, log):
                log.acknowledged(sent, answer.base_offset, end_before)
                self.check_durable(topic, partition, sent, answer.base_offset)
        elif error == UNKNOWN_TOPIC:
            if not self.may_miss(topic, log):
                raise Wrong(f"{topic.name} is unknown to a producer, although it exists")
            log.refused(sent)
        elif error == STORAGE:
            if self._history.works(topic.name, partition) and not self.may_miss(topic, log):
                raise Wrong(f"{topic.name}-{partition}: a storage error, although the disk works")
        elif error in TOO_LARGE:
            log.refused(sent)
        else:
            raise Wrong(f"produce to {topic.name}-{partition}: error {error}")

    def check_durable(self, topic: TopicModel, partition: int, sent: Sent, base: int) -> None:
        """See that an acknowledged batch is on the disk, where the acknowledgement waits for it.

        Raises:
            Wrong: A power failure could take it now.
        """
        log = topic.logs[partition]
        if (
            log.is_durable_at_once
            and base >= log.may_start
            and not self._history.is_sure(topic.name, partition, base, sent.body)
        ):
            raise Wrong(f"{topic.name}-{partition}: {base} is acknowledged and may yet be lost")

    def _fetch(  # a step's parameters
        self,
        topic: TopicModel,
        partition: int,
        client: Client,
        where: float,
        size: int,
        version: int,
    ) -> Action:
        log = topic.logs[partition]
        offset = log.start + int(where * (log.end - log.start + 1))
        asked = send_fetch(client, topic, partition, offset, size, version)
        yield asked
        if asked.is_lost or self.may_miss(topic, log):
            return
        answer = answer_of(asked.response)
        if answer is None or answer.error_code in {UNKNOWN_TOPIC, UNKNOWN_ID}:
            if not self.may_miss(topic, log):
                raise Wrong(f"{topic.name} is unknown to a consumer, although it exists")
        elif answer.error_code == STORAGE:
            if self._history.works(topic.name, partition):
                raise Wrong(f"fetch {topic.name}-{partition}: storage error; the disk works")
        elif answer.error_code == OUT_OF_RANGE:
            if log.start <= offset <= log.end and offset >= log.may_start:
                raise Wrong(f"fetch {topic.name}-{partition} from {offset}: out of range")
        elif answer.error_code:
            raise Wrong(f"fetch {topic.name}-{partition}: error {answer.error_code}")
        else:
            self.check_fetched(topic, partition, offset, bytes(answer.records or b""))

    def check_fetched(self, topic: TopicModel, partition: int, offset: int, data: bytes) -> None:
        """Compare what a fetch has returned with the log.

        Raises:
            Wrong: It begins elsewhere, has other bytes, or something that nobody has sent.
        """
        log = topic.logs[partition]
        name = f"{topic.name}-{partition}"
        known = log.find(offset)
        batches = list(read_batches(data))
        if known is not None and len(data) and not batches:
            raise Wrong(f"fetch {name} from {offset}: not one whole batch")
        if known is not None and batches and batches[0].base != known.base:
            raise Wrong(f"fetch {name} from {offset} begins at {batches[0].base}, not {known.base}")
        for each in batches:
            kept = log.find(each.base)
            if kept is not None and (kept.base != each.base or kept.sent.body != each.body):
                raise Wrong(f"fetch {name} from {offset}: other bytes at {each.base}")
            if kept is None and not each.is_control and each.body not in log.perhaps:
                raise Wrong(f"fetch {name} from {offset}: nobody has sent what is at {each.base}")

    def _look_up(self, topic: TopicModel, partition: int, client: Client, where: float) -> Action:
        log = topic.logs[partition]
        if not log.kept:
            return
        kept = log.kept[int(where * len(log.kept))]
        known = first_from(log, kept.sent.timestamps[0], log.start)
        asked = send_lookup(client, topic, partition, kept.sent.timestamps[0])
        yield asked
        if asked.is_lost or self.may_miss(topic, log):
            return
        answer = asked.answer.topics[0].partitions[0]
        if answer.error_code:
            if self._history.works(topic.name, partition) and not self.may_miss(topic, log):
                raise Wrong(f"lookup {topic.name}-{partition}: error {answer.error_code}")
        elif known is not None and known[0] >= log.may_start:  # else what came meanwhile is found
            self._check_lookup(topic, partition, kept.sent.timestamps[0], answer)

    def _check_lookup(self, topic: TopicModel, partition: int, timestamp: int, answer: Any) -> None:
        """Compare with the first record, in the order of offsets, that is not older."""
        log = topic.logs[partition]
        name = f"lookup {topic.name}-{partition} of {timestamp}"
        least, most = (first_from(log, timestamp, each) for each in (log.start, log.may_start))
        if least is None or (most is None and answer.offset == _NONE):
            return
        if answer.offset < least[0] and (answer.offset < 0 or log.find(answer.offset)):
            raise Wrong(f"{name}: {answer.offset}, not {least[0]}")
        if most is not None and answer.offset > most[0]:
            raise Wrong(f"{name}: {answer.offset}, not {most[0]}")
        if answer.offset == least[0] and answer.timestamp != least[1]:
            raise Wrong(f"{name}: time {answer.timestamp} at {least[0]}, not {least[1]}")

    def _delete_records(
        self, topic: TopicModel, partition: int, client: Client, where: float
    ) -> Action:
        log = topic.logs[partition]
        offset = log.start + int(where * (log.end - log.start + 1))
        log.deleting(offset)
        asked = client.send(DELETE_RECORDS, ([(topic.name, [(partition, offset)])], 30_000))
        yield asked
        if asked.is_lost:
            return
        if self.may_miss(topic, log):
            log.strayed(offset)
            return
        log.answered(offset)
        answer = asked.answer.topics[0].partitions[0]
        error = answer.error_code
        self._history.tell(f"  {topic.name}-{partition} to {offset}: error {error}")
        if error == 0:
            log.deleted(answer.low_watermark)
        elif error == UNKNOWN_TOPIC:
            if not self.may_miss(topic, log):
                raise Wrong(f"{topic.name} is unknown to DeleteRecords, although it exists")
        elif error == OUT_OF_RANGE:
            if log.start <= offset <= log.end and offset >= log.may_start:
                raise Wrong(f"DeleteRecords of {topic.name} to {offset}: out of range")
        elif self._history.is_sound and error != _POLICY_VIOLATION:
            raise Wrong(f"DeleteRecords of {topic.name}: error {error}")

    # The judge.

    def mended(self) -> None:
        """See which topics exist: what a client sees while the disk works stays so."""
        if self._history.is_sound:
            self._history.run([self._judge_topics()])

    def judge(self) -> None:
        """Find out which topics exist, read all logs, and look everything up."""
        self._judge = self._history.client(splits=JUDGES_SPLIT)
        self.judged.clear()
        self._history.run([self._judge_topics()])
        self._history.run([self._list(self._judge)])
        for topic in self.topics.values():
            if topic.presence is Presence.PRESENT:
                for partition in range(topic.partitions):
                    self._history.run([self._judge_log(topic, partition)])
        self._judge.reset()

    def _judge_topics(self) -> Action:
        client = self._judge
        names = [{"name": name} for name in self.topics]
        asked = client.send(METADATA, (names, False), 12)
        yield asked
        for answer in asked.response.topics:
            topic = self.topics[answer.name]
            exists = answer.error_code == 0
            if not exists and answer.error_code != UNKNOWN_TOPIC:
                raise Wrong(f"{topic.name} is told with error {answer.error_code}")
            if exists and topic.is_doubtful:
                topic.partitions = len(answer.partitions)  # the disk took some of the folders
            self._judge_presence(topic, answer.topic_id, exists=exists)

    def _judge_presence(self, topic: TopicModel, topic_id: bytes, *, exists: bool) -> None:
        if exists and topic_id in topic.old_ids:
            raise Wrong(f"{topic.name} came back after its deletion")
        may_appear = self._lost_power or topic.is_doubtful
        if exists and topic.presence is Presence.ABSENT and not may_appear:
            raise Wrong(f"{topic.name} exists, although it was deleted or never created")
        if not exists and topic.presence is Presence.PRESENT:
            raise Wrong(f"{topic.name} does not exist, although nobody has deleted it")
        if exists and topic_id != topic.topic_id:
            topic.born(topic_id)
        elif exists:
            topic.presence = Presence.PRESENT
        elif topic.presence is Presence.UNSURE:
            topic.died()
        for log in topic.logs:
            log.stray = 0

    def read_log(
        self, topic: TopicModel, partition: int, client: Client
    ) -> Generator[Question, None, tuple[int, int, list[Stored]]]:
        """Read all of a log; return its start, its end and its batches."""
        first = send_lookup(client, topic, partition, EARLIEST)
        last = send_lookup(client, topic, partition, LATEST)
        yield last
        start, end = (
            self._judged(each.response.topics[0].partitions[0], topic, partition).offset
            for each in (first, last)
        )
        stored: list[Stored] = []
        offset = start
        while offset < end:
            asked = send_fetch(client, topic, partition, offset)
            yield asked
            answer = self._judged(answer_of(asked.response), topic, partition)
            batches = list(read_batches(bytes(answer.records or b"")))
            if not batches:
                break  # up to the end, or the model says that something is missing
            stored += batches
            offset = batches[-1].last + 1
        return start, end, stored

    def _judge_log(self, topic: TopicModel, partition: int) -> Action:
        client = self._judge
        read = yield from self.read_log(topic, partition, client)
        for _ in range(_TRIES):
            start, end, stored = read
            try:
                topic.logs[partition].settle(stored, (start, end), may_lose=self._lost_power)
                yield from self._judge_offsets(topic, partition, client, (start, end), stored)
                break
            except Wrong as error:
                read = yield from self.read_log(topic, partition, client)
                if read == (start, end, stored):  # no transaction has ended meanwhile
                    raise Wrong(f"{topic.name}-{partition}: {error}") from error
        self.judged[topic.logs[partition]] = read
        yield from self._judge_times(topic, partition, client)

    def _judged(self, answer: Any, topic: TopicModel, partition: int) -> Any:
        if answer is None or answer.error_code:
            code = None if answer is None else answer.error_code
            raise Wrong(f"{topic.name}-{partition}: error {code}, although the disk works")
        return answer

    def _judge_offsets(
        self,
        topic: TopicModel,
        partition: int,
        client: Client,
        bounds: tuple[int, int],
        stored: list[Stored],
    ) -> Action:
        """Fetch from each offset by itself, and from behind the end.

        In a hole the next batch is found; none if the hole reaches the end. From some only of the
        offsets is fetched once more in one life of the broker, or in closed segments whose files
        have not changed since.
        """
        start, end = bounds
        at = 0
        asked = []
        filled = stored[-1].last + 1 if stored else start
        fetched = self._fetched.setdefault(topic.logs[partition], set())
        before = self._segments.get((topic.topic_id, partition), {})
        now = self._history.find_segments(topic.name, partition)
        bases = sorted(now)
        fetched.update(
            each.base
            for each in stored
            if (place := bisect_right(bases, each.base)) < len(bases)
            and before.get(bases[place - 1]) == now[bases[place - 1]]
        )
        for offset in range(start, filled):
            while stored[at].last < offset:
                at += 1
            if stored[at].base not in fetched or self._history.rng.random() < _AGAIN:
                question = send_fetch(client, topic, partition, offset, 1, 12)
                asked.append((offset, stored[at], question))
        behind = [
            (offset, send_fetch(client, topic, partition, offset, 1, 12))
            for offset in range(filled, end + 1)
        ]
        beyond = send_fetch(client, topic, partition, end + 1, 1, 12)
        yield beyond
        for offset, batch, question in asked:
            answer = self._judged(answer_of(question.response), topic, partition)
            found = next(read_batches(bytes(answer.records or b"")), None)
            if found is None or found.base != batch.base or found.body != batch.body:
                base = None if found is None else found.base
                raise Wrong(f"a fetch from {offset} begins at {base}, not {batch.base}")
        for offset, question in behind:
            if self._judged(answer_of(question.response), topic, partition).records:
                raise Wrong(f"records at {offset}, behind the last")
        fetched.update(each.base for each in stored)
        self._segments[topic.topic_id, partition] = now
        if answer_of(beyond.response).error_code != OUT_OF_RANGE:
            raise Wrong(f"a fetch from {end + 1} is not out of range")

    def _judge_times(self, topic: TopicModel, partition: int, client: Client) -> Action:
        """Look the timestamps up at the edges of batches; of many batches, a sample."""
        log = topic.logs[partition]
        every = max(1, len(log.kept) // 6)
        chosen = [*log.kept[self._history.rng.randrange(every) :: every], *log.kept[-2:]]
        stamps = [
            stamp
            for each in chosen
            for stamp in each.sent.timestamps[:: max(1, each.sent.size - 1)]
        ]
        asked = [(stamp, send_lookup(client, topic, partition, stamp)) for stamp in stamps]
        if asked:
            yield asked[-1][1]
        for stamp, question in asked:
            answer = self._judged(question.response.topics[0].partitions[0], topic, partition)
            self._check_lookup(topic, partition, stamp, answer)


def first_from(log: LogModel, timestamp: int, start: int) -> tuple[int, int] | None:
    """Return offset and time of the first record that is not older, None without one."""
    for each in log.kept:
        for at, stamp in enumerate(each.sent.timestamps):
            if stamp >= timestamp and each.base + at >= start:
                return each.base + at, stamp
    return None
