"""Python's clients log in by every mechanism, and are told when they may not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka.errors import KafkaError as AioKafkaError
from kafka.errors import KafkaError

from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
from siltstone.broker.security.scram import MECHANISMS, make_verifier
from siltstone.broker.security.users import UserStore
from tests.support.clients.round_trip import (
    LEAVES_SOCKETS,
    by_aiokafka,
    by_confluent_kafka,
    by_kafka_python,
)
from tests.support.oracle import AT_ONCE
from tests.support.running import Running, running
from tests.support.waiting import PATIENCE

EVERY = (PLAIN, *MECHANISMS)
LOGINS = 12

pytestmark = LEAVES_SOCKETS


@pytest.fixture
async def home(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Running]:
    """A broker whose only listener asks for SASL; alice has a password for every mechanism."""
    folder = tmp_path / "data"
    folder.mkdir()
    own = {each.name: make_verifier(each, "secret") for each in MECHANISMS.values()}
    UserStore(folder).write({"alice": {PLAIN: make_verifier(PLAIN_HASH, "secret"), **own}})
    sets = (
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        f"sasl.enabled.mechanisms={','.join(EVERY)}",
        *(f"{name}={value}" for name, value in AT_ONCE.items()),
        *getattr(request, "param", ()),
    )
    async with running(folder, *sets) as started:
        yield started


def login(home: Running, mechanism: str, password: str) -> dict[str, Any]:
    """Return the settings of alice, as kafka-python and aiokafka name them."""
    return {
        "bootstrap_servers": f"127.0.0.1:{home.listeners[0].port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def librdkafka(given: dict[str, Any]) -> dict[str, Any]:
    """Return them as librdkafka names them."""
    return {name.replace("plain_", "").replace("_", "."): value for name, value in given.items()}


@pytest.mark.parametrize("mechanism", EVERY)
async def test_clients_log_in(home: Running, mechanism: str) -> None:
    """And produce and consume as they do without."""
    given = login(home, mechanism, "secret")

    assert await asyncio.to_thread(by_kafka_python, given) == b"kafka-python"
    assert await asyncio.to_thread(by_confluent_kafka, librdkafka(given))
    assert await by_aiokafka(given)
    logins = home.listeners[0].logins
    assert logins is not None
    assert logins.failed == 0
    assert {each.principal for each in home.listeners[0].connections} <= {
        "User:alice",
        "User:ANONYMOUS",  # one that the clients are about to close
    }


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", EVERY)
async def test_clients_are_told_that_the_password_is_wrong(home: Running, mechanism: str) -> None:
    """By an exception of theirs, and without a storm of new tries."""
    given = login(home, mechanism, "wrong")

    with pytest.raises(KafkaError):
        await asyncio.to_thread(by_kafka_python, given)
    with pytest.raises(confluent_kafka.KafkaException, match=r"[Aa]uthentication"):
        await asyncio.to_thread(by_confluent_kafka, librdkafka(given))
    with pytest.raises(AioKafkaError):
        await by_aiokafka(given)
    logins = home.listeners[0].logins
    assert logins is not None
    assert logins.succeeded == 0
    assert 3 <= logins.failed < 60


@pytest.mark.slow
@pytest.mark.parametrize("home", [("connections.max.reauth.ms=2000",)], indirect=True)
async def test_clients_log_in_again(home: Running) -> None:
    """On the connections that they have (KIP-368), while they go on to produce."""
    listener = home.listeners[0]
    logins = listener.logins
    assert logins is not None
    given = login(home, "SCRAM-SHA-256", "secret")

    def produce() -> int:
        ours = confluent_kafka.Producer({**librdkafka(given), "retries": 0})
        theirs = kafka.KafkaProducer(**given, retries=0)
        while logins.succeeded < LOGINS:
            ours.produce("t", b"confluent-kafka", on_delivery=lambda error, _: failed.append(error))
            ours.flush(PATIENCE)
            theirs.send("t", b"kafka-python").get(PATIENCE)
        theirs.close()
        return listener.accepted_count

    failed: list[confluent_kafka.KafkaError | None] = []
    assert await asyncio.to_thread(produce) < LOGINS / 2
    assert set(failed) == {None}
    assert logins.failed == 0
