"""The recording of an application: its frames in a file, and their mix as a summary.

A file is compressed lines of JSON. The first says what was recorded: the application, its topics by
name with id and partitions. Every other line is a request: the connection, when it came (us),
how long the answer took, its size, which partitions of a Fetch came back with how many bytes, the
error that was in the answer, and the request's bytes, unless it is one of very many.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import lzma
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kio.index import load_request_schema
from kio.serial import entity_reader

from bench.clients.messages import FETCH, METADATA, PRODUCE
from bench.clients.scripts import find_refusal
from bench.connection import read_answer
from siltstone.broker.api import BY_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from bench.clients.recorder import Exchange

_DATA: Final = frozenset({PRODUCE, FETCH})
_NO_ID: Final = UUID(int=0)
_MOST_KEPT: Final = 240
"""Produce and Fetch whose bytes are kept, of those after all clients of an application began."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that an application used."""

    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    connection: int
    at: int
    took: int
    size: int
    answer_size: int
    api: int
    version: int
    client: str
    data: bytes = field(default=b"", repr=False)
    refused: str = ""
    returned: tuple[tuple[str, int, int], ...] = ()  # topic, partition, bytes


@dataclass(frozen=True, slots=True)
class Recording:
    """An application's requests in the order in which they came."""

    application: str
    topics: dict[str, Topic]
    requests: Sequence[Request]


@dataclass(frozen=True, slots=True)
class Head:
    """The header of a request, and where its body begins."""

    api: int
    version: int
    client: str
    body_at: int


def read_head(frame: bytes) -> Head:
    """Return the header of a request's frame; the size is before it."""
    api, version = (int.from_bytes(frame[at : at + 2], "big") for at in (4, 6))
    length = int.from_bytes(frame[12:14], "big", signed=True)
    end = 14 + max(length, 0)
    flexible = load_request_schema(api, version).__flexible__
    return Head(api, version, frame[14:end].decode(), end + bool(flexible))


def read_request(frame: bytes) -> Any:
    """Return a request as kio's class."""
    head = read_head(frame)
    kind = load_request_schema(head.api, head.version)
    return entity_reader(kind)(frame, head.body_at)[0]


def make_recording(
    application: str, exchanges: Iterable[Exchange], dropped_client: str
) -> Recording:
    """Return what is kept of exchanges; those of a client that only helped are dropped."""
    topics: dict[str, Topic] = {}
    kept = []
    for exchange in sorted(exchanges, key=lambda each: each.at):
        head = read_head(exchange.request)
        if head.client == dropped_client or not exchange.answer:
            continue
        kept.append((exchange, head))
        if head.api == METADATA:
            _note_topics(topics, _answer_of(exchange, head))
    began = kept[0][0].at if kept else 0
    numbers = {
        number: place
        for place, number in enumerate(dict.fromkeys(exchange.connection for exchange, _ in kept))
    }
    names = {topic.topic_id: name for name, topic in topics.items()}
    requests = [
        _request(exchange, head, numbers[exchange.connection], began, names)
        for exchange, head in kept
    ]
    return Recording(application, topics, list(_without_many(requests)))


def busy_from(requests: Iterable[Request]) -> int:
    """Return from when on every client that produces or fetches has begun to."""
    first: dict[tuple[str, int], int] = {}
    for each in requests:
        if each.api in _DATA:
            first.setdefault((each.client, each.api), each.at)
    return max(first.values(), default=0)


def begins_session(request: Any) -> bool:
    """Tell whether a Fetch begins a session."""
    return getattr(request, "session_epoch", -1) == 0


def is_data(request: Request) -> bool:
    """Tell whether it is one of the very many."""
    return request.api in _DATA


def _without_many(requests: Sequence[Request]) -> Iterable[Request]:
    """Drop the bytes of Produce and Fetch but for some in equal steps, and of those that begin."""
    start = busy_from(requests)
    step = math.ceil(sum(is_data(each) and each.at >= start for each in requests) / _MOST_KEPT)
    number = 0
    for each in requests:
        if not is_data(each):
            yield each
            continue
        is_kept = each.at >= start and number % step == 0
        number += each.at >= start
        if is_kept or (each.api == FETCH and begins_session(read_request(each.data))):
            yield each
        else:
            yield dataclasses.replace(each, data=b"")


def write(recording: Recording, path: Path) -> None:
    """Write a recording."""
    head = {
        "application": recording.application,
        "topics": {
            name: {"id": str(topic.topic_id), "partitions": topic.partitions}
            for name, topic in recording.topics.items()
        },
    }
    lines = [json.dumps(head)]
    for request in recording.requests:
        values = dataclasses.asdict(request)
        values["data"] = request.data.hex()
        lines.append(json.dumps({name: value for name, value in values.items() if value != ""}))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


def read(path: Path) -> Recording:
    """Read a recording."""
    head, *lines = map(json.loads, lzma.decompress(path.read_bytes()).decode().splitlines())
    topics = {
        name: Topic(UUID(topic["id"]), topic["partitions"])
        for name, topic in head["topics"].items()
    }
    requests = []
    for values in lines:
        values["data"] = bytes.fromhex(values.get("data", ""))
        values["returned"] = tuple(tuple(each) for each in values.get("returned", ()))
        requests.append(Request(**values))
    return Recording(head["application"], topics, requests)


def summarize(recording: Recording) -> dict[str, Any]:
    """Return the mix: of each client its connections, and of each API how it was asked."""
    by_client: dict[str, list[Request]] = defaultdict(list)
    for request in recording.requests:
        by_client[request.client].append(request)
    return {
        "topics": {name: topic.partitions for name, topic in sorted(recording.topics.items())},
        "clients": {
            client: {
                "connections": len({each.connection for each in requests}),
                "seconds": round((requests[-1].at - requests[0].at) / 1e6, 1),
                "in flight": most_in_flight(requests),
                "requests": _by_api(requests),
            }
            for client, requests in sorted(by_client.items())
        },
    }


def _by_api(requests: Sequence[Request]) -> dict[str, dict[str, Any]]:
    counts = Counter((each.api, each.version) for each in requests)
    found = {}
    for (api, version), count in counts.most_common():
        some = [each for each in requests if (each.api, each.version) == (api, version)]
        gaps = [after.at - before.at for before, after in itertools.pairwise(some)]
        name = BY_KEY[api].name if api in BY_KEY else f"API {api}"
        found[f"{name} v{version}"] = {
            "count": count,
            "bytes": _spread(each.size for each in some),
            "answer bytes": _spread(each.answer_size for each in some),
            "gap us": _spread(gaps),
            **_partitions(api, some),
        }
    return found


def _partitions(api: int, requests: Sequence[Request]) -> dict[str, Any]:
    counts = []
    for request in requests:
        if not request.data:
            continue
        counts.append(count_partitions(read_request(request.data)))
    if not any(counts):
        return {}
    found: dict[str, Any] = {"partitions": _spread(counts)}
    if api == FETCH:
        found["partitions with records"] = _spread(len(each.returned) for each in requests)
    return found


def count_partitions(part: Any) -> int:
    """Return how many partitions a request names."""
    rows = getattr(part, "topics", None) or getattr(part, "topic_data", None) or ()
    count = 0
    for row in rows:
        for name in ("partitions", "partition_data", "partition_indexes"):
            count += len(getattr(row, name, None) or ())
    return count + sum(
        count_partitions(group)
        for group in getattr(part, "groups", ())
        if dataclasses.is_dataclass(group)
    )


def _spread(values: Iterable[float]) -> list[int]:
    """Return least, median and most."""
    found = sorted(values)
    return (
        [round(each) for each in (found[0], statistics.median(found), found[-1])] if found else []
    )


def most_in_flight(requests: Iterable[Request]) -> int:
    """Return how many requests of one connection were on their way at once, at most."""
    most = 0
    ends: dict[int, list[int]] = defaultdict(list)
    for request in requests:
        still = [end for end in ends[request.connection] if end > request.at]
        ends[request.connection] = [*still, request.at + request.took]
        most = max(most, len(still) + 1)
    return most


def _request(
    exchange: Exchange,
    head: Head,
    connection: int,
    began: int,
    names: dict[UUID, str],
) -> Request:
    answer = _answer_of(exchange, head)
    refusal = find_refusal(answer)
    return Request(
        connection=connection,
        at=exchange.at - began,
        took=exchange.answered_at - exchange.at,
        size=len(exchange.request),
        answer_size=len(exchange.answer),
        api=head.api,
        version=head.version,
        client=head.client,
        data=exchange.request,
        refused="" if refusal is None else refusal.error_code.name,
        returned=tuple(_returned(answer, names)) if head.api == FETCH else (),
    )


def _answer_of(exchange: Exchange, head: Head) -> Any:
    return read_answer(load_request_schema(head.api, head.version), exchange.answer[4:])


def _note_topics(topics: dict[str, Topic], answer: Any) -> None:
    for topic in answer.topics:
        if topic.name and topic.partitions:
            topic_id = getattr(topic, "topic_id", None) or _NO_ID
            known = topics.get(topic.name)
            if known and known.topic_id.int:
                topic_id = known.topic_id
            topics[topic.name] = Topic(topic_id, len(topic.partitions))


def _returned(answer: Any, names: dict[UUID, str]) -> Iterable[tuple[str, int, int]]:
    for topic in answer.responses:
        name = getattr(topic, "topic", "") or names.get(getattr(topic, "topic_id", _NO_ID), "")
        for row in topic.partitions:
            if row.records:
                yield name, row.partition_index, len(row.records)
