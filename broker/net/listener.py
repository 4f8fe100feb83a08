"""A listening socket and the connections that came in through it.

This module accepts connections, applies the limits (number, rate, idle time), and ends all
connections at a stop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from siltstone.broker.net.addresses import Addresses, ConnectionRate
from siltstone.broker.net.buffers import Buffers
from siltstone.broker.net.connection import Connection
from siltstone.broker.net.gate import Gate
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import LoopRound
from siltstone.broker.process import sockets
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.client_limits import Limit
from siltstone.broker.security.principals import ANONYMOUS, USER, Principal
from siltstone.broker.services import Services
from siltstone.config.connection_limits import CREATION_RATE, MAX_CONNECTIONS, limit_of
from siltstone.config.server import ServerConfig
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import TooLarge

if TYPE_CHECKING:
    from siltstone.broker.net.login import Logins
    from siltstone.broker.net.tls.handshakes import Handshakes, Opened

_logger = logging.getLogger(__name__)

_BACKLOG = 1024
_ACCEPTS_PER_TURN = 64
_ANONYMOUS = str(ANONYMOUS)
_SYSTEM_DEFAULT = -1


class Listener:
    """One endpoint of ``listeners`` (loop only).

    Invariants: every open connection is in ``connections``; every task of a request is in
    ``_tasks`` until it ends, and a failed task is logged. ``addresses`` limits connections by their
    address. While the listener has too many connections, or they come too fast, it accepts none:
    new connections wait in the kernel, as in Apache Kafka.
    """

    def __init__(  # noqa: PLR0913  # what its connections share
        self,
        name: str,
        services: Services,
        buffers: Buffers,
        loop_round: LoopRound,
        sending: SendingThreads,
        dispatcher: Gate,
        addresses: Addresses | None = None,
        *,
        logins: Logins | None = None,
        handshakes: Handshakes | None = None,
    ) -> None:
        """With ``logins`` clients must log in before other requests.

        With ``handshakes`` clients must use TLS.
        """
        self.name = name
        self.services = services
        self.buffers = buffers
        self.loop_round = loop_round
        self.sending = sending
        self.dispatcher = dispatcher
        self.logins = logins
        self.handshakes = handshakes
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()
        self._rate = ConnectionRate(
            lambda: services.settings.server, lambda: self._find_limits()[1], self._loop.time
        )
        self._settings: ServerConfig | None = None  # the limits are from these
        self._limits: tuple[int | None, int | None] = (None, None)
        self._is_full = False
        self._too_soon: dict[socket.socket, None] = {}
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.accepted_count = 0
        self.host = ""
        self.port = 0
        self.max_frame_bytes = services.settings.server.socket_request_max_bytes
        self._sockets: list[socket.socket] = []
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._drained = asyncio.Event()
        self._refused_logins = BoundedLines(self._loop.time, 1)
        self._refusals = BoundedLines(self._loop.time)
        self._closed = BoundedLines(self._loop.time)
        self._failed = BoundedLines(self._loop.time, 1)

    def bind(self, host: str, port: int) -> None:
        """Bind every address of ``host``, or all if it is empty, and listen; see ``start``.

        ``localhost`` may be both 127.0.0.1 and ::1, and clients try either. Port 0 means any free
        port, the same for all addresses. Connections queue in the kernel until ``start``.

        Raises:
            OSError: The address is taken or is not this machine's.
        """
        self.port = port
        for family, address in sockets.find_addresses(host, port):
            bound = address[0], self.port, *address[2:]
            sock = sockets.listen(family, bound, _BACKLOG, self._find_options())
            self._sockets.append(sock)
            self.port = sock.getsockname()[1]
        self.host = host

    def _find_options(self) -> list[tuple[int, int, int]]:
        """Return the socket options that connections inherit, to save calls for each one.

        The send buffer limits how far the broker may run ahead of its client. By default the kernel
        lets the buffer grow to megabytes, which is more than the processor's caches hold. Then each
        byte would be read from memory once more when the client receives it.
        """
        server = self.services.settings.server
        sizes = (
            (socket.SO_SNDBUF, server.socket_send_buffer_bytes),
            (socket.SO_RCVBUF, server.socket_receive_buffer_bytes),
        )
        return [
            *((socket.SOL_SOCKET, name, size) for name, size in sizes if size != _SYSTEM_DEFAULT),
            (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        ]

    def start(self) -> None:
        """Accept connections from now on, or as soon as the system watches the sockets."""
        self._is_full = False
        try:
            for sock in self._sockets:
                self._loop.add_reader(sock.fileno(), self._on_acceptable, sock)
        except OSError as error:
            self._report(error)

    @property
    def open_count(self) -> int:
        """How many connections are open, including those in a handshake or about to be closed."""
        in_handshake = len(self.handshakes.open) if self.handshakes else 0
        return len(self.connections) + in_handshake + len(self._too_soon)

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect from within this process, without an address; such a client need not log in."""
        fileno, stream = await sockets.pair()
        try:
            connection = Connection(self._loop, fileno, "siltstone", self, is_ours=True)
        except BaseException:
            sockets.close(fileno)
            stream[1].close()
            raise
        self.connections[connection] = None
        return stream

    def stop(self) -> None:
        """Accept no more connections; open ones continue."""
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self._sockets.clear()
        if self.handshakes is not None:
            self.handshakes.close()
        for sock in list(self._too_soon):
            self._end(sock)

    async def drain(self, deadline: float) -> None:
        """Close every connection after its owed answers; at ``deadline`` close the rest."""
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
        if connection in self.connections:
            del self.connections[connection]
            self._note_closed(connection.host)
            self._go_on()
        if not self.connections:
            self._drained.set()

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the coroutine of a request that waits; the listener is the parent of the task."""
        task = self._loop.create_task(coroutine)
        self._tasks[task] = None
        task.add_done_callback(self._on_task_done)
        return task

    def note_login(self, connection: Connection) -> None:
        """Log that a client tried to log in, which is not possible; at most one line a second."""
        if not self._refused_logins.takes():
            return
        _logger.warning(
            "login refused listener=%s peer=%s client=%r reason=there is no SASL here; set "
            "security.protocol=PLAINTEXT in the client",
            self.name,
            connection.peer,
            connection.client_id,
        )

    def note_refused(self, connection: Connection, error: ProtocolError) -> None:
        """Log, and count, that a connection ends because of what its client has sent."""
        limit = None
        if isinstance(error.args[0], TooLarge):
            is_open = connection.login is not None and connection.login.is_open
            limit = Limit.LOGIN_BYTES if is_open else Limit.REQUEST_BYTES
        self._note_refused(connection.peer, str(error), limit, connection.principal)

    def note_closed(self, connection: Connection, fault: str | Exception) -> None:
        """Log that a connection is closed because of its peer, a file or, by an error, the broker.

        Of the broker's own faults, which have tracebacks, at most one a second is logged.
        """
        if isinstance(fault, Exception):
            if self._failed.takes():
                _logger.error(
                    "connection failed and is closed peer=%s others=%d",
                    connection.peer,
                    self._failed.others(),
                    exc_info=fault,
                )
        elif self._closed.takes():
            others = self._closed.others()
            _logger.info(
                "connection closed peer=%s others=%d reason=%s", connection.peer, others, fault
            )

    def _note_refused(
        self, peer: str, reason: str, limit: str | None, principal: str = _ANONYMOUS
    ) -> None:
        if limit is not None:
            self.services.settings.limits.note(limit)
        audit = self.services.security.audit
        if audit is not None:
            audit.refused_connection(principal, peer, self.name, reason.removeprefix("reason="))
        if self._refusals.takes():
            others = self._refusals.others()
            _logger.warning("connection refused peer=%s %s", peer, reason)
            if others:
                _logger.warning("connections refused listener=%s others=%d", self.name, others)

    def close_idle(self) -> None:
        """Close connections that are idle for ``connections.max.idle.ms``, even in a large frame.

        A connection that waits for an answer, or for its quota, counts as idle, as in Apache Kafka:
        no request may wait longer. A connection that is receiving an answer does not. `Buffers`
        closes a connection earlier if others wait for its memory. A connection without a login is
        closed after ``connections.max.login.ms``, whatever it does. Long client ids of other idle
        connections are shortened.
        """
        self._go_on()  # a limit may have been raised
        self._close_reset()
        now = self._loop.time()
        server = self.services.settings.server
        limit_ms = server.connections_max_idle_ms
        login_ms = server.connections_max_login_ms
        for connection in list(self.connections):
            login = connection.login
            if login is not None and login.is_open and 0 <= login_ms < login.age * 1000:
                reason = "reason=it has not logged in; see connections.max.login.ms"
                self._note_refused(connection.peer, reason, Limit.LOGIN_TIME)
                connection.close()
                continue
            connection.forget_long_name()
            if connection.is_muted and connection.is_ended:
                connection.close()  # while it is not read, the loop does not report its end
                continue
            idle = now - connection.last_active
            if not (
                connection.is_idle
                or connection.is_stalled
                or connection.is_muted
                or connection.is_owed
            ):
                continue
            if 0 <= limit_ms < idle * 1000:
                connection.close()

    def _close_reset(self) -> None:
        """Close connections that their peers have reset right after the last bytes.

        The event loop reports the error only once, together with those bytes.
        """
        found = {connection.fileno: connection for connection in self.connections}
        for number in sockets.find_broken(found):
            found[number].note_reset()

    def shorten_waits(self, find_wait: Callable[[Connection], float]) -> None:
        """Shorten the waits of clients to those of the current quotas."""
        for connection in list(self.connections):
            if connection.is_muted:
                connection.wait_at_most(find_wait(connection))

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            _logger.error("request task failed listener=%s", self.name, exc_info=task.exception())

    def _on_acceptable(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if self._has_all():
                self._is_full = True
                self.services.settings.limits.note(Limit.LISTENER_CONNECTIONS)
                self._stop_accepting()
                return
            try:
                fileno, address = sockets.accept(listening)
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._report(error)
                return
            peer = f"{address[0]}:{address[1]}"
            if not self._may_stay(fileno, address[0], peer):
                continue
            self.accepted_count += 1
            try:
                self._serve(fileno, address[0], peer)
            except BaseException as error:
                self._note_closed(address[0])
                if not isinstance(error, OSError):
                    raise
                self._report(error)
                return
            pause = self._find_pause()
            if pause:
                self._pause_accepting(pause)
                return

    def _serve(self, fileno: int, host: str, peer: str) -> None:
        """Serve an accepted socket, or begin its handshake.

        Raises:
            OSError: The system watches no more sockets, so this one is closed.
        """
        sock = None if self.handshakes is None else sockets.own(fileno)
        try:
            if self.handshakes is None or sock is None:
                self.connections[Connection(self._loop, fileno, peer, self)] = None
            else:
                on_over = partial(self._note_over, host)
                self.handshakes.begin(sock, peer, partial(self._on_open, peer), on_over)
        except BaseException:
            if sock is None:
                sockets.close(fileno)
            else:
                sock.close()
            raise

    def _report(self, error: OSError) -> None:
        """Log why no connection can be accepted, and wait before the next."""
        _logger.warning("cannot accept listener=%s reason=%s", self.name, error.strerror)
        self._pause_accepting(1.0)

    def _find_limits(self) -> tuple[int | None, int | None]:
        """Return how many connections this listener may have, and how many may come in a second."""
        server = self.services.settings.server
        if server is not self._settings:  # each change creates a new object
            self._settings = server
            given = server.listener_settings
            self._limits = (
                limit_of(given, self.name, MAX_CONNECTIONS),
                limit_of(given, self.name, CREATION_RATE),
            )
        return self._limits

    def _has_all(self) -> bool:
        """Return whether the number of connections is at its limit."""
        limit, _ = self._find_limits()
        return limit is not None and self.open_count >= limit

    def _find_pause(self) -> float:
        """Count a connection for this listener and for all; return how long the next one waits."""
        own = self._rate.find_pause()
        if own:
            self.services.settings.limits.note(Limit.LISTENER_RATE)
        if self._addresses is None:
            return own
        of_all = self._addresses.find_pause()
        if of_all:
            self.services.settings.limits.note(Limit.CONNECTION_RATE)
        return max(own, of_all)

    def _go_on(self) -> None:
        """Accept again, if there was no room and now there is."""
        if self._is_full and not self._has_all():
            self.start()

    def _may_stay(self, fileno: int, host: str, peer: str) -> bool:
        """Count an accepted connection, unless its address or the broker has too many."""
        addresses = self._addresses
        if addresses is None:
            return True
        limit = addresses.find_fault(host)
        if limit is not None:
            self._note_refused(peer, f"reason={limit} is reached", limit)
            sockets.close(fileno)
            return False
        delay = addresses.find_delay(host)
        if delay:
            sock = sockets.own(fileno)
            self._too_soon[sock] = None
            self._loop.call_later(delay, self._end, sock)
            return False
        addresses.opened(host)
        return True

    def _note_over(self, host: str) -> None:
        """Note that a handshake has ended; later calls report whether it succeeded."""
        self._note_closed(host)
        self._loop.call_soon(self._go_on)

    def _note_closed(self, host: str) -> None:
        if self._addresses is not None:
            self._addresses.closed(host)

    def _end(self, sock: socket.socket) -> None:
        """Close a connection that came too soon after others from its address."""
        self._too_soon.pop(sock, None)
        sock.close()
        self._go_on()

    def _on_open(self, peer: str, opened: Opened) -> None:
        """Serve a client whose handshake is done."""
        from siltstone.broker.net.tls.channel import TlsChannel  # noqa: PLC0415  # few have TLS

        try:
            connection = Connection(
                self._loop,
                opened.sock,
                peer,
                self,
                channel_type=TlsChannel,
                principal=str(ANONYMOUS if opened.name is None else Principal(USER, opened.name)),
            )
        except BaseException:
            opened.sock.close()
            raise
        self.connections[connection] = None
        if self._addresses is not None:
            self._addresses.opened(connection.host)

    def _pause_accepting(self, seconds: float) -> None:
        """Accept nothing for ``seconds``: without descriptors, for example, each try would fail."""
        self._stop_accepting()
        self._loop.call_later(seconds, self.start)

    def _stop_accepting(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())
