"""Produce requests as kio's entities."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from kio.index import load_payload_module
from kio.static.constants import EntityType

Topics = list[tuple[Any, list[tuple[int, bytes | None]]]]
"""Name or id of a topic with its partitions: index and records."""


def request_entity(
    version: int, acks: int, timeout_ms: int, transactional_id: str | None, topics: Topics
) -> Any:
    """Return kio's entity of a request."""
    module: Any = load_payload_module(0, version, EntityType.request)
    return module.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            module.TopicProduceData(
                **({"topic_id": UUID(bytes=topic)} if version >= 13 else {"name": topic}),
                partition_data=tuple(
                    module.PartitionProduceData(index=index, records=content)
                    for index, content in partitions
                ),
            )
            for topic, partitions in topics
        ),
    )
