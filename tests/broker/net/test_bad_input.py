"""Bytes that are no request: the connection closes with one line, everybody else goes on."""

import logging
import re
import struct
import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v0 import request as authenticate_0
from kio.schema.sasl_authenticate.v1 import request as authenticate_1
from kio.schema.sasl_authenticate.v2 import request as authenticate_2

from siltstone.broker.api import BY_KEY
from tests.support.running import Running, a_broker

API_VERSIONS_0 = struct.pack(">hhih", 18, 0, 7, -1)


broker = a_broker("socket.request.max.bytes=1048576")


BAD = {
    "a negative size": b"\xff\xff\xff\xfe",
    "a size of zero": b"\0\0\0\0",
    "a size above the limit": struct.pack(">i", 1_048_577),
    "the largest size": struct.pack(">i", 2**31 - 1),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS handshake": bytes.fromhex("16030100c8010000c40303"),
    "a frame without a header": struct.pack(">i", 3) + b"\0\0\0",
    "an API that nobody has": struct.pack(">ihhih", 10, 1234, 0, 1, -1),
    "an API of brokers": struct.pack(">ihhih", 10, 4, 0, 1, -1),
    "a version from the past": struct.pack(">ihhih", 10, 1, 3, 1, -1),
    "a version from the future": struct.pack(">ihhih", 10, 3, 99, 1, -1),
    "a client id that runs out": struct.pack(">ihhih", 10, 3, 1, 1, 500),
    "a body that ends early": struct.pack(">ihhih", 10, 3, 1, 1, -1),
    "a count beyond the frame": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
    "a produce request of nothing": struct.pack(">ihhihB", 11, 0, 9, 1, -1, 0),
    "a fetch request of nothing": struct.pack(">ihhihB", 11, 1, 12, 1, -1, 0),
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD.keys())
async def test_bad_bytes_close_one_connection(
    broker: Running, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line names the peer and the reason; another client is served as before."""
    good, bad = await broker.connect(), await broker.connect()
    before = await good.ask(API_VERSIONS_0)
    with caplog.at_level(logging.WARNING):
        await bad.send(data)
        assert await bad.is_closed()

    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert "peer=127.0.0.1:" in lines[0]
    assert await good.ask(API_VERSIONS_0) == before


_HEAD = struct.pack(">hih", 1, 7, 0)  # version, correlation id, an empty client id
_FLEXIBLE = struct.pack(">hihB", 4, 7, 0, 0)
FIELDS = {
    "a head that ends": (3, struct.pack(">h", 1), "Metadata version=1 reason=a frame of 4 bytes"),
    "a client id that runs out": (
        3,
        struct.pack(">hih", 1, 7, 500),
        "Metadata version=1 reason=header.client_id: a field of 500 bytes",
    ),
    "tagged fields of a head that run out": (
        12,
        struct.pack(">hihB", 4, 7, -1, 9),
        "Heartbeat version=4 reason=header.tagged fields: 9 tagged fields",
    ),
    "a number cut short": (12, _HEAD + b"\0\1g\0", "HeartbeatRequest.generation_id: a field of 4"),
    "text that runs out": (12, _HEAD + b"\1\0g", "HeartbeatRequest.group_id: a field of 256"),
    "text of less than nothing": (
        12,
        _HEAD + b"\xff\xfe",
        "HeartbeatRequest.group_id: null, where a value",
    ),
    "no text": (12, _HEAD + b"\xff\xff", "HeartbeatRequest.group_id: null, where a value"),
    "a varint without an end": (10, _FLEXIBLE + b"\0\xff", "coordinator_keys: no varint ends"),
    "a varint of 32 bits": (
        10,
        _FLEXIBLE + b"\0\xff\xff\xff\xff\xff",
        "coordinator_keys: no varint ends",
    ),
    "an array that cannot exist": (
        3,
        _HEAD + b"\x7f\xff\xff\xff",
        "MetadataRequest.topics: an array of 2147483647 elements",
    ),
    "an array of less than nothing": (
        9,
        _HEAD + b"\0\1g\xff\xff\xff\xfe",
        "OffsetFetchRequest.topics: null, where an array",
    ),
    "more elements than one request may have": (
        3,
        _HEAD + struct.pack(">i", 30_000) + b"\0\1a" * 30_000,
        "MetadataRequest.topics: more elements than one request may have: 30000",
    ),
    "a field of an element": (
        3,
        _HEAD + struct.pack(">ih", 1, 9),
        "MetadataRequestTopic.name: a field of 9 bytes",
    ),
    "tagged fields of a body that run out": (
        10,
        _FLEXIBLE + b"\0\1\5",
        "FindCoordinatorRequest.tagged fields: 5 tagged fields",
    ),
    "a tagged field that runs out": (
        10,
        _FLEXIBLE + b"\0\1\1\x63\x7f",
        "FindCoordinatorRequest.tagged fields: a field of 127 bytes",
    ),
}


@pytest.mark.parametrize(("key", "rest", "said"), FIELDS.values(), ids=FIELDS.keys())
async def test_a_line_names_peer_api_version_field_and_reason(
    broker: Running, key: int, rest: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A reader of the log need not guess which client sent what."""
    client = await broker.connect()
    with caplog.at_level(logging.WARNING):
        await client.send(struct.pack(">ih", 2 + len(rest), key) + rest)
        assert await client.is_closed()

    (line,) = caplog.messages
    assert "peer=127.0.0.1:" in line
    assert re.search(rf"api={BY_KEY[key].name} version=\d+ .*reason=", line)
    assert said in line


async def test_a_tls_handshake_is_told_what_to_do(
    broker: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """The line says what the client has to change."""
    client = await broker.connect()
    await client.send(BAD["a TLS handshake"])
    assert await client.is_closed()

    assert "a TLS handshake, and this listener has no TLS; set security.protocol=PLAINTEXT" in (
        caplog.text
    )


@pytest.mark.parametrize("version", [0, 1])
async def test_a_sasl_handshake_is_refused_as_kafka_does(
    broker: Running, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    """ILLEGAL_SASL_STATE and no mechanism; a line names the peer and what to do."""
    client = await broker.connect()
    answer = await client.ask(struct.pack(">hhihh", 17, version, 7, -1, 5) + b"PLAIN")

    assert answer == struct.pack(">ihi", 7, 34, 0)
    (line,) = [each for each in caplog.messages if each.startswith("login refused")]
    assert "peer=127.0.0.1:" in line
    assert "set security.protocol=PLAINTEXT in the client" in line


@pytest.mark.parametrize("schema", [authenticate_0, authenticate_1, authenticate_2])
async def test_a_password_is_refused_and_not_logged(
    broker: Running, schema: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """SaslAuthenticate gets the same code; what it brings stays unread."""
    caller = await broker.call()
    answer = await caller.ask(schema.SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"))

    assert answer.error_code is ErrorCode.illegal_sasl_state
    assert "security.protocol=PLAINTEXT" in answer.error_message
    assert "login refused" in caplog.text
    assert "secret" not in caplog.text
    assert "alice" not in caplog.text


async def test_many_logins_are_few_lines(broker: Running, caplog: pytest.LogCaptureFixture) -> None:
    """A client that tries again and again cannot fill the log: a line a second at most."""
    began = time.monotonic()
    client = await broker.connect()
    for _ in range(200):
        await client.ask(struct.pack(">hhihh", 17, 1, 7, -1, 5) + b"PLAIN")
    seconds = time.monotonic() - began

    lines = [each for each in caplog.messages if each.startswith("login refused")]
    assert 1 <= len(lines) <= 1 + seconds


@pytest.mark.parametrize("length", [-2, -32768])
async def test_lengths_below_0_are_null(broker: Running, length: int) -> None:
    """A client without an id, and a Metadata of all topics, as at Kafka."""
    client = await broker.connect()
    asked = struct.pack(">hhihi", 3, 1, 7, -1, -1)
    odd = struct.pack(">hhihi", 3, 1, 7, length, length)

    assert await client.ask(odd) == await client.ask(asked)


async def test_requests_before_the_bad_one_are_answered(broker: Running) -> None:
    """A pipelined good request keeps its answer."""
    client = await broker.connect()
    frame = len(API_VERSIONS_0).to_bytes(4, "big") + API_VERSIONS_0
    await client.send(frame + b"\xff\xff\xff\xff")

    assert (await client.receive())[:4] == struct.pack(">i", 7)
    assert await client.is_closed()


async def test_api_versions_of_the_future_is_answered_in_version_0(broker: Running) -> None:
    """Error 35 and the range of this API alone, in the layout that every client reads."""
    client = await broker.connect()
    answer = await client.ask(struct.pack(">hhih", 18, 99, 5, -1) + b"whatever")

    assert answer == struct.pack(">ihihhh", 5, 35, 1, 18, 0, 5)


async def test_half_a_large_request_costs_no_memory_of_its_size(broker: Running) -> None:
    """A thousand clients that announce a megabyte and send nothing are just connections."""
    clients = [await broker.connect() for _ in range(50)]
    for client in clients:
        await client.send(struct.pack(">i", 1_000_000) + b"\0\0")
    good = await broker.connect()

    assert await good.ask(API_VERSIONS_0)
