"""What Kafka's maps make of a Produce request whose topics or partitions do not come once each.

It gathers the records by topic and partition (KafkaApis.handleProduceRequest): of those that are
one batch the last are appended, and if others are no batch, the last of these are what is answered.
A topic without partitions is not in the answer. Clients write no such requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from siltstone.protocol.errors import KafkaError
from siltstone.protocol.messages.produce import PartitionProduceData, TopicProduceData
from siltstone.storage.appending.validation import check_records

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence


def gather(
    topics: Sequence[TopicProduceData], version: int
) -> Generator[None, None, list[TopicProduceData]]:
    """Return each topic once, with the last records of a partition that are and that are no batch.

    It does so in steps. The latter come second, so that the last result of a partition is its
    answer.
    """
    gathered: dict[tuple[str, bytes], dict[int, dict[bool, Any]]] = {}
    for name, topic_id, partitions in topics:
        for index, records in partitions:
            last = gathered.setdefault((name, topic_id), {}).setdefault(index, {})
            last[_is_no_batch(records, version)] = PartitionProduceData(index, records)
            yield
    return [
        TopicProduceData(
            *key, [last[is_none] for last in each.values() for is_none in sorted(last)]
        )
        for key, each in gathered.items()
    ]


def last_of_each(rows: list[Any]) -> list[Any]:
    """Return one answer for each partition, whose index comes first in it."""
    return list({row[0]: row for row in rows}.values())


def _is_no_batch(records: Any, version: int) -> bool:
    if not records:
        return True
    try:
        check_records(records, version)
    except KafkaError:
        return True
    return False
