"""Topics for the cases: made by one request, and waited for until every partition answers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from kio.schema.errors import ErrorCode

from bench.clients.messages import (
    CREATE_TOPICS,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    PRODUCE,
    message,
)
from bench.clients.scripts import find_refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from uuid import UUID

    from bench.connection import Connection

TIMEOUT: Final = timedelta(seconds=30)
LATEST: Final = -1
# Many partitions are written to: so that not one of them is written to for long, little is kept.
_CONFIGS: Final = {"segment.bytes": str(4 << 20), "retention.bytes": str(8 << 20)}
_TOPICS_A_REQUEST: Final = 100
_MAKING_SECONDS: Final = 600.0
"""Apache Kafka makes thousands of partitions in minutes on a busy machine."""


def make_topics(connection: Connection, topics: Mapping[str, int]) -> None:
    """Make topics with so many partitions, if they do not exist, and wait until all answer.

    Raises:
        RuntimeError: A topic was refused.
    """
    names = list(topics)
    configs = [{"name": name, "value": value} for name, value in _CONFIGS.items()]
    for start in range(0, len(names), _TOPICS_A_REQUEST):
        some = names[start : start + _TOPICS_A_REQUEST]
        answer = connection.ask(
            message(
                CREATE_TOPICS,
                topics=[
                    {
                        "name": name,
                        "num_partitions": topics[name],
                        "replication_factor": 1,
                        "assignments": (),
                        "configs": configs,
                    }
                    for name in some
                ],
                timeout=TIMEOUT,
            )
        )
        for each in answer.topics:
            if each.error_code not in {ErrorCode.none, ErrorCode.topic_already_exists}:
                raise RuntimeError(f"{each.name} was not made: {each.error_code.name}")
        wanted = {name: range(topics[name]) for name in some}
        connection.ask_until(
            list_offsets(wanted), lambda answer: find_refusal(answer) is None, _MAKING_SECONDS
        )


def topic_ids(connection: Connection, names: Iterable[str]) -> dict[str, UUID]:
    """Return the ids of topics."""
    wanted = [{"topic_id": None, "name": name} for name in names]
    answer = connection.ask(
        message(
            METADATA,
            topics=wanted,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
    )
    return {each.name: each.topic_id for each in answer.topics}


def list_offsets(partitions: Mapping[str, Iterable[int]], timestamp: int = LATEST) -> Any:
    """Return a ListOffsets."""
    return message(
        LIST_OFFSETS,
        replica_id=-1,
        isolation_level=0,
        topics=[
            {
                "name": name,
                "partitions": [
                    {"partition_index": index, "current_leader_epoch": -1, "timestamp": timestamp}
                    for index in indexes
                ],
            }
            for name, indexes in partitions.items()
        ],
        timeout=TIMEOUT,
    )


def end_offsets(connection: Connection, topic: str, indexes: Iterable[int]) -> dict[int, int]:
    """Return the end of each partition's log."""
    (answer,) = connection.ask(list_offsets({topic: indexes})).topics
    return {each.partition_index: each.offset for each in answer.partitions}


def produce(topic_id: UUID, batches: Mapping[int, bytes], acks: int = 1) -> Any:
    """Return a Produce of one topic, a batch for each partition."""
    return message(
        PRODUCE,
        transactional_id=None,
        acks=acks,
        timeout=TIMEOUT,
        topic_data=[
            {
                "topic_id": topic_id,
                "partition_data": [
                    {"index": index, "records": batch} for index, batch in batches.items()
                ],
            }
        ],
    )


def init_producer_id() -> Any:
    """Return an InitProducerId of a producer without transactions."""
    return message(
        INIT_PRODUCER_ID,
        transactional_id=None,
        transaction_timeout=timedelta(minutes=1),
    )


def await_producer_ids(connection: Connection) -> None:
    """Wait until the broker has producer ids: Kafka asks its controller for a block of them."""
    connection.ask_until(init_producer_id(), lambda answer: find_refusal(answer) is None)


def fill_empty(
    connection: Connection, topic: str, topic_id: UUID, indexes: Sequence[int], batch: bytes
) -> None:
    """Give each partition that has no record a batch."""
    ends = end_offsets(connection, topic, indexes)
    empty = {index: batch for index, end in ends.items() if not end}
    if empty:
        refusal = find_refusal(connection.ask(produce(topic_id, empty)))
        if refusal is not None:
            raise RuntimeError(f"a batch for {topic} was refused: {refusal}")
