"""One turn of a connection: receive once, serve what is whole, send once.

Compiled by Cython, or plain Python as it stands. The types of C stand in ``_turn_kernels.pxd``.
"""

import os
from collections import deque
from typing import TYPE_CHECKING

from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.protocol.errors import ProtocolError

try:
    import cython
except ModuleNotFoundError:  # Cython is a tool of the build, not of the run
    from siltstone.protocol.records import _portable as cython

if not cython.compiled:
    from siltstone.protocol.core import next_frame
    from siltstone.protocol.records._portable import (
        EAGAIN,
        EINTR,
        acquire_target,
        inside,
        no_target,
        receive_octets,
        release_target,
        send_octets,
    )

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from siltstone.broker.net import _dispatch_kernels as dispatch_kernels
    from siltstone.broker.net.answers import Answer, LateAnswer
    from siltstone.broker.net.buffers import LargeBuffer
    from siltstone.protocol.parts import FileSlice

COMPILED: bool = cython.compiled

# After so many requests of one client in a turn, the others are served.
FRAMES_PER_TURN = 64


class Transport:
    """Bytes from and to a socket that does not block (loop only).

    A call that copies at most a shared buffer keeps the GIL: it ends before another thread could
    begin. If it let go, a thread that computes could keep the GIL for a whole switch interval.

    Invariants: ``unsent`` leaves before anything else does. ``fileno`` is -1 once the socket is
    closed, since its number may then belong to another connection.

    A base of `PlainChannel` and not a part of it: both change ``unsent``, and a turn calls
    `receive` and `send_bytes` without a call of Python's (docs/decisions/0015-compiled-bases.md).
    """

    __slots__ = ("_on_lost", "fileno", "unsent")

    def __init__(self, fileno: int, on_lost: "Callable[[str], None]") -> None:
        self.fileno = fileno
        self.unsent: deque[bytes | memoryview | FileSlice] = deque()
        self._on_lost = on_lost

    def receive(self, buffer: memoryview, start: int, end: int) -> int:
        """Receive once into ``buffer[start:end]``.

        Returns:
            The number of bytes, 0 at the end of the stream, -1 if there are none yet.
        """
        room = no_target()
        acquire_target(buffer, room)
        end = min(end, room.len)
        socket = self.fileno
        if end - start <= SHARED_BYTES:
            received = receive_octets(socket, room.buf, start, end)
        else:
            with cython.nogil:
                received = receive_octets(socket, room.buf, start, end)
        release_target(room)
        if received >= 0:
            return received
        return -1 if received in {-EAGAIN, -EINTR} else 0

    def send_bytes(self, whole: bytes) -> None:
        """Send or queue an answer of one piece, which is the common case."""
        if self.unsent:
            self.send((whole,))
            return
        socket = self.fileno
        octets = inside(whole)
        size = len(whole)
        if size <= SHARED_BYTES:
            sent = send_octets(socket, octets, size)
        else:
            with cython.nogil:
                sent = send_octets(socket, octets, size)
        if sent == size:
            return
        if sent < 0:
            if sent not in {-EAGAIN, -EINTR}:
                self._on_lost(os.strerror(-sent))
                return
            sent = 0
        self.unsent.append(memoryview(whole)[sent:])
        self._watch()

    def send(self, parts: "Sequence[bytes | memoryview | FileSlice]") -> None:
        """Send or queue ``parts`` in order."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Continue to send when the socket has room."""
        raise NotImplementedError


class Turn:
    """What a connection does when its socket has bytes: receive once, serve, send once (loop only).

    Received bytes that cannot be served yet stand in ``_tail``, at most one receive buffer of them.

    A base of `Connection` and not a part of it: the fields are the connection's, which its rarer
    ways change as well. What it leaves to them raises NotImplementedError here
    (docs/decisions/0015-compiled-bases.md).
    """

    __slots__ = (
        "_channel",
        "_expects_large",
        "_frame",
        "_gate",
        "_held",
        "_limit",
        "_loop",
        "_shared",
        "_tail",
        "_task",
        "is_closed",
        "last_active",
        "received",
    )

    def __init__(
        self,
        loop: "asyncio.AbstractEventLoop",
        channel: Transport,
        gate: "dispatch_kernels.Gate",
        shared: memoryview,
        limit: int,
    ) -> None:
        self.is_closed = False
        self.last_active = loop.time()
        self.received = 0  # bytes in all
        self._loop = loop
        self._channel = channel
        self._gate = gate
        self._shared = shared
        self._limit = limit
        self._tail = b""
        self._held = 0  # how much of the tail and the frame is counted
        self._frame: LargeBuffer | None = None
        self._expects_large = False
        self._task: asyncio.Task[None] | None = None

    def _on_readable(self) -> None:
        self.last_active = self._loop.time()
        try:
            if (
                self._task is not None
                or self._frame is not None
                or self._tail
                or self._expects_large
                or self._channel.unsent
            ):
                self._go_on()
            else:
                self._receive()
        except ProtocolError as error:
            self._refuse(error)
        if self._tail or self._held or self._frame is not None:
            self._count()

    def _receive(self) -> None:
        """Receive into the shared buffer, behind what is left from last time."""
        tail = self._tail
        kept = len(tail)
        if kept:
            self._shared[:kept] = tail
        received = self._channel.receive(self._shared, kept, len(self._shared))
        if received > 0:
            self.received += received
            self._tail = b""
            self._serve(kept + received)
        elif received == 0:
            self.close()

    def _serve(self, filled: int) -> None:
        """Serve the complete frames of the shared buffer and send the answers together.

        It ends early at a request that must wait, at file ranges, and when others are due.

        Raises:
            ProtocolError: From `Gate.dispatch`, or a frame cannot have the size that it states.
        """
        shared = self._shared
        answers: list[bytes] = []
        reply: Answer | LateAnswer = None
        position = size = count = 0
        try:
            end = next_frame(shared, 0, filled, self._limit)
            while end <= filled and count < FRAMES_PER_TURN and size < SHARED_BYTES:
                reply = self._gate.dispatch(self, shared, position + 4, end)  # type: ignore[arg-type]  # a Connection
                position = end
                if isinstance(reply, bytes):
                    answers.append(reply)
                    size += len(reply)
                    count += 1
                elif reply is not None:
                    break
                end = next_frame(shared, position, filled, self._limit)
        except ProtocolError:
            self._send_joined(answers)
            raise
        if isinstance(reply, list):
            if position < filled:
                self._keep(shared[position:filled], 0)
            self._send([*answers, *reply])
        else:
            if position < filled:
                self._keep(shared[position:filled], end - position)
            self._send_joined(answers)
            if reply is not None and not isinstance(reply, bytes):
                self._await(reply)
                return
        is_more = end <= filled if end > position else len(self._tail) > 0
        if is_more and not self._channel.unsent:
            self._loop.call_soon(self.resume)

    def _send_joined(self, answers: list[bytes]) -> None:
        if answers:
            self._send(answers[0] if len(answers) == 1 else b"".join(answers))

    def _send(self, answer: "bytes | Sequence[bytes | FileSlice]") -> None:
        if self.is_closed:
            return
        if isinstance(answer, bytes):
            self._channel.send_bytes(answer)
        else:
            self._channel.send(answer)

    def _go_on(self) -> None:
        """Wait for an answer that is owed, receive a large frame, or serve kept bytes."""
        raise NotImplementedError

    def _keep(self, rest: memoryview, frame_size: int) -> None:
        """Keep what was received and not served; it begins a frame of ``frame_size`` bytes."""
        raise NotImplementedError

    def _count(self) -> None:
        """Tell `Buffers` how many bytes are kept."""
        raise NotImplementedError

    def _await(self, reply: "LateAnswer") -> None:
        """Wait for the answer of a request, and send it."""
        raise NotImplementedError

    def resume(self) -> None:
        """Continue when an answer is sent or memory is free: kept bytes first, then new ones."""
        raise NotImplementedError

    def _refuse(self, error: ProtocolError) -> None:
        """Close the connection because of bytes that are no Kafka request."""
        raise NotImplementedError

    def close(self, reason: str | None = None) -> None:
        """Close at once; ``reason`` is logged when it is a fault of the peer or of a file."""
        raise NotImplementedError
