"""Fetch requests whose topics have one key, a name or an id: as kio's entities, or as messages."""

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from siltstone.protocol.messages import NO_ID
from siltstone.protocol.messages import fetch as messages
from siltstone.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic
from siltstone.protocol.names import TopicKey
from tests.support.kio_messages import request as entity_of
from tests.support.kio_schemas import request_class


@dataclass
class FetchRequest:
    """A request of a test, in any version."""

    replica_id: int = -1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 1 << 20
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[tuple[TopicKey, list[FetchPartition]]] = field(default_factory=list)
    forgotten: list[tuple[TopicKey, list[int]]] = field(default_factory=list)
    rack_id: str = ""
    cluster_id: str | None = None


def to_message(request: FetchRequest) -> messages.FetchRequest:
    """Return the request as the broker's handler gets it."""
    return messages.FetchRequest(
        replica_id=request.replica_id,
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        isolation_level=request.isolation_level,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=[FetchTopic(*_name_and_id(key), wanted) for key, wanted in request.topics],
        forgotten_topics_data=[
            ForgottenTopic(*_name_and_id(key), indexes) for key, indexes in request.forgotten
        ],
    )


def _name_and_id(key: TopicKey) -> tuple[str, bytes]:
    return ("", key) if isinstance(key, bytes) else (key, NO_ID)


def named(version: int, topic: Any) -> dict[str, Any]:
    """Return the field that names a topic."""
    return {"topic_id" if version >= 13 else "topic": topic}


def request_entity(version: int, request: FetchRequest, *, follower_tags: bool = False) -> Any:
    """Return kio's entity of a request."""
    asked_known = request_class(1, version, "FetchPartition").__dataclass_fields__
    extra: dict[str, Any] = {"replica_id": request.replica_id}
    if version >= 15:
        extra = {"replica_state": extra}
    tags = {"replica_directory_id": UUID(int=5 << 70), "high_watermark": 77}

    def row(partition: FetchPartition) -> dict[str, Any]:
        said = dict(list(partition._asdict().items())[:6]) | (tags if follower_tags else {})
        return {name: value for name, value in said.items() if name in asked_known}

    values = {
        "cluster_id": request.cluster_id,
        "max_wait": request.max_wait_ms,
        "min_bytes": request.min_bytes,
        "max_bytes": request.max_bytes,
        "isolation_level": request.isolation_level,
        "session_id": request.session_id,
        "session_epoch": request.session_epoch,
        "topics": [
            {**named(version, topic), "partitions": list(map(row, partitions))}
            for topic, partitions in request.topics
        ],
        "forgotten_topics_data": [
            {**named(version, topic), "partitions": partitions}
            for topic, partitions in request.forgotten
        ],
        "rack_id": request.rack_id,
    }
    known = request_class(1, version).__dataclass_fields__
    values = {name: value for name, value in values.items() if name in known}
    return entity_of(1, version, **values, **extra)
