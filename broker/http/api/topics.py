"""Pages about topics: their sizes and rates, and the segments of partitions as strips."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from siltstone.broker.http.api.questions import SHARE_SECONDS, BadQuestion, Question, shown
from siltstone.broker.http.control.explaining import Explainer
from siltstone.broker.http.values import HttpRequest
from siltstone.broker.process.loop_share import LoopShare
from siltstone.broker.services import Services
from siltstone.broker.topics.topic import Topic
from siltstone.cleaner.explaining.advice import advise
from siltstone.config.describe import describe_topic
from siltstone.protocol.names import uuid_text
from siltstone.storage.log.log import Log

MAX_TOPICS: Final = 10_000
MAX_PARTITIONS: Final = 100
MAX_PIECES: Final = 200
"""The most pieces of a strip; above it neighbours of a kind are joined."""

_ORDERS: Final = {
    "name": lambda facts: facts["name"],
    "size": lambda facts: -facts["size_bytes"],
    "in": lambda facts: -facts["bytes_in"],
    "out": lambda facts: -facts["bytes_out"],
    "partitions": lambda facts: -facts["partitions"],
}


class Piece(NamedTuple):
    """Neighbouring segments of a kind: ``clean``, ``tombstones``, ``dirty``, ``plain``, ``active``.

    ``tombstones`` means clean, in the part where the last pass left tombstones or markers for a
    later pass. ``plain`` means that the topic is not compacted.
    """

    kind: str
    base_offset: int
    size_bytes: int
    segments: int


class TopicPages:
    """``/api/topics`` and ``/api/topic`` (loop only)."""

    def __init__(self, services: Services, explainer: Explainer) -> None:
        self._services = services
        self._explainer = explainer

    async def all(self, request: HttpRequest) -> dict[str, Any]:
        """Return topics with their sums; only some of them if there are many."""
        question = Question(request, ("q", "sort", "limit"))
        wanted = question.text("q")
        order = _ORDERS[question.one_of("sort", tuple(_ORDERS))]
        limit = question.number("limit", 200, 1, MAX_TOPICS)
        share = LoopShare(SHARE_SECONDS)
        found = []
        for topic in list(self._services.topics.topics.values()):
            if wanted in topic.name:
                found.append(_sum_up(topic))
                await share.rest()
        found.sort(key=order)
        return {
            "now_ms": self._services.clock.now_ms(),
            "total": len(found),
            "left_out": max(0, len(found) - limit),
            "bytes_in": sum(each["bytes_in"] for each in found),
            "bytes_out": sum(each["bytes_out"] for each in found),
            "topics": found[:limit],
        }

    async def one(self, request: HttpRequest) -> dict[str, Any]:
        """Return a topic's settings and some of its partitions, with their strips."""
        question = Question(request, ("name", "from"))
        name = question.wanted("name")
        topic = self._services.topics.topics.get(name)
        if topic is None:
            raise BadQuestion(f"there is no topic {shown(name)} here", status=404)
        first = question.number("from", 0, 0, max(0, topic.partitions - 1))
        share = LoopShare(SHARE_SECONDS)
        partitions = []
        indexes = range(first, min(first + MAX_PARTITIONS, topic.partitions))
        for facts in self._explainer.explain([(topic, index) for index in indexes]):
            facts["advice"] = advise(facts)
            log = topic.logs[facts["partition"]]
            if log is not None:
                facts["directory"] = str(log.directory.path)
                facts["strip"] = [each._asdict() for each in strip_of(log, facts)]
            partitions.append(facts)
            await share.rest()
        return {
            "now_ms": self._services.clock.now_ms(),
            **_sum_up(topic),
            "from": first,
            "settings": [
                {"name": row.name, "value": row.value, "source": row.where}
                for row in describe_topic(self._services.settings.layers, topic.overrides)
                if not row.sensitive
            ],
            "partition_details": partitions,
        }


def _sum_up(topic: Topic) -> dict[str, Any]:
    logs = [log for log in topic.logs if log is not None]
    return {
        "name": topic.name,
        "id": uuid_text(topic.id),
        "internal": topic.is_internal,
        "partitions": topic.partitions,
        "offline": topic.logs.count(None),
        "cleanup_policy": ",".join(topic.config.cleanup_policy),
        "size_bytes": sum(log.size for log in logs),
        "segments": sum(len(log.segments) for log in logs),
        "bytes_in": sum(log.end.bytes_in for log in logs),
        "bytes_out": sum(log.bytes_out for log in logs),
        "records_in": sum(log.end.records_in for log in logs),
    }


def strip_of(log: Log, facts: dict[str, Any]) -> list[Piece]:
    """Return a log's segments as pieces, the oldest first."""
    last = facts.get("last_pass")
    kept_to = last["end_offset"] if last and last["next_horizon_ms"] is not None else 0
    segments = log.segments
    kinds = (_kind(each.base_offset, facts, kept_to) for each in segments[:-1])
    pieces = [
        Piece(kind, each.base_offset, each.size, 1)
        for kind, each in zip((*kinds, "active"), segments, strict=True)
    ]
    return pieces if len(pieces) <= MAX_PIECES else list(_join(pieces))


def _kind(base_offset: int, facts: dict[str, Any], kept_to: int) -> str:
    if "first_dirty_offset" not in facts:
        return "plain"
    if base_offset >= facts["first_dirty_offset"]:
        return "dirty"
    return "tombstones" if base_offset < kept_to else "clean"


def _join(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Join neighbours of a kind, until there are few enough pieces."""
    at_once = -(-len(pieces) // MAX_PIECES)
    for kind, run in groupby(pieces, lambda each: each.kind):
        together: list[Piece] = list(run)
        for start in range(0, len(together), at_once):
            some = together[start : start + at_once]
            size = sum(each.size_bytes for each in some)
            yield Piece(kind, some[0].base_offset, size, len(some))
