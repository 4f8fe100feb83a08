"""Conversations of clients with a broker, which can be repeated in another way.

A broker without ports has its connections over socket pairs. `hold` sends request by request and
waits for each answer; `repeat` sends all requests of a connection at once, cut anywhere.
"""

import asyncio
import random
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from struct import pack
from typing import Any, Self

from siltstone.broker.api import APIS
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.connection import Connection
from siltstone.broker.net.dispatch import Dispatcher
from siltstone.broker.net.listener import Listener
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import LoopRound
from siltstone.broker.process.request_stats import RequestStats
from tests.support.random_requests import RandomRequests
from tests.support.services import ServicesOnDisk
from tests.support.waiting import within

_LAST = 0x7FFFFFFF
_WHAT_IS_SERVED = pack(">ihhih", 10, 18, 0, _LAST, -1)  # answered on every open connection


@dataclass
class Talk:
    """The requests of one connection, and the answer to each."""

    kinds: list[Any] = field(default_factory=list)
    frames: list[bytes] = field(default_factory=list)
    answers: list[bytes] = field(default_factory=list)
    was_closed: bool = False


class Stand:
    """A listener without a port for a broker's services; it is open in an ``async with``."""

    def __init__(self, home: ServicesOnDisk, sender_count: int = 0) -> None:
        self.home = home
        self._sender_count = sender_count
        self._clients: list[Client] = []

    async def __aenter__(self) -> Self:
        await self.home.open()
        self.stats = RequestStats((api.key, api.name) for api in APIS)
        self.dispatcher = Dispatcher(self.stats).gate
        self.sending = SendingThreads(self.home.services.io, self._sender_count)
        loop_round = LoopRound(asyncio.get_running_loop(), self.home.services.logs.services.appends)
        self.listener = Listener(
            "PLAINTEXT", self.home.services, Buffers(), loop_round, self.sending, self.dispatcher
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        await self.listener.drain(0.0)
        self.sending.close()
        await self.home.close()

    def connect(self) -> "Client":
        """Return a new connection's other end."""
        client, server = socket.socketpair()
        client.setblocking(False)
        server.setblocking(False)
        loop = asyncio.get_running_loop()
        connection = Connection(loop, server.detach(), "127.0.0.1:50000", self.listener)
        self.listener.connections[connection] = None
        self._clients.append(Client(client))
        return self._clients[-1]

    @property
    def errors(self) -> dict[str, dict[int, int]]:
        """The errors that were counted, by API."""
        return {each.name: each.errors for each in self.stats.by_key.values() if each.errors}


class Client:
    """One end of a socket pair, read frame by frame."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._received = bytearray()

    async def send(self, data: bytes) -> None:
        """Send bytes; it is no error if the broker has closed."""
        with suppress(ConnectionError):
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def receive(self) -> bytes:
        """Return the next frame with its size; what is left at the end of the stream."""
        received = self._received
        loop = asyncio.get_running_loop()
        while len(received) < 4 or len(received) < 4 + int.from_bytes(received[:4], "big"):
            more = b""
            with suppress(ConnectionError):
                more = await within(loop.sock_recv(self._socket, 1 << 20), "more of an answer")
            if not more:
                break
            received += more
        size = 4 + int.from_bytes(received[:4], "big")
        frame = bytes(received[:size])
        del received[:size]
        return frame

    def close(self) -> None:
        """Leave."""
        self._socket.close()


async def hold(
    stand: Stand, requests: RandomRequests, count: int, before_each: Callable[[], None]
) -> list[Talk]:
    """Send so many requests, each after the answer to the one before it."""
    chance = requests.chance
    talks = [Talk()]
    client = stand.connect()
    for _ in range(count):
        talk = talks[-1]
        kind, frame = requests.make()
        before_each()
        await client.send(frame)
        await client.send(_WHAT_IS_SERVED)
        answer, was_closed = await _answer(client)
        talk.kinds.append(kind)
        talk.frames.append(frame)
        talk.answers.append(answer)
        talk.was_closed = was_closed
        requests.learn(kind, answer)
        if was_closed or chance.random() < 0.03:
            client.close()
            client = stand.connect()
            stand.home.clock.advance(1)
            talks.append(Talk())
    client.close()
    return talks


async def _answer(client: Client) -> tuple[bytes, bool]:
    """Return the answer, empty without one, and whether the broker closed the connection."""
    answer = b""
    while True:
        frame = await client.receive()
        if not frame:
            return answer, True
        if int.from_bytes(frame[4:8], "big") == _LAST:
            return answer, False
        assert not answer
        answer = frame


async def repeat(stand: Stand, talks: list[Talk], chance: random.Random) -> None:
    """Repeat all requests, connection by connection, and expect the same answers.

    Raises:
        AssertionError: An answer is another one.
    """
    for number, talk in enumerate(talks):
        if number:
            stand.home.clock.advance(1)
        client = stand.connect()
        more = talk.frames[:1] if talk.was_closed else []  # must not be served any more
        sending = asyncio.ensure_future(_send_cut(client, b"".join(talk.frames + more), chance))
        try:
            await _expect(client, talk, sending)
        finally:
            sending.cancel()
        client.close()


async def _expect(client: Client, talk: Talk, sending: asyncio.Future[None]) -> None:
    """Receive the answers that were given before, and nothing else.

    At the end each open client sends one more request: only then is it sure that no answer follows.
    """
    for kind, frame, answer in zip(talk.kinds, talk.frames, talk.answers, strict=True):
        if answer:
            told = await client.receive()
            assert told == answer, f"{kind} {frame.hex()}"
    if talk.was_closed:
        assert await client.receive() == b""
    await sending
    if not talk.was_closed:
        await client.send(_WHAT_IS_SERVED)
        assert await _answer(client) == (b"", False)


async def _send_cut(client: Client, data: bytes, chance: random.Random) -> None:
    """Send pieces of random size, which arrive one by one or together."""
    at = 0
    while at < len(data):
        most = chance.choice([3, 50, 300, 5000, 400_000])
        size = chance.randint(1, most)
        await client.send(data[at : at + size])
        at += size
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
