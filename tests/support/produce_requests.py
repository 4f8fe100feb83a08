"""Produce requests as kio's entities."""

from typing import Any

from tests.support.kio_messages import request

Topics = list[tuple[Any, list[tuple[int, bytes | None]]]]
"""Name or id of a topic with its partitions: index and records."""


def request_entity(
    version: int, acks: int, timeout_ms: int, transactional_id: str | None, topics: Topics
) -> Any:
    """Return kio's entity of a request."""
    rows = [
        {
            "topic_id" if version >= 13 else "name": topic,
            "partition_data": [{"index": index, "records": data} for index, data in partitions],
        }
        for topic, partitions in topics
    ]
    named = {"transactional_id": transactional_id, "acks": acks}
    return request(0, version, timeout=timeout_ms, topic_data=rows, **named)
