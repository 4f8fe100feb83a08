"""One turn of a connection: receive once, serve what is whole, send once.

Compiled by Cython. The types of C stand in ``_turn_kernels.pxd``.
"""

import errno
import os
from collections import deque
from typing import TYPE_CHECKING, Any

import cython

from siltstone.broker.net.buffers import SHARED_BYTES
from siltstone.protocol.errors import ProtocolError
from siltstone.protocol.parts import FileSlice

if not cython.compiled:  # for the type checkers: what the .pxd has
    from siltstone.broker.context import Unwritten
    from siltstone.broker.net.gate import encode
    from siltstone.broker.process._sockets import receive_octets, send_octets
    from siltstone.protocol.core import next_frame
    from siltstone.protocol.core._format import (
        EAGAIN,
        EINTR,
        MSG_MORE,
        Region,
        acquire,
        acquire_target,
        copy,
        inside,
        no_region,
        no_target,
        release,
        release_target,
    )
    from siltstone.storage.files._disk import read_resident

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Sequence

    from siltstone.broker.net.buffers import LargeBuffer
    from siltstone.broker.net.gate import Gate
    from siltstone.protocol.parts import LateAnswer
    from siltstone.storage.log.end import Appends


# After so many requests of one client in a turn, the others are served.
FRAMES_PER_TURN = 64

TURNS_PER_ROUND = 16
"""So many answers wait for each other at most."""
ROUND_BYTES = 64 * 1024
"""Of frames whose batches wait; and an answer that is larger waits for no other."""
ALONE = 8
"""After a round of one turn, so many turns wait for no other."""

INLINE_BYTES = 64 * 1024
"""A larger range of a file is not joined with its neighbours."""
SOCKET_IS_FULL = -1
IS_COLD = -2
_JOINED_PARTS = 64
_SIZE_AND_KEY = 6
_SCRATCH = memoryview(bytearray(SHARED_BYTES))


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
            The number of bytes, 0 at the end of the stream, -1 if nothing has come yet.
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
            sent = send_octets(socket, octets, size, 0)
        else:
            with cython.nogil:
                sent = send_octets(socket, octets, size, 0)
        if sent == size:
            return
        if sent < 0:
            if sent not in {-EAGAIN, -EINTR}:
                self._on_lost(os.strerror(-sent))
                return
            sent = 0
        self.unsent.append(memoryview(whole)[sent:])
        self._watch()

    def send_joined(self) -> int:
        """Send the bytes and small ranges at the head of ``unsent`` in one call.

        Returns:
            The bytes sent, SOCKET_IS_FULL if not all of them were taken, IS_COLD if the head is a
            range that is not in memory.

        Raises:
            OSError: The peer or the file fails, or the file ends before the range does.
        """
        room = no_target()
        acquire_target(_SCRATCH, room)
        count, filled, got = join(self.unsent, room)
        if count:
            sent = send_octets(
                self.fileno, room.buf, filled, MSG_MORE if len(self.unsent) > count else 0
            )
            release_target(room)
        else:
            release_target(room)
            head = self.unsent[0]
            if isinstance(head, FileSlice):
                _check_read(got, head.position)
                return IS_COLD
            count = 1
            filled = len(head)
            sent = _send_large(self.fileno, head)
        if sent < 0:
            if sent in {-EAGAIN, -EINTR}:
                return SOCKET_IS_FULL
            raise OSError(-sent, os.strerror(-sent))
        if sent < filled:
            self.drop(sent)
            return SOCKET_IS_FULL
        while count:
            self.unsent.popleft()
            count -= 1
        return sent

    def is_in_memory(self, file: int, position: int) -> bool:
        """Tell whether a byte of a file can be had without waiting for the disk.

        Raises:
            OSError: The file fails, or ends before it.
        """
        room = no_target()
        acquire_target(_SCRATCH, room)
        got = read_resident(file, room.buf, 0, 1, position)
        release_target(room)
        _check_read(got, position)
        return got > 0

    def drop(self, sent: int) -> None:
        """Remove ``sent`` bytes from the head of ``unsent``: they have left."""
        unsent = self.unsent
        while sent:
            head = unsent[0]
            size = len(head)
            if sent >= size:
                unsent.popleft()
                sent -= size
                continue
            if isinstance(head, FileSlice):
                unsent[0] = FileSlice(head.file, head.position + sent, size - sent)
            else:
                unsent[0] = memoryview(head)[sent:]
            return

    def send(self, parts: "Sequence[bytes | memoryview | FileSlice]") -> None:
        """Send or queue ``parts`` in order."""
        raise NotImplementedError

    def _watch(self) -> None:
        """Continue to send when the socket has room."""
        raise NotImplementedError


def join(parts: "Iterable[bytes | memoryview | FileSlice]", room: "Region") -> tuple[int, int, int]:
    """Put bytes and small ranges into ``room`` as they follow each other, as long as there is room.

    Returns:
        How many parts, their bytes, and what reading the last range gave (see ``read_resident``).
    """
    region = no_region()
    count = filled = got = 0
    for part in parts:
        size = len(part)
        if (
            count == _JOINED_PARTS
            or filled + size > room.len
            or (isinstance(part, FileSlice) and size > INLINE_BYTES)
        ):
            break
        if isinstance(part, FileSlice):
            file = part.file.fileno()
            got = read_resident(file, room.buf, filled, filled + size, part.position)
            if got != size:
                break
        else:
            acquire(part, region)
            copy(room.buf, filled, region.buf, 0, size)
            release(region)
        filled += size
        count += 1
    return count, filled, got


def _send_large(socket: int, part: "bytes | memoryview") -> int:
    region = no_region()
    acquire(part, region)
    with cython.nogil:
        sent = send_octets(socket, region.buf, region.len, 0)
    release(region)
    return sent


def _check_read(got: int, position: int) -> None:
    """Raise OSError if ``read_resident`` failed, or found the end of the file."""
    if got == 0:
        raise OSError(errno.EIO, f"file ends before position {position + 1}")
    if got < 0 and got != -EAGAIN:
        raise OSError(-got, os.strerror(-got))


class LoopRound:
    """Serves the connections from one wait of the loop to the next (loop only).

    Connections that have bytes are served one after the other. Meanwhile the batches of their
    requests wait in their logs (`Appends`), their frames in ``shared`` below ``kept``, and their
    answers in the turns. At its end each log writes what waits by one call, and the answers leave
    one behind the other: a client with many connections, or many clients on one processor, wake up
    once.

    To wait costs a call of the loop's, so a client that was alone in a round is answered at once
    the next few times.
    """

    __slots__ = ("_alone", "_is_due", "_loop", "_turns", "appends", "kept", "shared")

    def __init__(self, loop: "asyncio.AbstractEventLoop", appends: "Appends") -> None:
        self.appends = appends
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.kept = 0
        self._loop = loop
        self._turns: list[Turn] = []  # that owe answers
        self._alone = 0  # so many turns yet do not wait for others
        self._is_due = False

    def is_open(self) -> bool:
        """Tell whether the turn that begins now may wait for others; call it once a turn."""
        if self._alone:
            self._alone -= 1
            return False
        return True

    def keep(self, filled: int) -> None:
        """Keep frames below ``filled`` if batches in them wait."""
        self.kept = filled if self.appends.logs else 0

    def add(self, turn: "Turn") -> None:
        """Have a turn's answers wait for the end of the round."""
        self._turns.append(turn)
        if len(self._turns) >= TURNS_PER_ROUND or self.kept > ROUND_BYTES:
            self.end()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._end_in_time)

    def end(self) -> None:
        """Write all that waits, and send all answers: each says what came of its own batches."""
        turns = self._turns
        if not turns:
            return
        self._turns = []
        self.kept = 0
        self._alone = ALONE if len(turns) == 1 else 0
        self.appends.write()
        self._answer(turns)

    def _end_in_time(self) -> None:
        self._is_due = False
        self.end()

    def _answer(self, turns: "list[Turn]") -> None:
        number = 0
        try:
            while number < len(turns):
                turn: Turn = turns[number]
                number += 1
                turn.answer()
        finally:  # one connection's fault must not keep the answers of the others
            if number < len(turns):
                self._loop.call_soon(self._answer, turns[number:])


def _has_rest(answers: list[Any]) -> bool:
    """Tell whether the last answer is not one frame, which would be sent with those before."""
    return len(answers) > 0 and not isinstance(answers[len(answers) - 1], (bytes, Unwritten))


def _is_produce(frames: memoryview, start: int, end: int) -> bool:
    """Tell whether a frame has the number of Produce, 0, behind its size."""
    return end - start >= _SIZE_AND_KEY and frames[start + 4] == 0 and frames[start + 5] == 0


class Turn:
    """Serves a connection when its socket has bytes: receive once, serve, send once (loop only).

    Received bytes that cannot be served yet stand in ``_tail``, at most one receive buffer of them.

    A base of `Connection` and not a part of it: the fields are the connection's, which its rarer
    ways change as well. What it leaves to them raises NotImplementedError here
    (docs/decisions/0015-compiled-bases.md).
    """

    __slots__ = (
        "_appends",
        "_channel",
        "_expects_large",
        "_frame",
        "_gate",
        "_held",
        "_limit",
        "_loop",
        "_owed",
        "_round",
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
        gate: "Gate",
        loop_round: LoopRound,
        limit: int,
    ) -> None:
        self.is_closed = False
        self.last_active = loop.time()
        self.received = 0  # bytes in all
        self._loop = loop
        self._channel = channel
        self._gate = gate
        self._round = loop_round
        self._shared = loop_round.shared
        self._limit = limit
        self._appends = loop_round.appends
        self._owed: list[Any] | None = None  # answers that wait for the end of the round
        self._tail = b""
        self._held = 0  # how much of the tail and the frame is counted
        self._frame: LargeBuffer | None = None
        self._expects_large = False
        self._task: asyncio.Task[None] | None = None

    def on_readable(self) -> None:
        """Take a turn: the loop calls this when the socket has bytes."""
        timer = self._gate.timer
        if timer is None:
            self._turn()
            return
        began = timer.begin()
        try:
            self._turn()
        finally:
            timer.end(self, began)

    def _turn(self) -> None:
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
        start = self._round.kept
        tail = self._tail
        kept = len(tail)
        if kept:
            self._shared[start : start + kept] = tail
        received = self._channel.receive(self._shared, start + kept, len(self._shared))
        if received > 0:
            self.received += received
            self._tail = b""
            self._serve(start, start + kept + received)
        elif received == 0:
            self.close()

    def _serve(self, start: int, filled: int) -> None:
        """Serve the complete frames of ``shared[start:filled]`` and send the answers together.

        It ends early at a request that must wait, at file ranges, and when others are due. Batches
        of several frames are written together, before the answers leave; so are those of several
        connections in a round.

        Raises:
            ProtocolError: As `_dispatch_all` and `_settle` do.
        """
        answers: list[Any] = []
        is_open = self._round.is_open()
        try:
            position, end, size = self._dispatch_all(start, filled, answers, is_open)
        except ProtocolError:
            self._send_joined(answers)
            raise
        self._round.keep(filled)
        reply = answers.pop() if _has_rest(answers) else None
        if isinstance(reply, list):
            if position < filled:
                self._keep(self._shared[position:filled], 0)
            try:
                self._settle(answers)
            except ProtocolError:
                self._send_joined(answers)
                raise
            self._send([*answers, *reply])
        else:
            if position < filled:
                self._keep(self._shared[position:filled], end - position)
            if reply is not None:
                try:
                    self._send_joined(answers)
                finally:
                    self._await(reply)
                return
            if is_open and size <= ROUND_BYTES:
                self.owe(answers)
            else:
                self._send_joined(answers)
        is_more = end <= filled if end > position else len(self._tail) > 0
        if is_more and not self._channel.unsent:
            self._loop.call_soon(self.resume)

    def _dispatch_all(
        self, start: int, filled: int, answers: list[Any], is_open: bool
    ) -> tuple[int, int, int]:
        """Put the answers of complete frames into ``answers``; all but the last are one frame each.

        With ``is_open`` batches wait for those of other connections if all answers are that.

        Returns:
            How far it came, where the next frame ends, and the size of the answers.

        Raises:
            ProtocolError: From `Gate.dispatch`, or a frame cannot have the size that it states.
        """
        shared = self._shared
        appends = self._appends
        position = start
        size = 0
        waits = False
        try:
            end = next_frame(shared, start, filled, self._limit)
            while end <= filled and len(answers) < FRAMES_PER_TURN and size < SHARED_BYTES:
                if appends.logs and not _is_produce(shared, position, end):
                    appends.write()
                    self._settle(answers)
                may_wait = is_open or end < filled or len(appends.logs) > 0
                reply = self._gate.dispatch(self, shared, position + 4, end, may_wait)  # type: ignore[arg-type]  # a Connection
                position = end
                if reply is not None:
                    answers.append(reply)
                    if isinstance(reply, bytes):
                        size += len(reply)
                    elif not isinstance(reply, Unwritten):
                        break
                end = next_frame(shared, position, filled, self._limit)
            waits = is_open and size <= ROUND_BYTES and not _has_rest(answers)
        finally:
            if not waits:
                appends.write()
        return position, end, size

    def owe(self, answers: list[Any]) -> None:
        """Send answers at the end of the round."""
        if self._owed is not None:
            self._owed += answers
        elif answers or self._appends.logs:
            self._owed = answers
            self._round.add(self)

    def answer(self) -> None:
        """Send what is owed."""
        owed = self._owed
        self._owed = None
        if not owed:
            return
        timer = self._gate.timer
        began = None if timer is None else timer.begin()
        try:
            self._send_joined(owed)
        except ProtocolError as error:
            if not self.is_closed:
                self._refuse(error)
        finally:
            if timer is not None:
                timer.end(self, began)

    def _settle(self, answers: list[Any]) -> None:
        """Make answers what is sent: what waited to be written is, or has failed.

        Raises:
            ProtocolError: One has none, and the connection must close; those before it are left.
        """
        place = 0
        while place < len(answers):
            answer = answers[place]
            if isinstance(answer, Unwritten):
                try:
                    answers[place] = encode(answer) or b""
                except ProtocolError:
                    del answers[place:]
                    raise
            place += 1

    def _send_joined(self, answers: list[Any]) -> None:
        """Send answers of one frame each together; raise ProtocolError as `_settle` does."""
        try:
            self._settle(answers)
        finally:
            whole = answers[0] if len(answers) == 1 else b"".join(answers)
            if whole:
                self._send(whole)

    def _send(self, answer: "bytes | Sequence[bytes | FileSlice]") -> None:
        if self._owed is not None:
            self._round.end()
        if self.is_closed:
            return
        if isinstance(answer, bytes):
            self._channel.send_bytes(answer)
        else:
            self._channel.send(answer)
        if self._channel.unsent:
            self._note_unread()

    def _go_on(self) -> None:
        """Wait for an answer that is owed, receive a large frame, or serve kept bytes."""
        raise NotImplementedError

    def _keep(self, rest: memoryview, frame_size: int) -> None:
        """Keep what was received and not served; it begins a frame of ``frame_size`` bytes."""
        raise NotImplementedError

    def _count(self) -> None:
        """Tell `Buffers` how many bytes are kept."""
        raise NotImplementedError

    def _note_unread(self) -> None:
        """Tell `Unread` that answers have not left."""
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
