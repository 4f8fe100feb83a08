"""A listening socket and the connections that came in through it.

Here are accepting, the limits (connections, idle time) and the end of all connections at a stop.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from siltstone.broker.net.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from siltstone.broker.context import Rooms
    from siltstone.broker.net._dispatch_kernels import Gate
    from siltstone.broker.net.buffers import Buffers

log = logging.getLogger(__name__)

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 64
_LOGIN_LINE_SECONDS = 1.0
_SYSTEM_DEFAULT = -1


class Listener:
    """One endpoint of ``listeners`` (loop only).

    Invariants: every open connection stands in ``connections``; every task that a request needs
    stands in ``_tasks`` until it ends, and one that fails is logged, never lost.
    ``count_all`` tells how many connections all listeners have: what max.connections limits.
    """

    def __init__(
        self,
        name: str,
        rooms: Rooms,
        buffers: Buffers,
        dispatcher: Gate,
        count_all: Callable[[], int] | None = None,
    ) -> None:
        self.name = name
        self._count_all = count_all
        self.rooms = rooms
        self.buffers = buffers
        self.dispatcher = dispatcher
        self.connections: set[Connection] = set()
        self.accepted_count = 0
        self.host = ""
        self.port = 0
        self.max_frame_bytes = rooms.settings.server.socket_request_max_bytes
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._drained = asyncio.Event()
        self._login_noted = -math.inf

    def bind(self, host: str, port: int) -> None:
        """Bind every address of ``host`` (none: all) and listen; see ``start``.

        ``localhost`` may be both 127.0.0.1 and ::1, and clients try either. Port 0 means any free
        port, the same for all addresses. Connections queue in the kernel until ``start``.

        Raises:
            OSError: The address is taken or is not this machine's.
        """
        found = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.port = port
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            sock = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setblocking(False)
            self._size_buffers(sock)
            sock.bind((address[0], self.port, *address[2:]))
            sock.listen(_BACKLOG)
            self.port = sock.getsockname()[1]
        self.host = host

    def _size_buffers(self, sock: socket.socket) -> None:
        """Give a listening socket the kernel buffers that its connections inherit.

        The send buffer is how far the broker may run ahead of its client. Left to itself the kernel
        lets it grow to megabytes. That is more than the processor's caches hold, so each byte would
        come from memory once more when the client takes it.
        """
        server = self.rooms.settings.server
        for option, size in (
            (socket.SO_SNDBUF, server.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, server.socket_receive_buffer_bytes),
        ):
            if size != _SYSTEM_DEFAULT:
                sock.setsockopt(socket.SOL_SOCKET, option, size)

    def start(self) -> None:
        """Accept connections from now on."""
        for sock in self._sockets:
            self._loop.add_reader(sock.fileno(), self._on_acceptable, sock)

    def stop(self) -> None:
        """Accept no more; connections go on."""
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()

    async def drain(self, deadline: float) -> None:
        """Close every connection once it has got its answers; at ``deadline`` close the rest."""
        for connection in list(self.connections):
            connection.drain()
        self._drained.clear()
        if self.connections:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), max(0.0, deadline - self._loop.time()))
        for connection in list(self.connections):
            connection.close("shutting down before it had taken its answer")
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def forget(self, connection: Connection) -> None:
        """Drop a closed connection."""
        self.connections.discard(connection)
        if not self.connections:
            self._drained.set()

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what a request waits for; the listener is the task's parent."""
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def note_login(self, connection: Connection) -> None:
        """Log that a client tried to log in, which is not possible; at most one line a second."""
        now = self._loop.time()
        if now < self._login_noted + _LOGIN_LINE_SECONDS:
            return
        self._login_noted = now
        log.warning(
            "login refused listener=%s peer=%s client=%r reason=there is no SASL here; set "
            "security.protocol=PLAINTEXT in the client",
            self.name,
            connection.peer,
            connection.client_id,
        )

    def close_idle(self) -> None:
        """Close connections idle for ``connections.max.idle.ms``, also within a large frame.

        A connection that is owed an answer is never idle. One that holds memory which others wait
        for is closed earlier, by `Buffers`.
        """
        now = self._loop.time()
        limit_ms = self.rooms.settings.server.connections_max_idle_ms
        for connection in list(self.connections):
            idle = now - connection.last_active
            if not (connection.is_idle or connection.is_stalled):
                continue
            if 0 <= limit_ms < idle * 1000:
                connection.close()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("request task failed listener=%s", self.name, exc_info=task.exception())

    def _on_acceptable(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.warning("cannot accept listener=%s reason=%s", self.name, error.strerror)
                self._pause_accepting()
                return
            peer = f"{address[0]}:{address[1]}"
            count = len(self.connections) if self._count_all is None else self._count_all()
            if count >= self.rooms.settings.server.max_connections:
                log.warning("connection refused peer=%s reason=max.connections is reached", peer)
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            self.accepted_count += 1
            self.connections.add(Connection(self._loop, sock, peer, self))

    def _pause_accepting(self) -> None:
        """Stop accepting for a second: without descriptors the next try would fail, too."""
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
        self._loop.call_later(1.0, self.start)
