"""Requests that wait, over a socket: what ends them, and what their client is told then."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from siltstone.config.security import STANDARD_AUTHORIZER
from siltstone.protocol.messages.fetch import FetchPartition
from tests.support.acl_requests import allow, every
from tests.support.appending import append
from tests.support.authority import Authority, Pair
from tests.support.common_requests import create_topics, enter, list_offsets
from tests.support.fetch_requests import FetchRequest, request_entity
from tests.support.group_requests import find, old_join
from tests.support.running import Caller, Running, a_broker, running
from tests.support.tls_clients import trusting
from tests.support.waiting import give_turns_until, within

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECURED = (
    "listeners=LAN://127.0.0.1:0",
    "listener.security.protocol.map=LAN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms=PLAIN",
    f"listener.name.lan.plain.sasl.jaas.config={PLAIN} required user_admin=a user_bob=b;",
    f"authorizer.class.name={STANDARD_AUTHORIZER}",
    "super.users=User:admin",
)
READ, TOPIC = 3, 2
LONG = 2**31 - 1


home = a_broker(topics={"t": (2, {})})


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[Running]:
    """A broker with two topics, that bob may read."""
    async with running(tmp_path / "data", *SECURED) as started:
        await started.topics.create("t", 1, {})
        await started.topics.create("u", 1, {})
        admin = await enter(started, "admin", "a")
        for name in ("t", "u"):
            await admin.ask(allow(READ, TOPIC, name))
        yield started


def fetch(home: Running, *names: str, version: int = 12, session: tuple[int, int] = (0, -1)) -> Any:
    """Return a Fetch that waits for as long as one may."""
    topics = home.topics.topics
    return request_entity(
        version,
        FetchRequest(
            max_wait_ms=LONG,
            min_bytes=1,
            session_id=session[0],
            session_epoch=session[1],
            topics=[(topics[name].key if version > 12 else name, [WANTED]) for name in names],
        ),
    )


FIRST_WITH_SESSIONS = 7
WANTED = FetchPartition(0, -1, 0, -1, -1, 1 << 20)


async def park(home: Running, caller: Caller, request: Any) -> asyncio.Task[Any]:
    """Return a request that waits."""
    before = home.waiting.count
    task = asyncio.create_task(caller.ask(request))
    await give_turns_until(lambda: home.waiting.count > before, "a parked fetch")
    return task


def told(answer: Any) -> list[tuple[int, int]]:
    """Return the code of each partition of an answer, and how many bytes of records it has."""
    return [
        (int(each.error_code), len(each.records or b""))
        for topic in answer.responses
        for each in topic.partitions
    ]


@pytest.mark.parametrize("version", [4, 12, 17])
@pytest.mark.parametrize("epoch", [-1, 0])
async def test_a_fetch_is_judged_again_when_it_is_answered(
    secured: Running, version: int, epoch: int
) -> None:
    """Of a topic that may be read no more its client is told that, and of others what they have."""
    bob, admin = await enter(secured, "bob", "b"), await enter(secured, "admin", "a")
    request = fetch(secured, "t", "u", version=version, session=(0, epoch))
    waiting = await park(secured, bob, request)

    await admin.ask(every(31))
    await admin.ask(allow(READ, TOPIC, "u"))
    for name in ("t", "u"):
        append(secured.topics.logs[name, 0])
    answer = await within(waiting, "the answer")

    refused, (code, size) = told(answer)
    assert refused == (29, 0)
    assert (code, size > 0) == (0, True) or size == 0
    (listener,) = secured.listeners
    assert len(listener.services.sessions) == int(version >= FIRST_WITH_SESSIONS and epoch == 0)


async def test_a_fetch_of_a_session_is_judged_again_when_it_is_answered(secured: Running) -> None:
    """Records of topics that it may read no more are refused; its session goes on."""
    bob, admin = await enter(secured, "bob", "b"), await enter(secured, "admin", "a")
    first = asyncio.create_task(bob.ask(fetch(secured, "t", "u", session=(0, 0))))
    await give_turns_until(lambda: secured.waiting.count, "a parked fetch")
    append(secured.topics.logs["u", 0])
    session_id = (await first).session_id
    moved = WANTED._replace(fetch_offset=1)
    request = request_entity(
        12,
        FetchRequest(
            max_wait_ms=LONG,
            min_bytes=1,
            session_id=session_id,
            session_epoch=1,
            topics=[("u", [moved])],
        ),
    )
    waiting = await park(secured, bob, request)

    await admin.ask(every(31))
    append(secured.topics.logs["t", 0])
    answer = await within(waiting, "the answer")

    assert session_id
    assert (int(answer.error_code), told(answer)) == (0, [(29, 0), (29, 0)])
    (listener,) = secured.listeners
    assert len(listener.services.sessions) == 1


async def test_no_fetch_waits_beyond_its_login(secured: Running) -> None:
    """It is answered when the login ends, and the next request closes the connection."""
    bob = await enter(secured, "bob", "b")
    (connection,) = (
        each for each in secured.listeners[0].connections if each.principal == "User:bob"
    )
    login = connection.login
    assert login is not None
    connection._gate = login
    login._expires = asyncio.get_running_loop().time() + 0.05

    answer = await within(bob.ask(fetch(secured, "t")), "the answer")
    await bob.client.send(bob.frame(fetch(secured, "t")))

    assert told(answer) == [(0, 0)]
    assert await bob.client.is_closed()


@pytest.mark.parametrize("what", ["fetch", "join"])
async def test_no_request_waits_longer_than_a_connection_may_be_idle(
    home: Running, what: str
) -> None:
    """Its connection is closed, as at Kafka, and nothing of it stays."""
    caller, other = await home.call(), await home.call()
    await other.ask(find("g"))
    request = fetch(home, "t") if what == "fetch" else old_join("g")
    await caller.client.send(caller.frame(request))
    (listener,) = home.listeners
    await give_turns_until(
        lambda: [each for each in listener.connections if each.is_owed], "a request that waits"
    )
    listener.close_idle()
    assert len(listener.connections) == 2

    for connection in listener.connections:
        connection.last_active -= listener.services.settings.server.connections_max_idle_ms
    listener.close_idle()

    assert await caller.client.is_closed()
    assert listener.connections == {}
    await give_turns_until(lambda: home.waiting.count == 0, "no parked fetch")


@pytest.mark.parametrize("what", ["fetch", "times", "create"])
@pytest.mark.parametrize("count", [1, 3])
async def test_a_client_that_ends_its_side_gets_its_answers(
    home: Running, what: str, count: int
) -> None:
    """Those of the requests behind one that waits, too; then the connection closes."""
    caller, other = await home.call(), await home.call()
    requests = {"fetch": fetch(home, "t"), "times": list_offsets(5), "create": create_topics("new")}
    asked = [requests[what], *[find("g")] * (count - 1)]
    await caller.client.send(b"".join(map(caller.frame, asked)))
    caller.client.end()
    if what == "fetch":
        await give_turns_until(lambda: home.waiting.count, "a parked fetch")
        await other.ask(list_offsets(5))
        append(home.topics.logs["t", 0])

    answers = [await within(caller.receive(each), "an answer") for each in asked]

    assert len(answers) == count
    assert await caller.client.is_closed()
    await give_turns_until(lambda: len(home.listeners[0].connections) == 1, "it is gone")


def test_a_client_that_ends_its_side_while_it_waits_gets_its_answers(tmp_path: Path) -> None:
    """Its end arrives while the second answer still waits for those of other connections."""
    uvloop.run(_end_while_it_waits(tmp_path / "data"))  # it looks at sockets before new callbacks


async def _end_while_it_waits(data: Path) -> None:
    async with running(data) as home:
        other = await home.call()
        for turns in range(10):  # after some turns of one client alone answers wait again
            for _ in range(turns):
                await other.ask(find("g"))
            await home.topics.create(f"t{turns}", 1, {})
            await _ask_and_end(home, f"t{turns}")


async def _ask_and_end(home: Running, topic: str) -> None:
    caller = await home.call()
    asked = [fetch(home, topic), find("g")]
    await caller.client.send(b"".join(map(caller.frame, asked)))
    await give_turns_until(lambda: home.waiting.count, "a parked fetch")
    caller.client.end()
    connections = home.listeners[0].connections
    await give_turns_until(
        lambda: any(not each._reading for each in connections), "its end is noticed"
    )
    append(home.topics.logs[topic, 0])

    for each in asked:
        await within(caller.receive(each), "an answer")
    assert await caller.client.is_closed()


async def test_a_client_that_is_gone_ends_with_its_request(home: Running) -> None:
    """It is told by the answer that it cannot take."""
    caller = await home.call()
    await park(home, caller, fetch(home, "t"))
    await caller.client.close()
    append(home.topics.logs["t", 0])

    await give_turns_until(lambda: not home.listeners[0].connections, "it is gone")
    assert home.waiting.count == 0


async def test_a_client_of_tls_that_ends_its_side_gets_its_answer(
    tmp_path: Path, authority: Authority, server: Pair
) -> None:
    """As one without TLS."""
    sets = ("listeners=SSL://127.0.0.1:0", f"ssl.keystore.location={server.store}")
    async with running(tmp_path / "data", *sets) as home:
        await home.topics.create("t", 1, {})
        (listener,) = home.listeners
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        frame = Caller(home.keep((reader, writer))).frame(fetch(home, "t"))

        def ask() -> bytes:
            with (
                socket.create_connection(("127.0.0.1", listener.port)) as sock,
                trusting(authority).wrap_socket(sock, server_hostname="localhost") as tls,
            ):
                tls.sendall(frame)
                socket.socket.shutdown(tls, socket.SHUT_WR)
                size = int.from_bytes(tls.recv(4), "big")
                answer = b""
                while len(answer) < size:
                    answer += tls.recv(65536)
                return answer

        asking = asyncio.create_task(asyncio.to_thread(ask))
        await give_turns_until(lambda: home.waiting.count, "a parked fetch")
        append(home.topics.logs["t", 0])

        assert b"vvvvvvvvvv" in await within(asking, "the answer")
