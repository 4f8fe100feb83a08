"""Sends one part of a replay: produces, notes the progress, keeps to the rate."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from siltstone.pipeline.client.cluster import Cluster
from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.replay_batches import read_batches
from siltstone.pipeline.jobs.replay_progress import Noted, Progress, begin
from siltstone.pipeline.jobs.replay_source import Chunk, Part, read_part
from siltstone.pipeline.sinks.batches import BatchProducer
from siltstone.pipeline.sinks.kafka import (
    PROGRESS_TOPIC,
    NotSent,
    make_producer,
    note_progress,
    read_progress,
)
from siltstone.storage import files
from siltstone.storage.clock import Clock
from siltstone.storage.topic_partition import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

NOTE_BYTES: Final = 16 << 20
"""How many bytes are sent before progress is noted or a transaction is committed."""
_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where to send, and how; ``rate`` is bytes a second of one task, 0 for no limit."""

    bootstrap: str
    settings: dict[str, str]
    topic: str
    rate: int
    by_key: bool
    progress: Path | None
    exactly_once: bool
    job: str
    place: str
    """The ids of the cluster and the topic."""
    ends: dict[int, int]
    """Of the topic's partitions, before anything was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDone:
    """The result of one part; ``skipped`` is how many records earlier runs have sent."""

    records: int
    skipped: int
    sent_bytes: int


def check_progress(target: Target, parts: Sequence[Part]) -> None:
    """Check, before anything is sent, that the progress of all parts belongs to this replay.

    Raises:
        Refused: The progress of a part does not.
    """
    found: Mapping[str, bytes] = {}
    if target.exactly_once:
        keys = [_key_of(target, part) for part in parts]
        found = read_progress(target.bootstrap, target.settings, keys, is_whole=False)
    for part in parts:
        noted = _noted(target, part, found.get(_key_of(target, part)))
        begin(part, target.place, target.ends, noted)


def _key_of(target: Target, part: Part) -> str:
    return f"{target.job}-{part.name}"


def _progress_file(target: Target, part: Part) -> Path | None:
    if target.progress is None:
        return None
    return target.progress / f"{target.job}-{quote(part.name, safe='')}.json"


def _noted(target: Target, part: Part, record: bytes | None = None) -> Noted:
    """Return the note of a part, from its file or from a record of the progress topic."""
    if target.exactly_once:
        where = f"the record {_key_of(target, part)} of the topic {PROGRESS_TOPIC}"
        return Noted(record, where, "delete that topic, which has the progress of all replays,")
    path = _progress_file(target, part)
    try:
        text = None if path is None else path.read_bytes()
    except FileNotFoundError:
        text = None
    return Noted(text, str(path), "delete that file")


def send_part(target: Target, part: Part) -> TaskDone:
    """Send the rows of a part, from where an earlier run ended.

    Raises:
        NotSent: The broker did not take them.
        BadOption: The topic does not have the partitions of the rows.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415  # if something is sent

    try:
        return _sender_of(target, part).send()
    except KafkaException as error:
        if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  # its name
            raise BadOption(
                f"rows of {part.name} are of partitions that topic {target.topic} has not; add "
                "partitions, or take --partitions key"
            ) from error
        raise NotSent(
            f"topic {target.topic} did not take the records of {part.name}: {error.args[0]}; run "
            "the replay again to go on"
        ) from error


def _sender_of(target: Target, part: Part) -> "_Sender":
    if target.exactly_once:
        return _Transactions(target, part)
    has_files = bool(part.splits) and all(split.folder for split in part.splits)
    if has_files and not target.by_key:
        return _BatchSender(target, part)
    return _Sender(target, part)


class _Sender:
    """Sends at least once; the progress of each part is a file."""

    def __init__(self, target: Target, part: Part) -> None:
        self._target = target
        self._part = part
        self._clock = Clock()
        self._fault: KafkaError | None = None
        self._records = 0
        self._bytes = 0
        self._unnoted = 0
        self._began = self._clock.monotonic()
        self._ends: dict[int, int] = {}
        self._open()
        self._before = begin(part, target.place, target.ends, self._read_progress())
        self._start = self._before.following

    def send(self) -> TaskDone:
        """Send everything."""
        self._begin()
        following = self._start
        for chunk in read_part(self._part, self._start):
            self._send_chunk(chunk)
            following = chunk.following
            self._go_slowly(following)
        self._note(following, is_last=True)
        return self._done()

    def _done(self) -> TaskDone:
        return TaskDone(records=self._records, skipped=self._before.records, sent_bytes=self._bytes)

    def _go_slowly(self, following: int) -> None:
        """Note the progress if it is time, and wait if the rate demands it."""
        if self._unnoted >= NOTE_BYTES:
            self._note(following, is_last=False)
        if self._target.rate:
            passed = self._clock.monotonic() - self._began
            ahead = self._bytes / self._target.rate - passed
            if ahead > 0:
                time.sleep(ahead)

    def _open(self) -> None:
        self._producer = make_producer(self._target.bootstrap, self._target.settings)

    def _read_progress(self) -> Noted:
        return _noted(self._target, self._part)

    def _progress(self, following: int) -> Progress:
        """Return the progress once all that was sent is acknowledged."""
        return replace(
            self._before,
            following=following,
            records=self._before.records + self._records,
            ends=self._before.ends | self._ends,
        )

    def _begin(self) -> None:
        """Get ready for rows."""

    def _note(self, following: int, *, is_last: bool) -> None:  # noqa: ARG002  # for transactions
        """Wait until all rows are acknowledged, and note that."""
        self._flush()
        path = _progress_file(self._target, self._part)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.replace_file(path, self._progress(following).to_json())
        self._unnoted = 0

    def _flush(self) -> None:
        left = self._producer.flush(_SECONDS)
        if self._fault is not None or left:
            reason = self._fault or f"{left} records were not acknowledged in {_SECONDS:g} s"
            raise NotSent(
                f"topic {self._target.topic} did not take the records of {self._part.name}: "
                f"{reason}; run the replay again to go on"
            )

    def _send_chunk(self, chunk: Chunk) -> None:
        rows = len(chunk.keys)
        nothing: list[None] = [None] * rows
        partitions = nothing if self._target.by_key else chunk.partitions or nothing
        for key, value, partition, timestamp, headers in zip(
            chunk.keys,
            chunk.values,
            partitions,
            chunk.timestamps or nothing,
            chunk.headers or nothing,
            strict=True,
        ):
            self._produce(key, value, partition, timestamp, headers)
        self._records += rows
        self._bytes += chunk.size
        self._unnoted += chunk.size
        self._producer.poll(0)

    def _produce(
        self,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: int | None,
        headers: "list[dict[str, Any]] | None",
    ) -> None:
        """Hand over one record. For librdkafka the timestamp 0 means now, like no timestamp."""
        facts: dict[str, Any] = {"on_delivery": self._on_delivery}
        if partition is not None:
            facts["partition"] = partition
        if timestamp is not None and timestamp > 0:
            facts["timestamp"] = timestamp
        if headers:
            facts["headers"] = [(header["key"], header["value"]) for header in headers]
        while True:
            try:
                self._producer.produce(self._target.topic, key=key, value=value, **facts)
                return
            except BufferError:
                self._producer.poll(0.05)

    def _on_delivery(self, error: "KafkaError | None", message: "Message") -> None:
        if error is not None:
            self._fault = error
            return
        partition, offset = message.partition(), message.offset()
        if partition is not None and offset is not None:
            self._ends[partition] = max(self._ends.get(partition, 0), offset + 1)


class _Transactions(_Sender):
    """Sends exactly once: progress is a record of the same transaction.

    Each part has its own transactional id, so a new attempt fences an earlier one that still runs.
    """

    def _open(self) -> None:
        name = f"siltstone-replay-{_key_of(self._target, self._part)}"
        self._producer = make_producer(self._target.bootstrap, self._target.settings, name)
        self._producer.init_transactions(_SECONDS)

    def _read_progress(self) -> Noted:
        key = _key_of(self._target, self._part)
        found = read_progress(self._target.bootstrap, self._target.settings, [key])
        return _noted(self._target, self._part, found.get(key))

    def _begin(self) -> None:
        self._producer.begin_transaction()

    def _note(self, following: int, *, is_last: bool) -> None:
        self._flush()
        key = _key_of(self._target, self._part)
        note_progress(self._producer, key, self._progress(following).to_json())
        self._producer.commit_transaction(_SECONDS)
        self._unnoted = 0
        if not is_last:
            self._producer.begin_transaction()


class _BatchSender(_Sender):
    """Sends whole batches from the files of a partition, without decoding them."""

    def send(self) -> TaskDone:
        """Send everything."""
        with Cluster(self._target.bootstrap, self._target.settings) as cluster:
            partition = self._part.splits[0].partition
            self._batches = BatchProducer(cluster, TopicPartition(self._target.topic, partition))
            following = self._start
            for batch in read_batches(self._part, self._start):
                self._batches.send(batch.data, batch.records)
                self._records += batch.records
                self._bytes += len(batch.data)
                self._unnoted += len(batch.data)
                following = batch.following
                self._go_slowly(following)
            self._note(following, is_last=True)
        return self._done()

    def _open(self) -> None:
        """Do nothing: `send` opens the connection."""

    def _flush(self) -> None:
        self._ends = {self._part.splits[0].partition: self._batches.flush()}
