"""A topic as a sink, through confluent-kafka: a producer, and the progress of a replay.

The progress of an exactly-once replay is a record in the compacted topic `PROGRESS_TOPIC`, keyed by
the job's and the part's name and written in the same transaction as the rows.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from siltstone.pipeline.client.login import for_librdkafka
from siltstone.pipeline.errors import BadOption, PipelineError, SourceUnavailable
from siltstone.pipeline.jobs.replay_source import Part
from siltstone.storage.clock import Clock

PROGRESS_TOPIC: Final = "siltstone-replay-progress"
_SECONDS: Final = 10.0
_TRIES: Final = (1.0, 3.0, 6.0)  # seconds; what was refused is told after the first
_REFUSALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})  # noqa: SLF001  # so local ones are named
_PARTITION_ROOM: Final = 1


class NotSent(PipelineError):  # noqa: N818  # as all of `pipeline.errors`
    """A broker did not take records."""


def make_producer(
    bootstrap: str, settings: Mapping[str, str], transactional_id: str | None = None
) -> Producer:
    """Return a producer set for throughput that loses nothing."""
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


def check_partitions(
    bootstrap: str, settings: Mapping[str, str], topic: str, parts: Iterable[Part]
) -> None:
    """Make sure that a topic has the partitions of the rows, as far as these are known.

    Raises:
        BadOption: It is not there, or has fewer.
        SourceUnavailable: Nobody answers, or the login is refused.
    """
    _, found = _ask(bootstrap, settings)
    there = found.topics.get(topic)
    wanted = 1 + max((split.partition for part in parts for split in part.splits), default=0)
    if there is None:
        raise BadOption(f"there is no topic {topic} at {bootstrap}; create it first")
    if len(there.partitions) < wanted:
        raise BadOption(
            f"topic {topic} has {len(there.partitions)} partitions and the rows are of {wanted}; "
            "add partitions, or take --partitions key"
        )


def read_progress(bootstrap: str, settings: Mapping[str, str], key: str) -> int:
    """Return the position noted by the last committed transaction of a part; 0 if there is none.

    Raises:
        SourceUnavailable: Nobody answers, or the login is refused.
    """
    _ensure_topic(bootstrap, settings)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"siltstone-replay-{key}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": False,
            **for_librdkafka(settings),
        }
    )
    try:
        at = TopicPartition(PROGRESS_TOPIC, 0)
        low, high = consumer.get_watermark_offsets(at, timeout=_SECONDS)
        at.offset = low
        consumer.assign([at])
        return _read_to(consumer, high, key.encode()) if high > low else 0
    except KafkaException as error:
        raise SourceUnavailable(f"the progress of the replay can not be read: {error}") from error
    finally:
        consumer.close()


def note_progress(producer: Producer, key: str, position: int) -> None:
    """Write a position, within the transaction that is open."""
    value = json.dumps({"next": position}).encode()
    producer.produce(PROGRESS_TOPIC, key=key.encode(), value=value, partition=0)


def _read_to(consumer: Consumer, high: int, key: bytes) -> int:
    """Return the value of the last record of a key below an offset."""
    position = 0
    clock = Clock()
    deadline = clock.monotonic() + _SECONDS
    while clock.monotonic() < deadline:
        for message in consumer.consume(500, timeout=1.0):
            if message.error() is None and message.key() == key:
                position = json.loads(message.value() or b"{}").get("next", 0)
        # Aborted records and markers give no messages, so the position says how far it is.
        (at,) = consumer.position([TopicPartition(PROGRESS_TOPIC, 0)])
        if at.offset >= high - _PARTITION_ROOM:
            return position
    return position


def _ensure_topic(bootstrap: str, settings: Mapping[str, str]) -> None:
    admin, found = _ask(bootstrap, settings)
    if PROGRESS_TOPIC in found.topics:
        return
    wanted = NewTopic(PROGRESS_TOPIC, 1, 1, config={"cleanup.policy": "compact"})
    try:
        admin.create_topics([wanted])[PROGRESS_TOPIC].result(_SECONDS)
    except KafkaException as error:
        if "already exists" not in str(error):
            raise SourceUnavailable(
                f"the topic {PROGRESS_TOPIC} can not be made at {bootstrap}: {error}"
            ) from error


def _ask(bootstrap: str, settings: Mapping[str, str]) -> tuple[AdminClient, ClusterMetadata]:
    """Return a client, and which topics there are.

    librdkafka tries again whatever the broker says, and of why it does not get in it tells only by
    a callback.
    """
    faults: list[KafkaError] = []
    given: dict[str, Any] = {"bootstrap.servers": bootstrap, "error_cb": faults.append}
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
