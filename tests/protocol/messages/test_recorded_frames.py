"""Frames of five client libraries and Apache Kafka's answers: read by the tables and by kio alike.

`tests/data/frames` has them.
"""

from typing import Any, Final

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from siltstone.protocol.messages import MAX_ELEMENTS
from tests.reference import messages as reference
from tests.reference.tables import twin_of
from tests.support.kio_messages import encode
from tests.support.message_cases import MESSAGES
from tests.support.message_compare import assert_says_the_same
from tests.support.recorded_frames import CLIENTS, Exchange, body_of, exchanges_of

BEHIND: Final = {("librdkafka", 3, 13): 3}
"""Bytes behind some bodies, by client, API and version.

Of a Metadata of all topics librdkafka writes the count of topics in four bytes, of which a flexible
version reads one: the body is over sooner than it thinks. Kafka, too, leaves the rest alone.
"""


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_are_read_as_kio_reads_them(client: str) -> None:
    """Every field of every request is the same, and where the body ends."""
    for exchange in exchanges_of(client):
        schema = load_request_schema(exchange.key, exchange.version)
        start = body_of(exchange.request, is_flexible=schema.__flexible__)
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
    assert reference.read(twin, body, 0, len(body), MAX_ELEMENTS) == (row, position)
    assert message.write(exchange.version, row) == encode(entity)
    assert encode(entity) == body[:end]
    return len(body) - end
