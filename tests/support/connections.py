"""A connection without a network: one end of a socket pair, and a dispatcher that a test writes."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.connection import Connection
from siltstone.broker.net.dispatch import RareRequests
from siltstone.broker.net.gate import Gate
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import LoopRound
from siltstone.broker.process.io import IoThreads
from siltstone.broker.process.request_stats import RequestStats
from siltstone.protocol.errors import ProtocolError
from siltstone.storage.log.end import Appends

Dispatch: TypeAlias = "Callable[[Connection, memoryview, int, int], Any]"


class ScriptedGate(Gate):
    """Cuts frames as the broker does, and lets a function answer them."""

    def __init__(self, dispatch: Dispatch) -> None:
        stats = RequestStats(())
        super().__init__({}, [], stats, RareRequests(stats))
        self._dispatch = dispatch

    def dispatch(
        self,
        connection: Any,
        buffer: memoryview,
        start: int,
        end: int,
        may_wait: bool = False,  # as its base
    ) -> Any:
        """Ask the function."""
        return self._dispatch(connection, buffer, start, end)


class Line:
    """Stands in for a listener: it has what ``Connection`` needs, and the client's socket."""

    def __init__(self, dispatch: Dispatch, *, limit: int = 1 << 24) -> None:
        self.services: Any = self
        self.security = self
        self.io = IoThreads(1)
        self.sending = SendingThreads(self.io, 0)
        self.buffers = Buffers()
        self.loop_round = LoopRound(asyncio.get_running_loop(), Appends())
        self.dispatcher = ScriptedGate(dispatch)
        self.logins = None
        self.max_frame_bytes = limit
        self.name = "PLAINTEXT"
        self.forgotten: list[Connection] = []
        self.refusals: list[str] = []
        self.faults: list[str | Exception] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.started = asyncio.Event()
        self.client, server = socket.socketpair()
        self.client.setblocking(False)
        server.setblocking(False)
        self.connection = Connection(asyncio.get_running_loop(), server.detach(), "peer", self)  # type: ignore[arg-type]

    def rights_of(self, _connection: Connection) -> None:
        """Let everybody do everything."""

    def forget(self, connection: Connection) -> None:
        """Note that the connection has closed."""
        self.forgotten.append(connection)

    def note_refused(self, _connection: Connection, error: ProtocolError) -> None:
        """Note why the connection ends."""
        self.refusals.append(str(error))

    def note_closed(self, _connection: Connection, fault: str | Exception) -> None:
        """Note the fault that has closed the connection."""
        self.faults.append(fault)

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the coroutine of a request that waits."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self.tasks.append(task)
        self.started.set()
        return task

    async def send(self, data: bytes) -> None:
        """Send as a client does."""
        await asyncio.get_running_loop().sock_sendall(self.client, data)

    async def receive(self, size: int) -> bytes:
        """Receive exactly ``size`` bytes, or fewer if the broker closes."""
        data = b""
        while len(data) < size:
            more = await asyncio.get_running_loop().sock_recv(self.client, size - len(data))
            if not more:
                break
            data += more
        return data

    def close(self) -> None:
        """End both sides."""
        self.connection.close()
        self.client.close()
        self.io.close()


def frame(body: bytes) -> bytes:
    """Return ``body`` as a frame."""
    return len(body).to_bytes(4, "big") + body
