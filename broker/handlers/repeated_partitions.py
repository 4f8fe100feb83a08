"""What Kafka's maps make of a Produce request whose topics or partitions do not come once each.

It gathers the records by topic and partition (KafkaApis.handleProduceRequest): of those that are
one batch the last are appended, and if others are no batch, the last of these are what is answered.
A topic without partitions is not in the answer. Clients write no such requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.errors import KafkaError
from storage.validation import check_records

if TYPE_CHECKING:
    from collections.abc import Iterable

    from protocol.produce import PartitionProduced, Topics
    from protocol.topic_key import TopicKey


def is_each_once(topics: Topics) -> bool:
    """Tell whether every topic has partitions, and none comes twice."""
    return len({key for key, _ in topics}) == len(topics) and all(
        partitions and len({index for index, _ in partitions}) == len(partitions)
        for _, partitions in topics
    )


def gather(topics: Topics, version: int) -> Topics:
    """Return each topic once, with the last records of a partition that are and that are no batch.

    The latter come second, so that the last result of a partition is its answer.
    """
    gathered: dict[TopicKey, dict[int, dict[bool, memoryview | None]]] = {}
    for key, partitions in topics:
        for index, records in partitions:
            last = gathered.setdefault(key, {}).setdefault(index, {})
            last[_is_no_batch(records, version)] = records
    return [
        (key, [(index, last[is_none]) for index, last in each.items() for is_none in sorted(last)])
        for key, each in gathered.items()
    ]


def last_of_each(results: Iterable[PartitionProduced]) -> list[PartitionProduced]:
    """Return one result for each partition."""
    return list({result.index: result for result in results}.values())


def _is_no_batch(records: memoryview | None, version: int) -> bool:
    try:
        check_records(records, version)
    except KafkaError:
        return True
    return False
