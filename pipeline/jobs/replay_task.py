"""Sends one part of a replay: produces, keeps to the rate, commits with the progress."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from siltstone.pipeline.errors import BadOption
from siltstone.pipeline.jobs.replay_progress import begin
from siltstone.pipeline.jobs.replay_source import Chunk, Part, read_part
from siltstone.pipeline.sinks.kafka import NotSent, make_producer, note_progress, read_progress
from siltstone.storage.clock import Clock

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
    if target.exactly_once:
        keys = [_key_of(target, part) for part in parts]
        found = read_progress(target.bootstrap, target.settings, keys, is_whole=False)
        for part, key in zip(parts, keys, strict=True):
            begin(part, target.place, target.ends, key, found.get(key))


def _key_of(target: Target, part: Part) -> str:
    return f"{target.job}-{part.name}"


def send_part(target: Target, part: Part) -> TaskDone:
    """Send the rows of a part, from where an earlier run ended.

    Raises:
        NotSent: The broker did not take them.
        BadOption: The topic does not have the partitions of the rows.
    """
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415  # if something is sent

    try:
        return (_Transactions if target.exactly_once else _Sender)(target, part).send()
    except KafkaException as error:
        if error.args[0].code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  # its name
            raise BadOption(
                f"rows of {part.name} are of partitions that topic {target.topic} has not; add "
                "partitions, or take --partitions key"
            ) from error
        raise _not_sent(target, part, error.args[0]) from error


def _not_sent(target: Target, part: Part, reason: object) -> NotSent:
    remedy = "run the replay again to go on"
    if not target.exactly_once:
        remedy = "run it again, which sends all of them again, or with --exactly-once"
    return NotSent(
        f"topic {target.topic} did not take the records of {part.name}: {reason}; {remedy}"
    )


class _Sender:
    """Sends at least once, without noting any progress."""

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

    def send(self) -> TaskDone:
        """Send everything."""
        following = self._before.following
        for chunk in read_part(self._part, following):
            self._send_chunk(chunk)
            following = chunk.following
            if self._unnoted >= NOTE_BYTES:
                self._note(following, is_last=False)
                self._unnoted = 0
            self._go_slowly()
        self._note(following, is_last=True)
        return TaskDone(records=self._records, skipped=self._before.records, sent_bytes=self._bytes)

    def _go_slowly(self) -> None:
        """Wait if the rate demands it."""
        if self._target.rate:
            passed = self._clock.monotonic() - self._began
            ahead = self._bytes / self._target.rate - passed
            if ahead > 0:
                time.sleep(ahead)

    def _open(self) -> None:
        """Make a producer, and find the progress from which it goes on."""
        self._producer = make_producer(self._target.bootstrap, self._target.settings)
        self._before = begin(self._part, self._target.place, self._target.ends)

    def _note(self, following: int, *, is_last: bool) -> None:  # noqa: ARG002  # for transactions
        """Wait until all rows are acknowledged."""
        left = self._producer.flush(_SECONDS)
        if self._fault is not None or left:
            reason = self._fault or f"{left} records were not acknowledged in {_SECONDS:g} s"
            raise _not_sent(self._target, self._part, reason)

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
        target, key = self._target, _key_of(self._target, self._part)
        name = f"siltstone-replay-{key}"
        self._producer = make_producer(target.bootstrap, target.settings, name)
        self._producer.init_transactions(_SECONDS)
        found = read_progress(target.bootstrap, target.settings, [key])
        self._before = begin(self._part, target.place, target.ends, key, found.get(key))
        self._producer.begin_transaction()

    def _note(self, following: int, *, is_last: bool) -> None:
        super()._note(following, is_last=is_last)
        progress = replace(
            self._before,
            following=following,
            records=self._before.records + self._records,
            ends=self._before.ends | self._ends,
        )
        note_progress(self._producer, _key_of(self._target, self._part), progress.to_json())
        self._producer.commit_transaction(_SECONDS)
        if not is_last:
            self._producer.begin_transaction()
