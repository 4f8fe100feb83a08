"""Writes to a topic through confluent-kafka, and keeps the progress of a replay.

The progress of an exactly-once replay is a record in the compacted topic `PROGRESS_TOPIC`, keyed by
the job's and the part's name and written in the same transaction as the rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic, OffsetSpec

from siltstone.pipeline.client.login import for_librdkafka
from siltstone.pipeline.errors import BadOption, PipelineError, SourceUnavailable
from siltstone.pipeline.jobs.replay_progress import PROGRESS_TOPIC
from siltstone.pipeline.jobs.replay_source import Part
from siltstone.storage.clock import Clock

_SECONDS: Final = 10.0
_TRIES: Final = (1.0, 3.0, 6.0)  # seconds; a refused login is reported after the first
_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001  # so local ones are named
_WARNING: Final = 4
_PROGRESS_SECONDS: Final = 90.0
"""Longer than a broker leaves the transaction of a killed replay open, which is a minute or so."""


class NotSent(PipelineError):  # noqa: N818  # as all of `pipeline.errors`
    """A broker did not take records."""


def make_producer(
    bootstrap: str, settings: Mapping[str, str], transactional_id: str | None = None
) -> Producer:
    """Return a producer with settings for throughput and against loss."""
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 20,
        "batch.size": 1 << 20,
        "batch.num.messages": 100_000,
        "queue.buffering.max.messages": 400_000,
        "queue.buffering.max.kbytes": 256 << 10,
        "partitioner": "murmur2_random",
        **for_librdkafka(settings),
    }
    if transactional_id is not None:
        given["transactional.id"] = transactional_id
    return Producer(given)


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic as it is before a replay."""

    name: str
    place: str
    """The ids of its cluster and of the topic, which tell it from others of its name."""
    ends: dict[int, int]
    """The end of each partition."""


def look_at(bootstrap: str, settings: Mapping[str, str], topic: str) -> TargetTopic:
    """Return a topic that is to be written.

    Raises:
        BadOption: It does not exist.
        SourceUnavailable: No broker answers, or the login is refused.
    """
    admin, found = _ask(bootstrap, settings)
    there = found.topics.get(topic)
    if there is None:
        raise BadOption(f"there is no topic {topic} at {bootstrap}; create it first")
    try:
        (described,) = admin.describe_topics(TopicCollection([topic])).values()
        topic_id = described.result(_SECONDS).topic_id
        ends = _ends_of(admin, [TopicPartition(topic, number) for number in there.partitions])
    except (KafkaException, TimeoutError) as error:
        raise SourceUnavailable(f"topic {topic} cannot be looked at: {error}") from error
    return TargetTopic(topic, f"{found.cluster_id} {topic_id}", ends)


def _ends_of(admin: AdminClient, partitions: list[TopicPartition]) -> dict[int, int]:
    """Return the offset after the last record of partitions, whether it is committed or not."""
    asked = {at: OffsetSpec.latest() for at in partitions}  # type: ignore[no-untyped-call]
    answers = admin.list_offsets(asked, request_timeout=_SECONDS)
    return {at.partition: answer.result(_SECONDS).offset for at, answer in answers.items()}


def check_partitions(topic: TargetTopic, parts: Iterable[Part]) -> None:
    """Check that a topic has the partitions of the rows, as far as these are known.

    Raises:
        BadOption: It has fewer.
    """
    wanted = 1 + max((split.partition for part in parts for split in part.splits), default=0)
    if len(topic.ends) < wanted:
        raise BadOption(
            f"topic {topic.name} has {len(topic.ends)} partitions and the rows are of {wanted}; "
            "add partitions, or take --partitions key"
        )


def read_progress(
    bootstrap: str, settings: Mapping[str, str], keys: Sequence[str], *, is_whole: bool = True
) -> dict[str, bytes]:
    """Return the notes of the last committed transactions of parts, by their keys.

    A transaction that is open ends the committed records; without ``is_whole`` later records are
    not waited for.

    Raises:
        SourceUnavailable: No broker answers, the login is refused, or reading took too long.
    """
    admin = _ensure_topic(bootstrap, settings)
    at = TopicPartition(PROGRESS_TOPIC, 0, OFFSET_BEGINNING)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "siltstone-replay",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **for_librdkafka(settings),
        }
    )
    try:
        end = _ends_of(admin, [at])[0] if is_whole else 0
        consumer.assign([at])
        return _read_to(consumer, end, set(keys))
    except (KafkaException, TimeoutError) as error:
        raise SourceUnavailable(f"the progress of the replay cannot be read: {error}") from error
    finally:
        consumer.close()


def note_progress(producer: Producer, key: str, value: bytes) -> None:
    """Write the progress of a part, within the transaction that is open."""
    producer.produce(PROGRESS_TOPIC, key=key.encode(), value=value, partition=0)


def _read_to(consumer: Consumer, end: int, keys: AbstractSet[str]) -> dict[str, bytes]:
    """Return the value of the last committed record of each key below an offset.

    Raises:
        SourceUnavailable: The offset was not reached in time.
    """
    found: dict[str, bytes | None] = {}
    fault: object = "a transaction of another replay is open, or the broker is slow"
    clock = Clock()
    deadline = clock.monotonic() + _PROGRESS_SECONDS
    while clock.monotonic() < deadline:
        for message in consumer.consume(500, timeout=1.0):
            error = message.error()
            if error is None:
                key = (message.key() or b"").decode(errors="replace")
                if key in keys:
                    found[key] = message.value()
            elif error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
                fault = error
            elif (message.offset() or 0) >= end:  # aborted records and markers are passed
                return {key: value for key, value in found.items() if value is not None}
    raise SourceUnavailable(
        f"the progress of the replay in the topic {PROGRESS_TOPIC} could not be read within "
        f"{_PROGRESS_SECONDS:g} s ({fault}), so nothing was sent; run the replay again"
    )


def _ensure_topic(bootstrap: str, settings: Mapping[str, str]) -> AdminClient:
    admin, found = _ask(bootstrap, settings)
    if PROGRESS_TOPIC in found.topics:
        return admin
    wanted = NewTopic(PROGRESS_TOPIC, 1, 1, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([wanted])[PROGRESS_TOPIC].result(_SECONDS)
    except KafkaException as error:
        if "already exists" not in str(error):
            raise SourceUnavailable(
                f"the topic {PROGRESS_TOPIC} cannot be made at {bootstrap}: {error}"
            ) from error
    return admin


def _ask(bootstrap: str, settings: Mapping[str, str]) -> tuple[AdminClient, ClusterMetadata]:
    """Return a client, and the names of the topics.

    librdkafka tries again after any error, and reports a refused login only by a callback.
    """
    faults: list[KafkaError] = []
    given: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "error_cb": faults.append,
        "log_level": _WARNING,  # at lower levels it reports its own queues
    }
    admin = AdminClient({**given, **for_librdkafka(settings)})
    for seconds in _TRIES:
        try:
            return admin, admin.list_topics(timeout=seconds)
        except KafkaException as error:
            admin.poll(0)
            refused = next((each for each in faults if each.code() in _REFUSALS), None)
            if refused is not None:
                raise SourceUnavailable(f"no way in at {bootstrap}: {refused.str()}") from error
            last = error
    raise SourceUnavailable(f"no broker answers at {bootstrap}: {last.args[0]}") from last
