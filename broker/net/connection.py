"""One client connection: receives frames, and sends answers in the order of the requests.

Each wake-up receives once, serves every complete frame and sends the answers together. A request
that must wait (a long poll, an fsync) is a coroutine: until it has answered, no later request is
served, so answers keep Kafka's order. While a client does not read its answers, the broker does not
read from it either, so a connection holds at most one receive buffer and the answers of one turn. A
client may shut down its side after its requests: these are answered, then the connection closes.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from siltstone.broker.context import Caller
from siltstone.broker.net.buffers import LARGE, Buffers, LargeBuffer
from siltstone.broker.net.channel import PlainChannel
from siltstone.broker.net.gate import Gate
from siltstone.broker.net.sending.threads import SendingThreads
from siltstone.broker.net.turn.turn import LoopRound, Turn
from siltstone.broker.process import sockets
from siltstone.broker.process.client_limits import MAX_TEXT
from siltstone.broker.process.loop_share import end_request
from siltstone.broker.security.principals import ANONYMOUS, OURSELVES
from siltstone.broker.services import Services
from siltstone.protocol.core import next_frame
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import SIZE_PREFIX
from siltstone.protocol.parts import Answer, FileSlice, LateAnswer

if TYPE_CHECKING:
    from siltstone.broker.net.login import Login, Logins
    from siltstone.broker.net.tls.channel import TlsChannel

_logger = logging.getLogger(__name__)

_ANONYMOUS = str(ANONYMOUS)
_OURSELVES = str(OURSELVES)


class Listener(Protocol):
    """The listener of a connection: its limits, its memory, and the parent of its tasks."""

    name: str
    services: Services
    buffers: Buffers
    loop_round: LoopRound
    sending: SendingThreads
    max_frame_bytes: int
    logins: Logins | None

    @property
    def dispatcher(self) -> Gate:
        """Return the gate that serves frames."""

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run the coroutine of a request that waits."""

    def note_login(self, connection: Connection) -> None:
        """Log that a client tried to log in."""

    def note_refused(self, connection: Connection, error: ProtocolError) -> None:
        """Log that a connection ends because of what its client has sent."""

    def note_closed(self, connection: Connection, fault: str | Exception) -> None:
        """Log that a connection is closed because of its peer, a file or the broker."""

    def forget(self, connection: Connection) -> None:
        """Drop a closed connection."""


class Connection(Turn):
    """The life of one accepted socket (loop only).

    Exactly one of these holds at any time: reading (the loop watches the socket), serving (a
    coroutine owes an answer), draining (answers are queued), waiting for memory, or muted (the
    client has exceeded its quota, and its answers have been sent). Received bytes that cannot be
    served yet are in ``_tail``, at most one receive buffer of them. ``Buffers`` counts these bytes,
    and those in a frame's own buffer, at the end of each turn.
    """

    __slots__ = (
        "_at_end", "_buffers", "_closing", "_is_unread", "_muted", "_reading", "_throttled",
        "caller", "host", "listener", "login", "peer", "principal", "services", "software",
    )  # fmt: skip

    _channel: PlainChannel | TlsChannel

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: Any,
        peer: str,
        listener: Listener,
        *,
        is_ours: bool = False,
        channel_type: Callable[..., PlainChannel | TlsChannel] = PlainChannel,
        principal: str = _ANONYMOUS,
    ) -> None:
        """Take over a socket: a non-blocking descriptor, or an object for ``channel_type``.

        ``is_ours`` says that the client is in this process, and need not log in.
        """
        channel = channel_type(loop, sock, listener.sending, self.resume, self.close)
        super().__init__(
            loop, channel, listener.dispatcher, listener.loop_round, listener.max_frame_bytes
        )
        self.services: Services = listener.services
        self.listener = listener
        self.peer = peer
        self.caller = Caller(listener.services, listener.name, peer)
        self.software = ("", "")  # the name and version that the client has sent (KIP-511)
        self.host = peer.rpartition(":")[0]
        self.principal = _OURSELVES if is_ours else principal
        self.caller.rights = listener.services.security.rights_of(self)
        self.login: Login | None = None
        if listener.logins is not None and not is_ours:
            self._gate = self.login = listener.logins.begin(listener.dispatcher)
            self._limit = listener.logins.mechanisms.max_receive_bytes
        self._buffers = listener.buffers
        self._at_end: dict[str, Callable[[], None]] = {}
        self._closing = False
        self._is_unread = False
        self._muted: asyncio.TimerHandle | None = None
        self._throttled = 0.0
        self._reading = True
        self._channel.start_reading(self.on_readable)
        _logger.debug("connection opened listener=%s peer=%s", listener.name, peer)

    @property
    def reached(self) -> str:
        """Return the local address that the client has connected to."""
        return str(sockets.find_name(self._channel.fileno)[0])

    @property
    def client_id(self) -> str | None:
        """Return the client id of the last request; None if it had none."""
        return self.caller.client_id

    @property
    def is_idle(self) -> bool:
        """Return whether no answer is owed and no frame is incomplete."""
        is_free = self._task is None and self._muted is None and self._owed is None
        return is_free and not self._channel.unsent and self._frame is None

    @property
    def is_stalled(self) -> bool:
        """Return whether a large frame is incomplete and its rest does not arrive."""
        return self._frame is not None and self._task is None and self._reading

    @property
    def is_muted(self) -> bool:
        """Return whether the client waits because it has exceeded a quota."""
        return self._muted is not None

    @property
    def is_ended(self) -> bool:
        """Return whether the peer has closed, and has been served and sent everything."""
        return not self._tail and not self._channel.unsent and self._channel.is_ended()

    @property
    def is_owed(self) -> bool:
        """Return whether a request waits and its answer is owed."""
        return self._task is not None and not self._channel.unsent

    @property
    def fileno(self) -> int:
        """Return the number of the socket."""
        return self._channel.fileno

    @property
    def is_known(self) -> bool:
        """Return whether the client has logged in, or need not."""
        return self.login is None or not self.login.is_open

    @property
    def login_seconds(self) -> float:
        """Return for how many seconds the client's login is still valid."""
        return math.inf if self.login is None else self.login.seconds_left

    @property
    def unsent(self) -> deque[bytes | memoryview | FileSlice]:
        """Return the parts of answers that have not left yet."""
        return self._channel.unsent

    @property
    def is_its_turn(self) -> bool:
        """Return whether the client must act next (send or read), not the broker."""
        return self._task is None and (self._reading or bool(self._channel.unsent))

    def let_in(self, principal: str, *, stays: bool) -> None:
        """Serve a client that has logged in; if the login ``stays`` valid, its gate is removed."""
        self.principal = principal
        self.caller.rights = self.services.security.rights_of(self)
        self._limit = self.listener.max_frame_bytes
        if stays:
            self._gate = self.listener.dispatcher

    def find_login(self) -> Login | None:
        """Return the login, or None and a log line if the listener has no logins."""
        if self.login is None:
            self.listener.note_login(self)
        return self.login

    def note_software(self, name: str, version: str) -> None:
        """Store the name and version of the client's software, if ApiVersions has them."""
        self.software = name[:MAX_TEXT], version[:MAX_TEXT]
        _logger.debug(
            "client listener=%s peer=%s client=%r software=%r",
            self.listener.name,
            self.peer,
            self.client_id,
            " ".join(self.software).strip(),
        )

    def note_refused_handshake(self, reason: str) -> None:
        """Log that an ApiVersions request was refused; clients then try an older version."""
        _logger.debug(
            "handshake refused listener=%s peer=%s client=%r reason=%s",
            self.listener.name,
            self.peer,
            self.client_id,
            reason,
        )

    def resume(self) -> None:
        """Continue when an answer has left or memory is free: kept bytes first, then new ones."""
        if self._is_unread and not self._channel.unsent:
            self._is_unread = False
            self._buffers.unread.forget(self)
        timer = self._gate.timer
        if timer is None:
            self._serve_kept()
            self._count()
            return
        began = timer.begin()
        try:
            self._serve_kept()
            self._count()
        finally:
            timer.end(self, began)

    def close(self, fault: str | Exception | None = None) -> None:
        """Close at once; a fault is logged: a text is of the peer or of a file, else ours."""
        if self.is_closed:
            return
        self.is_closed = True
        self._stop_reading()
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        self._channel.close()
        self._tail = b""
        if self._task is None:
            self._release_frame()
        else:
            self._end_task(self._task)
        self._count()
        self._buffers.forget(self)
        self._buffers.unread.forget(self)
        self.listener.forget(self)
        for action in self._at_end.values():
            self._loop.call_soon(action)
        if fault is not None:
            self.listener.note_closed(self, fault)
        else:
            _logger.debug(
                "connection closed peer=%s client=%r received_bytes=%d",
                self.peer,
                self.client_id,
                self.received,
            )

    def at_end(self, name: str, action: Callable[[], None]) -> None:
        """Run an action soon after this connection has closed; it replaces one of that name."""
        self._at_end[name] = action

    def note_reset(self) -> None:
        """Close, but first serve the bytes that came before the peer reset the connection."""
        if self._channel.is_ended():
            self.close()
        elif self._reading:
            self._loop.call_soon(self.on_readable)  # the same call as by the event loop

    def drain(self) -> None:
        """Accept no further request; close as soon as the owed answers have left."""
        self._closing = True
        if self._owed is not None:
            self._round.end()
        if self._task is None and not self._channel.unsent:
            self.close()

    def forget_long_name(self) -> None:
        """Shorten the stored client id to the part that is shown, until the next request."""
        name = self.caller.client_id
        if name is not None and len(name) > MAX_TEXT and self._task is None:
            self.caller.client_id = name[:MAX_TEXT]

    def throttle(self, seconds: float) -> None:
        """Read nothing for ``seconds`` after the answer to the current request (KIP-219).

        Only a request whose answer comes later may call this.
        """
        self._throttled = max(self._throttled, seconds)

    def wait_at_most(self, seconds: float) -> None:
        """Read again after ``seconds`` at the latest, if the client is muted."""
        muted = self._muted
        if muted is not None and muted.when() > self._loop.time() + seconds:
            muted.cancel()
            self._muted = self._loop.call_later(seconds, self._unmute)

    def _go_on(self) -> None:
        if self._task is not None or self._channel.unsent:
            self._mute()
        elif len(self._tail) > LARGE:
            self.resume()
        elif self._frame is not None:
            self._receive_large(self._frame)
        elif self._expects_large and not self._tail:
            self._receive_prefix()
        else:
            self._receive()

    def _mute(self) -> None:
        """Stop reading until the answer that is owed has left.

        A client that has ended only its own side still gets the answer. The connection is closed
        now if the client has reset it, since it could not receive the answer, or if it ends before
        the login.
        """
        if sockets.find_broken((self._channel.fileno,)) or (
            not self.is_known and self._channel.is_ended()
        ):
            self.close()
            return
        self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reading:
            self._channel.stop_reading()
            self._reading = False

    def _receive_prefix(self) -> None:
        """Receive the size first, so that a large frame goes to its own buffer without a copy."""
        self._round.end()
        prefix = self._shared[:SIZE_PREFIX]
        received = self._channel.receive(prefix, 0, SIZE_PREFIX)
        if received <= 0:
            if received == 0:
                self._end()
            return
        self.received += received
        if received == SIZE_PREFIX:
            size = next_frame(prefix, 0, SIZE_PREFIX, self._limit) - SIZE_PREFIX
            if size > LARGE:
                frame = self._begin_large(size, prefix[:0])
                if frame is not None:
                    self._receive_large(frame)
                else:
                    self._tail = bytes(prefix)
                return
            self._expects_large = False
        self._tail = bytes(prefix[:received])
        self._receive()

    def _receive_large(self, frame: LargeBuffer) -> None:
        if not self._buffers.may_receive(frame, self):
            self._mute()
            return
        received = self._channel.receive(frame.view, frame.received, frame.size)
        if received <= 0:
            if received == 0:
                self._end()
            return
        self.received += received
        frame.received += received
        if frame.received < frame.size:
            return
        reply: Any = self._gate.dispatch(self, frame.view, 0, frame.size)
        if reply is None or isinstance(reply, (bytes, list)):
            self._release_frame()
            if reply is not None:
                self._send(reply)
        else:
            self._await(reply)

    def _begin_large(self, size: int, arrived: memoryview) -> LargeBuffer | None:
        """Move a frame to its own buffer; return None if there is no room yet."""
        frame = self._buffers.take(size, self)
        if frame is None:
            self._stop_reading()
            return None
        frame.view[: len(arrived)] = arrived
        frame.received = len(arrived)
        self._frame = frame
        self._expects_large = True
        return frame

    def _release_frame(self) -> None:
        frame = self._frame
        if frame is not None:
            self._frame = None
            self._buffers.give(frame)
            self._count()

    def _count(self) -> None:
        """Tell `Buffers` how many bytes this connection holds."""
        kept = len(self._tail)
        if self._frame is not None:
            kept += self._frame.received
        if kept != self._held:
            self._held = kept
            self._buffers.hold(self, kept)

    def _keep(self, rest: memoryview, frame_size: int) -> None:
        """Keep the bytes that were not served; they begin a frame of ``frame_size`` bytes."""
        body = frame_size - SIZE_PREFIX
        is_begun = body > LARGE and len(rest) < frame_size
        if not is_begun or self._begin_large(body, rest[SIZE_PREFIX:]) is None:
            self._tail = bytes(rest)

    def _note_unread(self) -> None:
        """Count the bytes that the client has not read yet."""
        self._is_unread = True
        self._buffers.unread.hold(self)

    def _await(self, reply: LateAnswer) -> None:
        self._task = self.listener.start_task(self._finish(reply))
        if self.is_closed:
            self._end_task(self._task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        """Cancel the task that owes an answer, but not before its first step has run.

        A coroutine that never begins does not run its ``finally``, nor does any coroutine that it
        would have awaited. The loop runs callbacks in the order of their requests, so the first
        step of the task comes before this callback.
        """
        self._loop.call_soon(task.cancel)

    async def _finish(self, reply: LateAnswer) -> None:
        """Wait for the answer of a request, send it, then continue with the next request."""
        answer: Answer = None
        try:
            answer = await reply
        except asyncio.CancelledError:
            self.close()  # unless it was the close that has cancelled the task
            raise
        except Exception as error:  # noqa: BLE001  # `_refuse` logs a fault of the broker
            self._task = None
            self._refuse(error)
            return
        finally:
            self._task = None
            self._release_frame()
        timer = self._gate.timer
        began = None if timer is None else timer.begin()
        try:
            if answer is not None:
                self._send(answer)
            if self._throttled and not self.is_closed:
                self._mute_for_a_while()
            end_request()
            self.resume()
        except Exception as error:  # noqa: BLE001  # `_refuse` logs a fault of the broker
            self._refuse(error)
        finally:
            if timer is not None:
                timer.end(self, began)

    def _mute_for_a_while(self) -> None:
        seconds, self._throttled = self._throttled, 0.0
        self._muted = self._loop.call_later(seconds, self._unmute)
        self._stop_reading()

    def _unmute(self) -> None:
        self._muted = None
        self.resume()

    def _serve_kept(self) -> None:
        if self.is_closed or self._task is not None or self._channel.unsent:
            return
        if self._closing:
            self.close()
            return
        if self._muted is not None:
            return
        self.last_active = self._loop.time()
        try:
            if self._tail and self._frame is None:
                tail = self._tail
                self._tail = b""
                self._round.end()
                self._shared[: len(tail)] = tail
                self._serve(0, len(tail))
                if self.is_closed or self._task is not None:
                    return
            if not self._must_wait() and not self._reading:
                self._channel.start_reading(self.on_readable)
                self._reading = True
        except Exception as error:  # noqa: BLE001  # `_refuse` logs a fault of the broker
            self._refuse(error)

    def _must_wait(self) -> bool:
        """Return whether the next frame has no memory yet.

        Raises:
            ProtocolError: The frame states an impossible size.
        """
        tail = self._tail
        if self._frame is not None or not tail:
            return False
        kept = memoryview(tail)
        return next_frame(kept, 0, len(tail), self._limit) - SIZE_PREFIX > LARGE

    def _refuse(self, error: Exception) -> None:
        """Send the earlier answers, then close because of bytes that are not a Kafka request.

        Any other error is a fault of the broker: it is logged, and the connection closes at once.
        """
        if not isinstance(error, ProtocolError):
            self.close(error)
            return
        self.listener.note_refused(self, error)
        self._tail = b""
        self._count()
        self.drain()
