"""Connections in memory: the bytes that a client sends arrive in pieces, late, or not at all.

`Network` has the functions of `siltstone.broker.process.sockets` that the broker uses, and what the
compiled turn calls through its route.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tests.simulator.world.world import World

HOST: Final = "10.0.0.1"
"""Where clients are, unless they say where."""
WINDOW_BYTES: Final = 100_000
"""How much the broker may send before its client has received some, as a socket's buffer."""
_EVERYWHERE: Final = "0.0.0.0"  # an address in memory
_FIRST_PORT: Final = 40_000


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


class Connection:
    """Both ends of a connection. ``on_output`` is called when the broker has sent something."""

    __slots__ = (
        "address",
        "input",
        "is_closed",
        "is_ended",
        "is_reset",
        "number",
        "on_output",
        "output",
        "port",
        "window",
        "world",
    )

    def __init__(self, world: World, port: int = 0, host: str = HOST) -> None:
        self.world = world
        self.number = next(world.descriptors)
        self.port = port
        self.address = (host, 50_000 + self.number % 10_000)
        self.input = bytearray()
        self.output = bytearray()
        self.window = WINDOW_BYTES
        self.is_ended = False
        self.is_reset = False
        self.is_closed = False
        self.on_output: Callable[[], None] | None = None

    # The client's end.

    def push(self, data: bytes) -> None:
        """Have bytes of the client arrive at the broker."""
        self.input += data
        self.world.network.changed[self.number] = None

    def end(self) -> None:
        """Send no more, as ``shutdown(SHUT_WR)``."""
        self.is_ended = True
        self.world.network.changed[self.number] = None

    def reset(self) -> None:
        """Break the connection off."""
        self.is_reset = True
        self.input.clear()
        self.world.network.changed[self.number] = None

    def take(self, size: int) -> bytes:
        """Take bytes that the broker has sent, which makes room for more."""
        data = bytes(memoryview(self.output)[:size])
        del self.output[:size]
        if not self.window:
            self.world.network.changed[self.number] = None
        self.window += len(data)
        return data

    # The broker's end.

    @property
    def is_readable(self) -> bool:
        """Tell whether a receive would not block."""
        return bool(self.input) or self.is_ended or self.is_reset

    @property
    def is_writable(self) -> bool:
        """Tell whether a send would not block."""
        return self.window > 0 or self.is_reset

    def receive(self, size: int, *, leaves: bool = False) -> bytes:
        """Return bytes that have arrived; none at the end."""
        if self.is_reset:
            raise _error(errno.ECONNRESET)
        if not self.input:
            if self.is_ended:
                return b""
            raise _error(errno.EAGAIN)
        data = bytes(memoryview(self.input)[:size])
        if not leaves:
            del self.input[:size]
        return data

    def send(self, data: Any) -> int:
        """Send as much as there is room for."""
        if self.is_reset:
            raise _error(errno.EPIPE)
        size = min(self.window, len(data))
        if not size and len(data):
            raise _error(errno.EAGAIN)
        self.window -= size
        self.output += data[:size]
        if self.world.trace is not None:
            self.world.note("sent", self.port, bytes(data[:size]))
        if self.on_output is not None:
            self.on_output()
        return size


class Listening:
    """A socket that listens."""

    is_writable = False

    def __init__(self, network: Network, address: tuple[str, int]) -> None:
        self._network = network
        self._number = next(network.world.descriptors)
        self._address = address
        self.waiting: deque[Connection] = deque()
        network.listening[address[1]] = self
        network.by_number[self._number] = self

    @property
    def is_readable(self) -> bool:
        """Tell whether a client waits."""
        return bool(self.waiting)

    def fileno(self) -> int:
        """Return the number; -1 after `close`."""
        return self._number

    def getsockname(self) -> tuple[str, int]:
        """Return the bound address."""
        return self._address

    def call(self, connection: Connection) -> None:
        """Have a client connect."""
        self.waiting.append(connection)
        self._network.changed[self._number] = None

    def close(self) -> None:
        """Listen no more; clients that were not accepted are cut off."""
        while self.waiting:
            self._network.close(self.waiting.popleft().number)
        self._network.listening.pop(self._address[1], None)
        self._network.by_number.pop(self._number, None)
        self._number = -1


class Owned:
    """An accepted socket as an object, as the broker needs it for rare calls."""

    def __init__(self, network: Network, connection: Connection) -> None:
        self._network = network
        self.connection = connection

    def fileno(self) -> int:
        """Return the number."""
        return self.connection.number

    def getsockname(self) -> tuple[str, int]:
        """Return the address that the client has connected to."""
        return "127.0.0.1", self.connection.port

    def setsockopt(self, *_: object) -> None:
        """Ignore an option."""

    def close(self) -> None:
        """Close the connection."""
        self._network.close(self.connection.number)


class Served:
    """The result of `Network.serve`, in the shape of a server of asyncio's."""

    def __init__(self, listening: Listening) -> None:
        self.sockets = [listening]

    def close(self) -> None:
        """Listen no more."""
        for each in self.sockets:
            each.close()

    async def wait_closed(self) -> None:
        """Return at once."""


class Stream(asyncio.Transport):
    """The client's end of a connection, for a stream of asyncio's within the broker."""

    def __init__(self, loop: Any, protocol: Any, connection: Connection) -> None:
        super().__init__({"peername": connection.address})
        self._loop = loop
        self._protocol = protocol
        self._connection = connection
        self._is_closing = False
        connection.on_output = self._on_output

    def _on_output(self) -> None:
        data = self._connection.take(len(self._connection.output))
        if data and not self._is_closing:
            self._loop.call_soon(self._protocol.data_received, data)

    def write(self, data: Any) -> None:
        """Send bytes to the broker."""
        self._connection.push(bytes(data))

    def is_closing(self) -> bool:
        """Tell whether the stream is closed."""
        return self._is_closing

    def close(self) -> None:
        """Close the stream."""
        if not self._is_closing:
            self._is_closing = True
            self._connection.on_output = None
            self._connection.end()
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


class Network:
    """All connections of one start of a broker."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.connections: dict[int, Connection] = {}
        self.listening: dict[int, Listening] = {}
        self.by_number: dict[int, Listening] = {}
        self.changed: dict[int, None] = {}
        self._port = _FIRST_PORT

    def dial(self, port: int, host: str = HOST) -> Connection:
        """Connect as a client at a host to a port of the broker.

        Raises:
            ConnectionRefusedError: The broker does not listen there.
        """
        listening = self.listening.get(port)
        if listening is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {port}")
        connection = Connection(self.world, port, host)
        self.connections[connection.number] = connection
        listening.call(connection)
        return connection

    def look(self, number: int) -> Connection | Listening | None:
        """Return the socket with a number."""
        return self.connections.get(number) or self.by_number.get(number)

    # What replaces the functions of the seam.

    def find_addresses(self, host: str, port: int) -> list[tuple[int, Any]]:
        """Return one address."""
        return [(int(socket.AF_INET), (host or _EVERYWHERE, port))]

    async def look_up(self, host: str, port: int) -> list[Any]:
        """Return one address."""
        return [(host, port)]

    def listen(self, _family: int, address: Any, *_: Any) -> Listening:
        """Listen at a port; port 0 is any."""
        port = address[1]
        if not port:
            self._port += 1
            port = self._port
        return Listening(self, (address[0], port))

    def accept(self, listening: Listening) -> tuple[int, Any]:
        """Return the next client."""
        if not listening.waiting:
            raise _error(errno.EAGAIN)
        connection = listening.waiting.popleft()
        return connection.number, connection.address

    def own(self, number: int) -> Owned:
        """Return an object for a number."""
        return Owned(self, self.connections[number])

    def close(self, number: int) -> None:
        """Close a connection."""
        connection = self.connections.pop(number)
        connection.is_closed = True
        if connection.on_output is not None:
            connection.on_output()

    def find_name(self, number: int) -> Any:
        """Return the address that a client has connected to."""
        return "127.0.0.1", self.connections[number].port

    def peek(self, owned: Owned, size: int) -> bytes:
        """Return bytes without taking them."""
        return owned.connection.receive(size, leaves=True)

    def receive(self, owned: Owned, size: int) -> bytes:
        """Return bytes."""
        return owned.connection.receive(size)

    def count_arrived(self, owned: Owned) -> int:
        """Return how many bytes have arrived."""
        return len(owned.connection.input)

    def shut(self, owned: Owned, _how: int = socket.SHUT_RDWR) -> None:
        """Send no more."""
        owned.connection.is_closed = True

    def find_broken(self, numbers: Iterable[int]) -> list[int]:
        """Return the connections that were reset."""
        found = (self.connections.get(each) for each in numbers)
        return [each.number for each in found if each is not None and each.is_reset]

    def send_file(self, number: int, file: int, position: int, size: int) -> int:
        """Send a range of a file."""
        connection = self.connections[number]
        if not connection.is_writable:
            raise _error(errno.EAGAIN)
        data = self.world.disk.pread(file, min(size, max(1, connection.window)), position)
        return connection.send(data) if data else 0

    async def serve(
        self, connected: Callable[..., Awaitable[None] | None], host: str, port: int, limit: int
    ) -> Served:
        """Listen for clients that never come: pages are not simulated."""
        del connected, limit
        return Served(self.listen(0, (host, port)))

    async def connect(self, host: str, port: int) -> Any:
        """Return streams to a port of the broker."""
        del host
        return self._stream(self.dial(port))

    async def pair(self) -> Any:
        """Return both ends of a connection within the process."""
        connection = Connection(self.world)
        self.connections[connection.number] = connection
        return connection.number, self._stream(connection)

    def _stream(self, connection: Connection) -> Any:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport = Stream(loop, protocol, connection)
        protocol.connection_made(transport)
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    # What the compiled turn calls.

    def receive_into(self, number: int, memory: memoryview) -> int:
        """Receive into memory."""
        data = self.connections[number].receive(len(memory))
        memory[: len(data)] = data
        self.world.note("received", len(data))
        return len(data)

    def send(self, number: int, memory: memoryview, _flags: int) -> int:
        """Send bytes."""
        return self.connections[number].send(memory)

    def names(self) -> dict[str, Any]:
        """Return each name of `sockets` with what stands for it."""
        names = (
            "find_addresses look_up listen accept own close find_name peek receive count_arrived"
            " shut find_broken send_file serve connect pair"
        )
        return {name: getattr(self, name) for name in names.split()}
