"""Bytes handed to a broker: it answers or closes, soon, and no handler fails.

``python -m tests.fuzz.dispatching FOLDER [arguments of libFuzzer]``; ``make fuzz`` runs it. The
first byte of an input chooses the listener: if it is odd, one that asks for a login. What is
compiled guides nothing, so each request is also read in plain Python.
"""

import asyncio
import logging
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import atheris

SERVING = ("siltstone.broker", "siltstone.protocol", "siltstone.storage")
with atheris.instrument_imports(include=list(SERVING)):
    from siltstone.broker.net import login  # noqa: F401  # it is imported for the first client
    from siltstone.broker.net.connection import Connection
    from siltstone.broker.security.plain import PLAIN, PLAIN_HASH
    from siltstone.broker.security.scram import MECHANISMS, make_verifier
    from siltstone.broker.security.users import UserStore
    from siltstone.protocol.errors import ProtocolError
    from tests.fuzz.decoding import read_plain
    from tests.fuzz.guiding import find
    from tests.support.frames import PASSWORD, TARGET, USER, corpus, make_login
    from tests.support.kio_schemas import request_class
    from tests.support.running import Running, running


LOGINS = 200
SOON = 0.02
"""So long a request may wait for a disk; what waits longer is left by the client."""
STALL = 1.0


class Faults(logging.Handler):
    """Keeps what the broker logs as a fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(self.format(record))


class Stand:
    """A broker in this process, and a loop that runs while an input is looked at."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.faults = Faults()
        logging.getLogger().addHandler(self.faults)
        logging.getLogger().setLevel(logging.ERROR)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        own = {each.name: make_verifier(each, PASSWORD) for each in MECHANISMS.values()}
        UserStore(folder).write({USER: {PLAIN: make_verifier(PLAIN_HASH, PASSWORD), **own}})
        self.home = self.loop.run_until_complete(self._start(folder))

    async def _start(self, folder: Path) -> Running:
        # Never left: libFuzzer ends the process.
        self._context = running(
            folder,
            "listeners=PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            f"sasl.enabled.mechanisms={','.join((PLAIN, *MECHANISMS))}",
            "connection.failed.authentication.delay.ms=0",
            "auto.create.topics.enable=false",
        )
        home = await self._context.__aenter__()
        create = request_class(19, 7)
        topic = request_class(19, 7, "CreatableTopic")(
            name=TARGET, num_partitions=2, replication_factor=1, assignments=(), configs=()
        )
        caller = await home.call()
        await caller.ask(create(topics=(topic,)))
        await caller.client.close()
        return home

    def hand_over(self, data: bytes) -> None:
        """Let a client send this, and wait until the broker has done with it.

        Raises:
            AssertionError: It took too long, or the broker logged a fault.
        """
        for body in frames_of(data[1:]):
            with suppress(ProtocolError):
                read_plain(body)
        began = time.monotonic()
        self.loop.run_until_complete(self._talk(data[:1] + b"\0", data[1:]))
        seconds = time.monotonic() - began
        if seconds > STALL:
            raise AssertionError(f"{seconds:.1f} s for {len(data)} bytes")
        if self.faults.lines:
            raise AssertionError("\n".join(self.faults.lines))

    async def _talk(self, choice: bytes, data: bytes) -> None:
        listener = self.home.listeners[choice[0] % 2]
        client, server = socket.socketpair()
        with client:
            client.setblocking(False)
            server.setblocking(False)
            connection = Connection(self.loop, server.detach(), "127.0.0.1:50000", listener)
            listener.connections[connection] = None
            with suppress(ConnectionError):
                await self.loop.sock_sendall(client, data)
            deadline = self.loop.time() + SOON
            while not connection.is_closed and self.loop.time() < deadline:
                await asyncio.sleep(0)
                with suppress(BlockingIOError, ConnectionError):
                    while client.recv(1 << 16):
                        pass
                if connection.is_its_turn:
                    break
            client.shutdown(socket.SHUT_WR)
            with suppress(ConnectionError):
                while await self.loop.sock_recv(client, 1 << 16):
                    pass
        while not connection.is_closed:
            await asyncio.sleep(0)


def frames_of(data: bytes) -> Iterator[bytearray]:
    """Yield the whole frames of what a client sends, without their sizes."""
    while len(data) >= 4 and 0 < (size := int.from_bytes(data[:4], "big")) <= len(data) - 4:
        yield bytearray(data[4 : 4 + size])
        data = data[4 + size :]


def seeds() -> Iterator[bytes]:
    """Yield requests, and logins with a request behind them."""
    for body in corpus():
        yield b"\0" + len(body).to_bytes(4, "big") + body
    for number in range(LOGINS):
        yield b"\1" + make_login(0, number)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    find(Stand(folder / "data").hand_over, seeds(), folder)
