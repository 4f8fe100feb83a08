"""Topics that the broker shortens: passes of the cleaner, and retention by age and by size.

Records have few keys, and some are tombstones. Limits are altered meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Record
from siltstone.storage.files import PINS
from tests.simulator.clients.requests import (
    CREATE_TOPICS,
    DELETE,
    EARLIEST,
    JUDGES_SPLIT,
    LATEST,
    OUT_OF_RANGE,
    SET,
    STORAGE,
    TOO_LARGE,
    TOPIC,
    creation,
    send_alter,
    send_batch,
    send_fetch,
    send_lookup,
    share,
)
from tests.simulator.incarnation import ROOT
from tests.simulator.model.compacted import CompactedLog, Frame, Read, Row, read_frames
from tests.simulator.model.log import Wrong

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from random import Random

    from tests.simulator.history import Action, History
    from tests.simulator.wire import Client, Question

_CHECK_MS: Final = 500
_CHANGES: Final = (
    ("retention.ms", ("-1", "1000", "5000", "100000", None)),
    ("retention.bytes", ("-1", "0", "600", "6000", None)),
    ("segment.ms", ("1000", "60000", None)),
    ("segment.bytes", ("300", "2000", None)),
)
_NEWEST, _LOCAL, _TIERED = _PLACES = (-3, -4, -5)
"""The largest timestamp, the start of what is on this disk, the end of what is not."""
_TRIES: Final = 6
"""So often a log is read until no pass of the cleaner has come between."""
_SAMPLE: Final = 24
_TOMBSTONE: Final = -1


class _Topic(NamedTuple):
    name: str
    topic_id: bytes
    log: CompactedLog


class Compacted:
    """The topics of a history that get shorter; nobody deletes them."""

    PLACE: Final = 1
    WEIGHTS: Final = {"put": 6, "read_keys": 1.5, "limit": 0.7}

    @staticmethod
    def draw(rng: Random) -> dict[str, Any]:
        """Return the settings of each topic; many histories have none."""
        topics = {}
        for name in ("figs", "grapes")[: rng.choice((0, 0, 1, 1, 2))]:
            settings: dict[str, Any] = {
                "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
                "segment.bytes": rng.choice((200, 300, 1_000, 4_000)),
                "index.interval.bytes": rng.choice((50, 4096)),
                "min.cleanable.dirty.ratio": rng.choice((0, 0.01, 0.3, 0.9)),
                "delete.retention.ms": rng.choice((0, 1_000, 60_000, 86_400_000)),
                "file.delete.delay.ms": rng.choice((0, 1_000, 60_000)),
            }
            for key, often, values in (
                ("min.compaction.lag.ms", 0.2, (500, 60_000)),
                ("max.compaction.lag.ms", 0.2, (1_000, 60_000)),
                ("segment.ms", 0.2, (1_000, 60_000)),
                ("flush.messages", 0.3, (1, 1, 3)),
                ("segment.index.bytes", 0.15, (24, 96)),
                ("retention.ms", 0.5, (5_000, 100_000)),
                ("preallocate", 0.2, ("true",)),
            ):
                if rng.random() < often:
                    settings[key] = rng.choice(values)
            if settings.get("max.compaction.lag.ms", 1 << 63) < settings.get(
                "min.compaction.lag.ms", 0
            ):
                del settings["min.compaction.lag.ms"]
            topics[name] = {key: str(value) for key, value in settings.items()}
        if rng.random() < 0.3:
            topics["dates"] = {
                "cleanup.policy": "delete",
                "segment.bytes": rng.choice(("200", "1000", "4000")),
                "index.interval.bytes": rng.choice(("50", "4096")),
                "retention.ms": rng.choice(("-1", "5000", "100000")),
                "retention.bytes": rng.choice(("-1", "0", "600", "6000")),
                "segment.ms": rng.choice(("1000", "60000")),
                "flush.messages": rng.choice(("1", "3", "1000")),
                "message.timestamp.type": rng.choice(("CreateTime", "LogAppendTime")),
            }
        return topics

    @staticmethod
    def settings_of(drawn: dict[str, Any]) -> list[str]:
        """Return how often the broker looks for what is over."""
        return [f"log.retention.check.interval.ms={_CHECK_MS}"] if drawn else []

    @staticmethod
    def draw_step(kind: str, rng: Random) -> list[Any]:
        """Return which topic, and the records to send or where to read."""
        which = share(rng)
        if kind == "read_keys":
            return [which, share(rng), rng.choice((1, 300, 200_000))]
        if kind == "limit":
            key, values = rng.choice(_CHANGES)
            return [which, key, rng.choice(values)]
        keys = rng.choice((1, 3, 6, 40))
        sizes = rng.choice(((_TOMBSTONE, 5), (5,), (1, 80, _TOMBSTONE), (700,)))
        count = rng.choice((1, 1, 2, 6))
        records = [[rng.randrange(keys), rng.choice(sizes)] for _ in range(count)]
        return [which, records, rng.choice((0, 0, 0, 1, 2, 3, 4)), rng.choice((-1, -1, 1, 0))]

    def __init__(self, history: History, drawn: dict[str, Any]) -> None:
        self._history = history
        self._settings: dict[str, dict[str, str]] = drawn
        self._topics: list[_Topic] = []
        self._client = history.client()
        self._stamp = history.now_ms
        self._lost_power = False
        self._hits = 0

    def set_up(self) -> Action:
        """Create the topics."""
        for name, settings in self._settings.items():
            asked = self._client.send(CREATE_TOPICS, creation(name, 1, settings))
            yield asked
            (answer,) = asked.response.topics
            if answer.error_code:
                raise Wrong(f"create {name}: {answer.error_code} {answer.error_message}")
            self._topics.append(_Topic(name, answer.topic_id, CompactedLog(settings)))

    def play(self, kind: str, which: float, *rest: Any) -> Action:
        """Play a step."""
        topic = self._topics[int(which * len(self._topics))]
        client = self._history.beside(self._client)
        acts: dict[str, Any] = {"put": self._put, "limit": self._limit}
        action: Action = acts.get(kind, self._read_somewhere)(topic, client, *rest)
        return action

    def stopped(self) -> None:
        """Note that all is durable, where nothing has failed."""
        if self._history.is_sound:
            for topic in self._topics:
                topic.log.flushed()

    def restarted(self, way: str) -> None:
        """Note that a power failure may have taken what was not durable."""
        self._lost_power |= way == "power"
        self._hits = self._history.hits
        for topic in self._topics:
            topic.log.settings.restarted()
            if way == "power":
                topic.log.lost_power()

    def settled(self) -> None:
        """Note that what is missing after a start will not come."""
        self._lost_power = False
        for topic in self._topics:
            topic.log.forget_perhaps()

    # Steps.

    def _make(self, records: list[list[int]]) -> list[Row]:
        now_ms = self._history.now_ms
        first = self._stamp = max(now_ms, self._stamp + 1)
        self._stamp += len(records) - 1
        return [
            Row(
                b"k%d" % key,
                None if size == _TOMBSTONE else b"%d" % stamp + b"." * size,
                stamp,
                now_ms,
            )
            for stamp, (key, size) in enumerate(records, first)
        ]

    def _put(
        self, topic: _Topic, client: Client, records: list[list[int]], codec: int, acks: int
    ) -> Action:
        rows = self._make(records)
        if topic.name == "dates":
            rows = [row._replace(value=row.value or b"%d." % row.timestamp) for row in rows]
        log, end_before = topic.log, topic.log.end
        batch = build_batch(
            [Record(at, row.timestamp, row.key, row.value) for at, row in enumerate(rows)],
            codec=codec,
        )
        rows[-1] = rows[-1]._replace(size=len(batch))
        log.sending(rows)
        asked = send_batch(client, topic, 0, batch, acks=acks)
        if not acks:
            return
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.responses[0].partition_responses[0]
        error = answer.error_code
        self._history.tell(f"  {topic.name} error {error} base {answer.base_offset}")
        if error == 0:
            log.acknowledged(rows, answer.base_offset, end_before, answer.log_append_time_ms)
        elif error in TOO_LARGE:
            log.refused(rows)
        elif error != STORAGE or self._history.works(topic.name, 0):
            raise Wrong(f"produce to {topic.name}: error {error}")

    def _limit(self, topic: _Topic, client: Client, key: str, value: str | None) -> Action:
        """Change a setting that says what is over, or when a segment ends."""
        if key == "retention.bytes" and topic.name != "dates":
            return  # what passes leave of the bytes behind a record is not known
        model = topic.log.settings
        change = model.begin([key])
        model.unsure({key: value})
        topic.log.note_limits()
        asked = send_alter(client, TOPIC, topic.name, [(key, SET if value else DELETE, value)])
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.responses[0]
        if answer.error_code == 0:
            model.acknowledged(change, {key: value})
        elif answer.error_code != STORAGE or self._history.is_sound:
            raise Wrong(f"{topic.name}: {key}={value} {answer.error_code} {answer.error_message}")

    def _read_somewhere(self, topic: _Topic, client: Client, where: float, size: int) -> Action:
        log = topic.log
        offset = log.start + int(where * (log.end - log.start + 1))
        asked = send_fetch(client, topic, 0, offset, size)
        yield asked
        if asked.is_lost:
            return
        answer = asked.answer.responses[0].partitions[0]
        if answer.error_code == 0:
            topic.log.check(list(read_frames(bytes(answer.records or b""))), offset)
        elif answer.error_code == STORAGE:
            if self._history.works(topic.name, 0):
                raise Wrong(f"fetch {topic.name}: storage error; the disk works")
        elif answer.error_code != OUT_OF_RANGE or not topic.log.expires:
            raise Wrong(f"fetch {topic.name} from {offset}: error {answer.error_code}")

    # The judge.

    def judge(self) -> None:
        """Read all logs, from each offset too, and look times up."""
        client = self._history.client(splits=JUDGES_SPLIT)
        checked_ms = self._history.now_ms
        if any(each.name == "dates" for each in self._topics):
            self._history.let_pass(3 * _CHECK_MS / 1000)
        for topic in self._topics:
            try:
                self._history.run([self._judge_log(topic, client, checked_ms)])
            except Wrong as error:
                raise Wrong(f"{topic.name}: {error}") from error
        client.reset()

    def _judge_log(self, topic: _Topic, client: Client, checked_ms: int) -> Action:
        """Judge the log when no pass of the cleaner came between the first and the last read."""
        read = yield from self._read_all(topic, client)
        for _ in range(_TRIES):
            topic.log.check(read.frames, read.start)
            fetched = yield from self._fetch_each(topic, client, read)
            looked = yield from self._look_each(topic, client, read)
            sizes = self._find_sizes(topic)  # before the last look at the start: that may move on
            again = yield from self._read_all(topic, client)
            if again == read:
                topic.log.settle(read, may_lose=self._lost_power, now_ms=self._history.now_ms)
                self._compare(topic, read, fetched, looked)
                if topic.name == "dates" and self._history.is_sound:
                    topic.log.check_segments(read.start, sizes, checked_ms)
                return
            read = again

    def _find_sizes(self, topic: _Topic) -> dict[int, int]:
        """Return the sizes of the log's segments by their first offsets; pins may hold others."""
        return {
            int(path[-24:-4]): size
            for path, size, _ in self._history.world.disk.rooms(ROOT)
            if f"/{topic.name}-0/" in path and PINS not in path and path.endswith(".log")
        }

    def rested(self) -> None:
        """See that passes have left nothing to do, where nothing has failed since the start."""
        client = self._history.client()
        for topic in self._topics if self._history.hits == self._hits else ():
            self._history.run([self._judge_clean(topic, client)])

    def _judge_clean(self, topic: _Topic, client: Client) -> Action:
        read = yield from self._read_all(topic, client)
        try:
            topic.log.check_clean(read.frames, self._find_sizes(topic))
        except Wrong as error:
            raise Wrong(f"{topic.name}: {error}") from error

    def _read_all(self, topic: _Topic, client: Client) -> Generator[Question, None, Read]:
        bounds = [send_lookup(client, topic, 0, each) for each in (EARLIEST, LATEST)]
        yield from bounds
        start, end = (self._judged(each.response.topics[0]).offset for each in bounds)
        frames: list[Frame] = []
        offset = start
        while offset < end:
            asked = send_fetch(client, topic, 0, offset)
            yield asked
            answer = asked.response.responses[0]
            if answer.partitions[0].error_code == OUT_OF_RANGE and topic.log.expires:
                break  # retention was quicker; the next read is another one
            found = list(read_frames(bytes(self._judged(answer).records or b"")))
            if not found:
                break
            frames += found
            offset = found[-1].last + 1
        return Read(start, end, frames)

    def _judged(self, topic: Any) -> Any:
        answer = topic.partitions[0]
        if answer.error_code:
            raise Wrong(f"error {answer.error_code}, although the disk works")
        return answer

    def _fetch_each(
        self, topic: _Topic, client: Client, read: Read
    ) -> Generator[Question, None, list[tuple[int, Any]]]:
        """Fetch from offsets by themselves, and from the end."""
        every = max(1, (read.end - read.start) // _SAMPLE)
        offsets = [*range(read.start, read.end, every), read.end]
        asked = [(each, send_fetch(client, topic, 0, each, 1)) for each in offsets]
        yield asked[-1][1]
        return [(offset, each.response.responses[0].partitions[0]) for offset, each in asked]

    def _look_each(
        self, topic: _Topic, client: Client, read: Read
    ) -> Generator[Question, None, list[tuple[int, Any]]]:
        """Look up the times of records that remain, and the moments behind them."""
        stamps = [each[3] for frame in read.frames for each in frame.records]
        chosen = stamps[:: max(1, len(stamps) // 5)]
        asked = [
            (stamp, send_lookup(client, topic, 0, stamp))
            for stamp in (*_PLACES, *(moment for each in chosen for moment in (each, each + 1)))
        ]
        yield asked[-1][1]
        return [(stamp, each.response.topics[0].partitions[0]) for stamp, each in asked]

    @staticmethod
    def _compare(
        topic: _Topic,
        read: Read,
        fetched: Sequence[tuple[int, Any]],
        looked: Sequence[tuple[int, Any]],
    ) -> None:
        """Compare each fetch and lookup with the first batch and record that fit."""
        for offset, answer in fetched:
            first = next((each for each in read.frames if each.last >= offset), None)
            frames = list(read_frames(bytes(answer.records or b"")))
            if answer.error_code or frames[:1] != ([] if first is None else [first]):
                base = frames[0].base if frames else None
                wanted = None if first is None else first.base
                raise Wrong(
                    f"a fetch from {offset} begins at {base}, not {wanted}; error"
                    f" {answer.error_code}"
                )
        rows = [each for frame in read.frames for each in frame.records]
        for stamp, answer in looked:
            row = next((each for each in rows if each[3] >= stamp), None)
            expected = (-1, -1) if row is None else (row[0], row[3])
            if stamp == _NEWEST:
                if topic.name != "dates":
                    continue  # a batch without records keeps its time
                newest = max(rows, key=lambda each: each[3], default=None)
                expected = (-1, -1) if newest is None else (newest[0], newest[3])
            elif stamp < 0:
                expected = (read.start if stamp == _LOCAL else -1, -1)
            if answer.error_code or (answer.offset, answer.timestamp) != expected:
                raise Wrong(
                    f"a lookup of {stamp} tells offset {answer.offset} and time"
                    f" {answer.timestamp}, not {expected}; error {answer.error_code}"
                )
