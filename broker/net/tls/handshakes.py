"""Handshakes of TLS: from an accepted socket to one that encrypts, or to a line in the log.

OpenSSL works on io threads, one piece of a handshake at a time, so that the loop does no asymmetric
cryptography. Before the first step a client costs only its socket: the kernel reports its first
record when the whole record has come (SO_RCVLOWAT), so a client that sends a byte a second does not
wake the loop. OpenSSL limits how much a client may send in a handshake. A client that does not end
its handshake in time is closed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from siltstone.broker.process import sockets
from siltstone.broker.process.bounded_lines import BoundedLines
from siltstone.broker.process.io import IoThreads
from siltstone.broker.security.principals import USER, Principal

if TYPE_CHECKING:
    from siltstone.broker.net.tls.contexts import Endpoint
    from siltstone.broker.security.audit import Audit

_logger = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 10.0
"""How long the broker waits for a client in a handshake."""
_MECHANISM: Final = "TLS"
"""The name in the audit log in place of the mechanism of a login."""
_LINGER_SECONDS: Final = 1.0
_LINGER_BYTES: Final = 64 * 1024
_RECORD_HEAD: Final = Struct(">BBBH")
_HANDSHAKE: Final = 22
_TYPES: Final = range(20, 24)  # change of ciphers, alert, handshake, data
_MAX_RECORD_BYTES: Final = _RECORD_HEAD.size + 16 * 1024 + 2048

_PLAIN: Final = (
    "it does not speak TLS; set security.protocol=SSL or SASL_SSL in the client, or give it a "
    "listener without"
)
_REASONS: Final = {
    "HTTP_REQUEST": _PLAIN,
    "WRONG_VERSION_NUMBER": _PLAIN,
    "UNSUPPORTED_PROTOCOL": "it offers no version of TLS in ssl.enabled.protocols",
    "TLSV1_ALERT_PROTOCOL_VERSION": "it takes none of the versions in ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "it offers no cipher suite that is served",
    "NO_SUITABLE_SIGNATURE_ALGORITHM": "it takes no signature that the certificate can make",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it shows no certificate, but ssl.client.auth=required",
    "TLSV1_ALERT_UNKNOWN_CA": "it does not trust the signer of the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it does not take the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it does not take the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it finds that the broker's certificate has expired",
}


class _Step(Enum):
    """The event that the next piece of a handshake waits for."""

    READ = "more from the client"
    WRITE = "room for the answer"
    DONE = "nothing"


class Opened(NamedTuple):
    """A socket whose handshake is done, and the mapped name from the client's certificate."""

    sock: ssl.SSLSocket
    name: str | None


class Turns:
    """The queue in which pieces of handshakes wait for the io threads (loop only).

    Only a few pieces run at a time, in the order of their arrival. So a thousand handshakes at once
    leave a processor to connected clients, and threads to their disk reads.
    """

    def __init__(self, io: IoThreads) -> None:
        self._io = io
        self._free = max(1, (os.cpu_count() or 1) // 2)
        self._waiting: deque[_Handshake] = deque()

    def add(self, handshake: _Handshake) -> None:
        """Add a handshake to the line, for its next piece."""
        self._waiting.append(handshake)
        self._go()

    def _go(self) -> None:
        while self._free and self._waiting:
            handshake = self._waiting.popleft()
            if handshake.is_over:
                handshake.abandon()
                continue
            self._free -= 1
            future = self._io.run(handshake.step)
            future.add_done_callback(handshake.on_step)
            future.add_done_callback(self._on_done)

    def _on_done(self, _done: asyncio.Future[_Step]) -> None:
        self._free += 1
        self._go()


class Handshakes:
    """The handshakes of one listener, and its endpoint (loop only).

    ``endpoint`` may be replaced at any time: handshakes that begin later use the new one.
    """

    def __init__(
        self, listener: str, endpoint: Endpoint, turns: Turns, audit: Audit | None = None
    ) -> None:
        self.endpoint = endpoint
        self._audit = audit
        self.turns = turns
        self.succeeded = 0
        self.failed = 0
        self.open: dict[_Handshake, Callable[[], None]] = {}  # in the order in which they began
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._failures = BoundedLines(self._loop.time, 1)

    def begin(
        self,
        sock: socket.socket,
        peer: str,
        on_open: Callable[[Opened], None],
        on_over: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin a handshake on an accepted socket; ``on_open`` gets the socket on success.

        ``on_over`` is called before ``on_open``, or when the handshake has failed.
        """
        self.open[_Handshake(self._loop, self, sock, peer, on_open)] = on_over

    def forget(self, handshake: _Handshake) -> None:
        """Forget a handshake that is over."""
        on_over = self.open.pop(handshake, None)
        if on_over is not None:
            on_over()

    def close_oldest(self) -> None:
        """End the oldest handshake of the address that has the most; at least one must exist."""
        counts = Counter(each.host for each in self.open)
        max(self.open, key=lambda each: counts[each.host]).close()

    def close(self) -> None:
        """End all handshakes."""
        for handshake in list(self.open):
            handshake.close()

    def note_success(self, peer: str, name: str | None) -> None:
        """Count a handshake; ``name`` is the name in the client's certificate, None without one."""
        self.succeeded += 1
        if self._audit is not None and name is not None:
            self._audit.logged_in(str(Principal(USER, name)), peer, self._listener, _MECHANISM)

    def note_failure(self, peer: str, reason: str) -> None:
        """Count a failed handshake, and log it; at most one line a second."""
        self.failed += 1
        if self._audit is not None:
            self._audit.login_failed(peer, self._listener, _MECHANISM, reason)
        if not self._failures.takes():
            return
        _logger.warning(
            "TLS handshake failed listener=%s peer=%s others=%d reason=%s",
            self._listener,
            peer,
            self._failures.others(),
            reason,
        )


class _Handshake:
    """One handshake. Only `step` runs on an io thread; the loop does not use the socket then."""

    __slots__ = (
        "_deadline", "_endpoint", "_handshakes", "_is_aligned", "_is_stepping", "_left", "_loop",
        "_name", "_on_open", "_peer", "_sock", "_tls", "host", "is_over",
    )  # fmt: skip

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handshakes: Handshakes,
        sock: socket.socket,
        peer: str,
        on_open: Callable[[Opened], None],
    ) -> None:
        self._loop = loop
        self._handshakes = handshakes
        self._endpoint = handshakes.endpoint
        self._sock = sock
        self._tls: ssl.SSLSocket | None = None
        self._peer = peer
        self.host = peer.rpartition(":")[0]
        self._on_open = on_open
        self._name: str | None = None
        self._is_aligned = True
        self._is_stepping = False
        self._left = _LINGER_BYTES
        self.is_over = False
        self._wait_for(_RECORD_HEAD.size)
        loop.add_reader(sock.fileno(), self._on_readable)
        self._deadline = loop.call_later(HANDSHAKE_SECONDS, self._on_late)

    def step(self) -> _Step:
        """Let OpenSSL continue until it waits for the client. It runs on an io thread."""
        if self._tls is None:
            self._tls = sockets.wrap(self._endpoint.context, self._sock)
            self._sock = self._tls
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return _Step.READ
        except ssl.SSLWantWriteError:
            return _Step.WRITE
        der = self._tls.getpeercert(binary_form=True)
        if der is not None:
            self._name = self._endpoint.name_client(der)
        return _Step.DONE

    def on_step(self, done: asyncio.Future[_Step]) -> None:
        """Wait for the event that the next step needs, or end the handshake (loop only)."""
        self._is_stepping = False
        if self.is_over:
            self.abandon()
            return
        error = None if done.cancelled() else done.exception()
        if done.cancelled():
            self.close()
        elif error is not None:
            self._fail(_explain(error))
        elif done.result() is _Step.DONE:
            self._succeed()
        elif done.result() is _Step.WRITE:
            self._loop.add_writer(self._sock.fileno(), self._on_writable)
        else:
            # OpenSSL may have a part of the next record, so its start is unknown now.
            self._is_aligned = False
            self._wait_for(1)
            self._loop.add_reader(self._sock.fileno(), self._on_readable)

    def close(self) -> None:
        """End without a log line."""
        if self.is_over:
            if not self._is_stepping:
                self._leave()
            return
        self._end()
        self._handshakes.forget(self)
        if not self._is_stepping:
            self._unwatch()
            self._sock.close()

    def abandon(self) -> None:
        """Close the socket of a handshake that was ended while it waited in line or took a step."""
        self._sock.close()

    def _end(self) -> None:
        self.is_over = True
        self._deadline.cancel()

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())

    def _succeed(self) -> None:
        assert self._tls is not None  # noqa: S101  # stepping made it
        self._end()
        self._handshakes.forget(self)
        self._handshakes.note_success(self._peer, self._name)
        self._wait_for(1)
        self._on_open(Opened(self._tls, self._name))

    def _wait_for(self, size: int) -> None:
        """Let the kernel report the socket when at least ``size`` bytes have come."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)

    def _on_readable(self) -> None:
        """Take a step; if a record has not come completely, wait for its rest first."""
        try:
            head = sockets.peek(self._sock, _RECORD_HEAD.size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.close()
            return
        if not head:
            if self._tls is None:  # the client left at once, as a port check does
                self.close()
            else:
                self._fail("it closed the connection")
            return
        if not self._is_tls(head):
            self._fail(_PLAIN)
            return
        if self._is_aligned and self._must_wait(head):
            return
        self._loop.remove_reader(self._sock.fileno())
        self._queue()

    def _is_tls(self, head: bytes) -> bool:
        if self._tls is None:
            return head[0] == _HANDSHAKE and head[1:2] in {b"", b"\x03"}
        return not self._is_aligned or head[0] in _TYPES

    def _must_wait(self, head: bytes) -> bool:
        """Return whether to wait for the rest of a record; at the end of the stream do not wait."""
        size = _RECORD_HEAD.size
        if len(head) == size:
            size += _RECORD_HEAD.unpack(head)[3]
        arrived = sockets.count_arrived(self._sock)
        if arrived >= size or size > _MAX_RECORD_BYTES:
            return False
        lowest = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        if lowest >= size:  # no more will come, or more than the kernel keeps
            self._is_aligned = False
            return False
        self._wait_for(size)
        return self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) >= size

    def _on_writable(self) -> None:
        self._loop.remove_writer(self._sock.fileno())
        self._queue()

    def _queue(self) -> None:
        self._is_stepping = True
        self._handshakes.turns.add(self)

    def _on_late(self) -> None:
        if self._is_stepping:  # the broker is late, not the client
            self._deadline = self._loop.call_later(HANDSHAKE_SECONDS, self._on_late)
        else:
            missed = "begun" if self._tls is None else "ended"
            self._fail(f"it has not {missed} within {HANDSHAKE_SECONDS:g} s")

    def _fail(self, reason: str) -> None:
        """Note the reason, and close when the client has had time to read the alert."""
        self._end()
        self._handshakes.note_failure(self._peer, reason)
        if self._sock.fileno() < 0:  # the client had closed before OpenSSL could begin
            self._handshakes.forget(self)
            return
        self._unwatch()
        try:
            sockets.shut(self._sock, socket.SHUT_WR)
            self._wait_for(1)
        except OSError:
            self._leave()
            return
        self._deadline = self._loop.call_later(_LINGER_SECONDS, self._leave)
        self._loop.add_reader(self._sock.fileno(), self._discard)

    def _discard(self) -> None:
        """Drop further bytes: to close with unread bytes would lose the alert for the client."""
        try:
            got = len(sockets.receive(self._sock, min(self._left, 16 * 1024)))
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            got = 0
        self._left -= got
        if not got or self._left <= 0:
            self._leave()

    def _leave(self) -> None:
        self._deadline.cancel()
        self._handshakes.forget(self)
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()


def _explain(error: BaseException) -> str:
    """Return why a handshake failed, for an operator."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not taken: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError | ConnectionError):
        return "it closed the connection; it may not trust the broker's certificate"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason, str(error.reason))
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
