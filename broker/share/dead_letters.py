"""Dead letters (KIP-1191): records that a share group has given up, written to a topic.

Kafka: DefaultShareGroupDLQManager, ShareGroupDLQStateManager, ShareGroupDLQRecordFetcher. A letter
has headers that say which record it stands for, and its key and value if the group wants them. The
letters of a queue are in the partition with the queue's number, as far as the topic has as many.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.process.tasks import Tasks
from siltstone.broker.share.key import Letters
from siltstone.broker.topics.features import Features
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.broker.topics.settings.in_force import BrokerSettings
from siltstone.broker.topics.topic import Topic
from siltstone.config.consumer_groups import GroupConfig
from siltstone.protocol.core.constants import HEADER_SIZE
from siltstone.protocol.errors import InvalidConfig, KafkaError, TopicAlreadyExists
from siltstone.protocol.names import check_topic_name, uuid_text
from siltstone.protocol.parts import FileSlice
from siltstone.protocol.records.batch import BatchHeader
from siltstone.protocol.records.build import build_batch
from siltstone.protocol.records.record import Headers, Record, iterate_records
from siltstone.storage import files
from siltstone.storage.appending.validation import validate
from siltstone.storage.clock import Clock
from siltstone.storage.log.log import Log

_logger = logging.getLogger(__name__)

_FIRST_LEVEL: Final = 2
"""The level of ``share.version`` from which on there are dead letters."""
_OF_TOPIC: Final = {
    "errors.deadletterqueue.group.enable": "true",
    "message.timestamp.type": "CreateTime",
}
_READ_BYTES: Final = 1 << 20
_LETTERS_AT_A_TIME: Final = 1000
_GROUPS_COUNTED: Final = 5000
_RECORD_BYTES: Final = 30
"""The most that the lengths, the offset and the time of a letter take."""


class DeadLetters:
    """Writes dead letters one after the other (loop only).

    By group, ``begun`` counts batches, ``written`` letters, and ``failed`` ranges of letters that
    were given up.
    """

    def __init__(
        self,
        topics: TopicRegistry,
        settings: BrokerSettings,
        features: Features,
        io: IoThreads,
        clock: Clock,
    ) -> None:
        self.written: dict[str, int] = {}
        self.failed: dict[str, int] = {}
        self.begun: dict[str, int] = {}
        self._topics = topics
        self._settings = settings
        self._features = features
        self._io = io
        self._clock = clock
        self._waiting: deque[tuple[Letters, Callable[[], None]]] = deque()
        self._tasks = Tasks()
        self._lines = BoundedLines(clock.monotonic)

    def is_wanted(self, group: GroupConfig) -> bool:
        """Tell whether a group has a topic for its dead letters, and there may be any."""
        has_letters = self._features.level("share.version") >= _FIRST_LEVEL
        return has_letters and bool(group.errors_deadletterqueue_topic_name)

    def send(self, letters: Letters, done: Callable[[], None]) -> None:
        """Write letters soon; ``done`` is called when they are written, or given up for good.

        A failure is logged. Letters that a stop leaves unwritten are never done: their records are
        still on the way after the next start.
        """
        self._waiting.append((letters, done))
        if not len(self._tasks):
            self._tasks.start(self._work(), "dead letters")

    async def close(self) -> None:
        """Stop writing."""
        await self._tasks.cancel()

    async def _work(self) -> None:
        while self._waiting:
            letters, done = self._waiting.popleft()
            group_id = letters.key.group_id
            try:
                await self._write(letters)
            except (KafkaError, OSError) as error:
                _count(self.failed, group_id)
                line = "dead letters not written, records are archived queue=%s reason=%s"
                self._lines.warn(_logger, line, letters.key, error)
            done()

    async def _write(self, letters: Letters) -> None:
        """Write the letters of a range.

        Raises:
            InvalidConfig: The settings of the group, the broker and the topic do not fit.
            KafkaError: The topic could not be made or written.
        """
        group = self._settings.group_config(letters.key.group_id)
        topic = await self._find_topic(group.errors_deadletterqueue_topic_name)
        partition = letters.key.partition % topic.partitions
        share = LoopShare()
        following = letters.first
        while following <= letters.last:
            upto, found = letters.last, dict[int, Record]()
            if group.errors_deadletterqueue_copy_record_enable:
                upto, found = await self._read(letters, following)
            upto = min(upto, following + _LETTERS_AT_A_TIME - 1)
            target = self._topics.find_log(topic.name, partition)
            written = self._make(letters, following, upto, found, target.config.max_message_bytes)
            _count(self.begun, letters.key.group_id)
            await self._append(target, written)
            following += len(written)
            _count(self.written, letters.key.group_id, len(written))
            await share.rest()

    async def _find_topic(self, name: str) -> Topic:
        """Return the topic for dead letters; make it if it does not exist and may be made."""
        server = self._settings.server
        topic = self._topics.find(name)
        if not name or name.startswith("__"):
            raise InvalidConfig(f"errors.deadletterqueue.topic.name is {name!r}")
        if topic is not None and not topic.config.errors_deadletterqueue_group_enable:
            raise InvalidConfig(
                f"topic {name} has no errors.deadletterqueue.group.enable; set it to true"
            )
        if topic is None and not server.errors_deadletterqueue_auto_create_topics_enable:
            raise InvalidConfig(
                f"topic {name} does not exist; create it, or set "
                "errors.deadletterqueue.auto.create.topics.enable"
            )
        if not name.startswith(server.errors_deadletterqueue_topic_name_prefix):
            raise InvalidConfig(
                f"the name {name} does not begin as errors.deadletterqueue.topic.name.prefix says"
            )
        if topic is not None:
            return topic
        check_topic_name(name)
        self._topics.check_collision(name)
        try:
            return await self._topics.create(name, server.num_partitions, _OF_TOPIC)
        except TopicAlreadyExists:
            return await self._find_topic(name)

    def _make(
        self, letters: Letters, first: int, upto: int, found: Mapping[int, Record], max_bytes: int
    ) -> list[Record]:
        """Return letters from ``first`` on, as many as fit in one batch, and at least one."""
        now_ms = self._clock.now_ms()
        room = max_bytes - HEADER_SIZE
        made: list[Record] = []
        for offset in range(first, upto + 1):
            headers = self._headers(letters, offset)
            record = found.get(offset)
            key, value = (None, None) if record is None else (record.key, record.value)
            size = _size_of(key, value, headers)
            if size > max_bytes - HEADER_SIZE:
                key = value = None  # only the headers fit into the topic
                size = _size_of(key, value, headers)
            room -= size
            if room < 0 and made:
                break
            made.append(Record(len(made), now_ms, key, value, headers))
        return made

    def _headers(self, letters: Letters, offset: int) -> Headers:
        group_id, topic_id, partition = letters.key
        topic = self._topics.find_id(topic_id)
        told = {
            "topic": uuid_text(topic_id) if topic is None else topic.name,
            "partition": str(partition),
            "offset": str(offset),
            "group": group_id,
            "delivery.count": str(letters.deliveries),
            "message": letters.cause,
        }
        return tuple(
            (f"__dlq.errors.{name}".encode(), each.encode()) for name, each in told.items()
        )

    async def _append(self, target: Log, letters: Iterable[Record]) -> None:
        batch = build_batch(letters)
        checked = await self._io.unpack(
            validate, memoryview(batch), target.config, self._clock.now_ms()
        )
        if target.append(checked).flush_due:
            await self._io.run(target.flush)

    async def _read(self, letters: Letters, first: int) -> tuple[int, dict[int, Record]]:
        """Return the last offset that was looked for, and the records up to it."""
        try:
            log = self._topics.find_log(letters.key.topic_id.bytes, letters.key.partition)
            read = log.read(first, _READ_BYTES, log.high_watermark)
            if read is None:
                return letters.last, {}
            return await self._io.unpack(_open, read.slice, first, letters.last)
        except KafkaError as error:
            line = "dead letters have no records queue=%s reason=%s"
            self._lines.warn(_logger, line, letters.key, error)
            return letters.last, {}


def _count(counts: dict[str, int], group_id: str, more: int = 1) -> None:
    """Count something of a group; of new groups no more than some thousand, for a scrape."""
    if group_id in counts or len(counts) < _GROUPS_COUNTED:
        counts[group_id] = counts.get(group_id, 0) + more


def _size_of(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return the most bytes that a letter takes."""
    named = sum(len(name) + len(value or b"") + 4 for name, value in headers)
    return _RECORD_BYTES + len(key or b"") + len(value or b"") + named


def _open(source: FileSlice, first: int, last: int) -> tuple[int, dict[int, Record]]:
    """Return the records of a range of a file within two offsets, and how far it goes. Blocks.

    At most so many records are opened as one read has bytes.
    """
    data = files.read_at(source.file.fileno(), source.size, source.position)
    found: dict[int, Record] = {}
    position, upto, size = 0, first, 0
    while position + HEADER_SIZE <= len(data):
        header = BatchHeader.read(data, position)
        batch = memoryview(data)[position : position + header.size]
        position += header.size
        if header.base_offset > last:
            return last, found
        upto = header.last_offset
        if header.is_control or header.last_offset < first:
            continue
        for record in iterate_records(batch):
            if first <= record.offset <= last:
                size += len(record.key or b"") + len(record.value or b"")
                if size > _READ_BYTES and found:
                    return record.offset - 1, found
                found[record.offset] = record
    return min(upto, last), found
