"""One client connection: frames in, answers out in the order the requests came.

Each wake-up receives once, serves every complete frame and sends the answers together. A request
that must wait (a long poll, an fsync) is a coroutine: until it has answered, nothing behind it is
served, so answers keep Kafka's order. While a client does not read its answers, nothing is read
from it either, so a connection holds at most one receive buffer and one turn of answers.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from siltstone.broker.net._dispatch_kernels import Caller
from siltstone.broker.net.buffers import LARGE, LargeBuffer
from siltstone.broker.net.channel import PlainChannel
from siltstone.broker.net.turn._turn_kernels import Turn
from siltstone.protocol.core import next_frame
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.framing import SIZE_PREFIX

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Coroutine
    from typing import Any

    from siltstone.broker.context import Rooms
    from siltstone.broker.net._dispatch_kernels import Gate
    from siltstone.broker.net.answers import Answer, LateAnswer
    from siltstone.broker.net.buffers import Buffers

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Where a connection came in: its limits, its memory, and the parent of its tasks."""

    name: str
    rooms: Rooms
    buffers: Buffers
    max_frame_bytes: int

    @property
    def dispatcher(self) -> Gate:
        """Return what serves frames."""

    def start_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run what a request waits for."""

    def note_login(self, connection: Connection) -> None:
        """Log that a client wanted to log in."""

    def forget(self, connection: Connection) -> None:
        """Drop a closed connection."""


class Connection(Turn):
    """The life of one accepted socket (loop only).

    Exactly one of these holds at any time: reading (the loop watches the socket), serving (a
    coroutine owes an answer), draining (answers are queued), or waiting for memory. Received
    bytes that cannot be served yet stand in ``_tail``, at most one receive buffer of them. They
    and those of a frame with a buffer of its own are counted by ``Buffers`` at the end of each
    turn.
    """

    __slots__ = (
        "_buffers",
        "_closing",
        "_reading",
        "caller",
        "listener",
        "peer",
        "rooms",
    )

    _channel: PlainChannel

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sock: socket.socket, peer: str, listener: Listener
    ) -> None:
        channel = PlainChannel(loop, sock, listener.rooms.io, self.resume, self.close)
        buffers = listener.buffers
        super().__init__(
            loop, channel, listener.dispatcher, buffers.shared, listener.max_frame_bytes
        )
        self.rooms: Rooms = listener.rooms
        self.listener = listener
        self.peer = peer
        self.caller = Caller(listener.rooms, listener.name, peer)
        self._buffers = buffers
        self._closing = False
        self._reading = True
        loop.add_reader(self._channel.fileno, self._on_readable)

    @property
    def client_id(self) -> str | None:
        """Return what the client calls itself; None if it did not say."""
        return self.caller.client_id

    @property
    def is_idle(self) -> bool:
        """Return whether no answer is owed and nothing is half received."""
        return self._task is None and not self._channel.unsent and self._frame is None

    @property
    def is_stalled(self) -> bool:
        """Return whether a large frame has begun and its rest does not arrive."""
        return self._frame is not None and self._task is None and self._reading

    @property
    def is_its_turn(self) -> bool:
        """Return whether it is the client that must act (send or read), not the broker."""
        return self._task is None and (self._reading or bool(self._channel.unsent))

    def note_login(self) -> None:
        """Log that the client wanted to log in; this broker has no log-ins."""
        self.listener.note_login(self)

    def resume(self) -> None:
        """Continue when an answer is sent or memory is free: kept bytes first, then new ones."""
        self._serve_kept()
        self._count()

    def close(self, reason: str | None = None) -> None:
        """Close at once; ``reason`` is logged when it is a fault of the peer or of a file."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._reading:
            self._loop.remove_reader(self._channel.fileno)
            self._reading = False
        self._channel.close()
        self._tail = b""
        if self._task is None:
            self._release_frame()
        else:
            self._end_task(self._task)
        self._count()
        self._buffers.forget(self)
        self.listener.forget(self)
        if reason is not None:
            log.info("connection closed peer=%s reason=%s", self.peer, reason)

    def drain(self) -> None:
        """Take no further request; close as soon as the answers owed have left."""
        self._closing = True
        if self._task is None and not self._channel.unsent:
            self.close()

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

        Notice now if the peer has gone away.
        """
        if self._channel.is_ended():
            self.close()
            return
        self._loop.remove_reader(self._channel.fileno)
        self._reading = False

    def _receive_prefix(self) -> None:
        """Receive the size first, so that a large frame goes into its own buffer without a copy."""
        prefix = self._shared[:SIZE_PREFIX]
        received = self._channel.receive(prefix, 0, SIZE_PREFIX)
        if received <= 0:
            if received == 0:
                self.close()
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
                self.close()
            return
        self.received += received
        frame.received += received
        if frame.received < frame.size:
            return
        reply = self._gate.dispatch(self, frame.view, 0, frame.size)
        if reply is None or isinstance(reply, (bytes, list)):
            self._release_frame()
            if reply is not None:
                self._send(reply)
        else:
            self._await(reply)

    def _begin_large(self, size: int, arrived: memoryview) -> LargeBuffer | None:
        """Move to a buffer of the frame's own; return None if there is no room yet."""
        frame = self._buffers.take(size, self)
        if frame is None:
            if self._reading:
                self._loop.remove_reader(self._channel.fileno)
                self._reading = False
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
        """Tell `Buffers` how many bytes are kept."""
        kept = len(self._tail)
        if self._frame is not None:
            kept += self._frame.received
        if kept != self._held:
            self._held = kept
            self._buffers.hold(self, kept)

    def _keep(self, rest: memoryview, frame_size: int) -> None:
        """Keep what was received and not served; it begins a frame of ``frame_size`` bytes."""
        body = frame_size - SIZE_PREFIX
        is_begun = body > LARGE and len(rest) < frame_size
        if not is_begun or self._begin_large(body, rest[SIZE_PREFIX:]) is None:
            self._tail = bytes(rest)

    def _await(self, reply: LateAnswer) -> None:
        self._task = self.listener.start_task(self._finish(reply))
        if self.is_closed:
            self._end_task(self._task)

    def _end_task(self, task: asyncio.Task[None]) -> None:
        """Cancel a task that owes an answer, after its first step.

        A coroutine that never begins skips its ``finally``, and so does each one that it would have
        awaited. The loop makes calls in the order in which they are asked for, so the task's first
        step comes before this one.
        """
        self._loop.call_soon(task.cancel)

    async def _finish(self, reply: LateAnswer) -> None:
        """Wait for a request that could not be answered at once, then go on with the next."""
        answer: Answer = None
        try:
            answer = await reply
        except ProtocolError as error:
            self._task = None
            self._refuse(error)
            return
        finally:
            self._task = None
            self._release_frame()
        if answer is not None:
            self._send(answer)
        self.resume()

    def _serve_kept(self) -> None:
        if self.is_closed or self._task is not None or self._channel.unsent:
            return
        if self._closing:
            self.close()
            return
        self.last_active = self._loop.time()
        if self._tail and self._frame is None:
            tail = self._tail
            self._tail = b""
            self._shared[: len(tail)] = tail
            try:
                self._serve(len(tail))
            except ProtocolError as error:
                self._refuse(error)
                return
            if self.is_closed or self._task is not None:
                return
        if not self._reading and not self._must_wait():
            self._loop.add_reader(self._channel.fileno, self._on_readable)
            self._reading = True

    def _must_wait(self) -> bool:
        """Return whether the frame that comes next has no memory yet."""
        tail = self._tail
        if self._frame is not None or not tail:
            return False
        kept = memoryview(tail)
        return next_frame(kept, 0, len(tail), self._limit) - SIZE_PREFIX > LARGE

    def _refuse(self, error: ProtocolError) -> None:
        """Close because of bytes that are no Kafka request, after earlier answers have left.

        Log whose.
        """
        log.warning("connection refused peer=%s %s", self.peer, error)
        self._tail = b""
        self._count()
        self.drain()
