"""The pins' pages of the control channel: pin, renew, release and list (docs/pipeline.md).

``POST /v1/pins`` accepts ``{"topics": [...], "partitions": [[topic, number], ...], "lease_ms": n,
"holder": "..."}``, all of it optional, and answers with the manifest as in
`pipeline.planning.manifest`. Without names a pin is of all partitions but those that the start has
set aside, and the manifest also has the topics of that moment. ``/v1/pins/renew`` and
``/v1/pins/release`` accept ``{"id": "..."}``, and renew also a lease. ``GET /v1/topics`` lists the
topics that can be pinned.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from siltstone.broker.http import values
from siltstone.broker.process.io import IoThreads
from siltstone.broker.topics.pins import Pin, PinRefused, PinRoom
from siltstone.broker.topics.registry import TopicRegistry
from siltstone.protocol.errors import KafkaError
from siltstone.protocol.names import uuid_text
from siltstone.storage.log.log import Log
from siltstone.storage.log.pin_links import PinnedPartition

DEFAULT_LEASE_MS = 60_000
_LONGEST_HOLDER = 100


@dataclass(frozen=True, slots=True)
class PinPages:
    """The pages under ``/v1/pins`` (loop only)."""

    room: PinRoom
    topics: TopicRegistry
    io: IoThreads
    find_cluster_id: Callable[[], str]

    def routes(self, guarded: Callable[[values.Page], values.Page]) -> tuple[values.Route, ...]:
        """Return the pages; ``guarded`` makes a page require the token."""
        return (
            values.Route("GET", "/v1/topics", self._list_topics),
            values.Route("GET", "/v1/pins", self._list),
            values.Route("POST", "/v1/pins", guarded(_answering(self._pin))),
            values.Route("POST", "/v1/pins/renew", guarded(_answering(self._renew))),
            values.Route("POST", "/v1/pins/release", guarded(_answering(self._release))),
        )

    async def _list(self, _request: values.HttpRequest) -> values.HttpResponse:
        listed = [self._describe(pin) for pin in self.room.all_pins()]
        return values.json_answer({"pins": listed, "held_bytes": self.room.held_bytes()})

    async def _list_topics(self, _request: values.HttpRequest) -> values.HttpResponse:
        topics = self.topics.topics.values()
        return values.json_answer({topic.name: topic.partitions for topic in topics})

    async def _pin(self, asked: dict[str, Any]) -> values.HttpResponse:
        names, places = asked.get("topics"), asked.get("partitions")
        topics: dict[str, tuple[UUID, int]] = {}
        if names is None and places is None:
            there = self.topics.topics.values()
            logs = [log for topic in there for log in topic.logs if log is not None]
            topics = {each.name: (each.id, each.partitions) for each in there}
        else:
            logs = self._find_logs(names or (), places or ())
        lease_ms = int(asked.get("lease_ms", DEFAULT_LEASE_MS))
        holder = str(asked.get("holder", ""))[:_LONGEST_HOLDER]
        pin = await self.room.create(logs, lease_ms, holder)
        body = await self.io.run(_manifest, pin, self.find_cluster_id(), topics)
        return values.HttpResponse(status=201, body=body, content_type=values.JSON)

    async def _renew(self, asked: dict[str, Any]) -> values.HttpResponse:
        lease_ms = asked.get("lease_ms")
        pin = self.room.renew(str(asked.get("id")), None if lease_ms is None else int(lease_ms))
        return values.json_answer(self._describe(pin))

    async def _release(self, asked: dict[str, Any]) -> values.HttpResponse:
        pin_id = str(asked.get("id"))
        await self.room.release(pin_id)
        return values.json_answer({"released": pin_id})

    def _find_logs(self, topics: Iterable[str], partitions: Iterable[tuple[str, int]]) -> list[Log]:
        """Return the named logs, each once."""
        wanted = [(name, index) for name, index in partitions]
        for name in topics:
            topic = self.topics.topics.get(name)
            if topic is None:
                raise LookupError(f"there is no topic {name} here")
            wanted += [(name, index) for index in range(topic.partitions)]
        found: dict[tuple[str, int], Log] = {}
        for name, index in wanted:
            log = self.topics.logs.get((name, index))
            if log is None and self.topics.is_unserved(name, index):
                raise LookupError(f"partition {name}-{index} was set aside; /healthz says why")
            if log is None or name not in self.topics.topics:
                raise LookupError(f"there is no partition {name}-{index} here")
            found[name, index] = log
        return list(found.values())

    def _describe(self, pin: Pin) -> dict[str, Any]:
        return {
            "id": pin.pin_id,
            "holder": pin.holder,
            "created_ms": pin.created_ms,
            "lease_ms": pin.lease_ms,
            "expires_in_ms": int(self.room.seconds_left(pin) * 1000),
            "topics": sorted({each.topic_partition.topic for each in pin.partitions}),
            "partitions": len(pin.partitions),
            "segments": sum(len(each.segments) for each in pin.partitions),
            "bytes": pin.size,
            "held_bytes": pin.held_bytes,
        }


def _answering(answer: Callable[[dict[str, Any]], Awaitable[values.HttpResponse]]) -> values.Page:
    """Return a page that parses JSON and answers refusals as sentences."""

    async def page(request: values.HttpRequest) -> values.HttpResponse:
        try:
            asked = json.loads(request.body or b"{}")
            if not isinstance(asked, dict):
                return values.text(400, f"{request.path} wants a JSON object")
            return await answer(asked)
        except PinRefused as error:
            return values.text(error.status, str(error))
        except LookupError as error:
            return values.text(404, str(error.args[0]))
        except (ValueError, TypeError) as error:
            return values.text(400, f"{request.path}: {error}")
        except KafkaError as error:
            return values.text(409, error.message)

    return page


def _manifest(pin: Pin, cluster_id: str, topics: dict[str, tuple[UUID, int]]) -> bytes:
    """Return the manifest of a pin as JSON, not indented: there may be thousands of segments."""
    return json.dumps(
        {
            "pin": pin.pin_id,
            "taken_at_ms": pin.created_ms,
            "cluster_id": cluster_id,
            "lease_ms": pin.lease_ms,
            "topics": {
                name: {"topic_id": uuid_text(topic_id), "partitions": count}
                for name, (topic_id, count) in topics.items()
            },
            "partitions": [_partition(each) for each in pin.partitions],
        }
    ).encode()


def _partition(pinned: PinnedPartition) -> dict[str, Any]:
    return {
        "topic": pinned.topic_partition.topic,
        "partition": pinned.topic_partition.partition,
        "topic_id": pinned.topic_id,
        "folder": str(pinned.folder),
        "log_start_offset": pinned.log_start_offset,
        "end_offset": pinned.end_offset,
        "last_stable_offset": pinned.last_stable_offset,
        "first_dirty_offset": pinned.first_dirty_offset,
        "is_compacted": pinned.is_compacted,
        "delete_retention_ms": pinned.delete_retention_ms,
        "segments": [segment._asdict() for segment in pinned.segments],
    }
