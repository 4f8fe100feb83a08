"""Frames of five client libraries and Apache Kafka's answers: read by the tables and by kio alike.

`tests/data/frames` has them.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from siltstone.broker.api import BY_KEY
from siltstone.protocol.core import plain_messages
from siltstone.protocol.messages import MAX_ELEMENTS
from tests.support.kio_messages import encode
from tests.support.message_cases import MESSAGES
from tests.support.message_compare import assert_says_the_same
from tests.support.message_twins import twin_of

FRAMES: Final = Path(__file__).parents[2] / "data" / "frames"
CLIENTS: Final = ("java", "librdkafka", "kafka-python", "aiokafka", "franz-go")
BEHIND: Final = {("librdkafka", 3, 13): 3}
"""Bytes behind some bodies, by client, API and version.

Of a Metadata of all topics librdkafka writes the count of topics in four bytes, of which a flexible
version reads one: the body is over sooner than it thinks. Kafka, too, leaves the rest alone.
"""


class Exchange(NamedTuple):
    """A request and its answer, whole."""

    client: str
    key: int
    version: int
    request: bytes
    answer: bytes


def exchanges_of(client: str) -> list[Exchange]:
    """Return what a client was recorded saying, of the versions that are served here."""
    lines = lzma.decompress((FRAMES / f"{client}.jsonl.xz").read_bytes()).splitlines()
    found = []
    for line in lines:
        row = json.loads(line)
        request = bytes.fromhex(row["request"])
        key, version = (int.from_bytes(request[at : at + 2], "big") for at in (4, 6))
        if version in BY_KEY[key].versions:  # else the answer is of another version
            found.append(Exchange(client, key, version, request, bytes.fromhex(row["answer"])))
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_are_read_as_kio_reads_them(client: str) -> None:
    """Every field of every request is the same, and where the body ends."""
    for exchange in exchanges_of(client):
        schema = load_request_schema(exchange.key, exchange.version)
        start = _behind_head(exchange.request, is_flexible=schema.__flexible__)
        left = _read_alike(exchange, "REQUEST", schema, exchange.request[start:])
        assert left in {0, BEHIND.get(exchange[:3], 0)}


@pytest.mark.parametrize("client", CLIENTS)
def test_answers_are_read_as_kio_reads_them(client: str) -> None:
    """Every field of every answer of Kafka's is the same, and nothing is left behind the body."""
    for exchange in exchanges_of(client):
        schema = load_response_schema(exchange.key, exchange.version)
        has_tags = schema.__header_schema__.__flexible__
        assert exchange.answer[4:8] == exchange.request[8:12]
        assert not has_tags or exchange.answer[8] == 0
        assert not _read_alike(exchange, "RESPONSE", schema, exchange.answer[8 + has_tags :])


def test_what_the_clients_said_is_much() -> None:
    """Old and new versions of most of what is served, by somebody at least."""
    said = {client: {each[1:3] for each in exchanges_of(client)} for client in CLIENTS}

    assert all(len({key for key, _ in each}) >= 20 for each in said.values())
    assert len(set().union(*said.values())) >= 70


def _read_alike(exchange: Exchange, direction: str, schema: Any, body: bytes) -> int:
    """Compare what is read of a body; return how many bytes are left behind it."""
    message = MESSAGES[direction, exchange.key]
    entity, end = entity_reader(schema)(body, 0)

    row, position = message.read(exchange.version, bytearray(body), 0, len(body))

    assert position == end
    assert_says_the_same(row, entity)
    twin = twin_of(message, exchange.version)
    assert plain_messages.read(twin, body, 0, len(body), MAX_ELEMENTS) == (row, position)
    assert message.write(exchange.version, row) == encode(entity)
    assert encode(entity) == body[:end]
    return len(body) - end


def _behind_head(request: bytes, *, is_flexible: bool) -> int:
    """Return where the body begins: behind the client id and tagged fields, of which are none."""
    end = 14 + max(0, int.from_bytes(request[12:14], "big", signed=True))
    assert not is_flexible or request[end] == 0
    return end + is_flexible
